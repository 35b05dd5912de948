"""The planner over a memory of 10,000 episodes.

``python -m bench.memory_size [episodes]`` prints the seconds of CPU to store and to read them, and until five
proposals are ready, on made-up episodes. Histories are not judged here.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from random import Random

from wirefault.memory.episodes import Episode, RememberedCall, RememberedFault, RememberedFinding
from wirefault.memory.planner.planner import Planner
from wirefault.memory.store import Memory

LINKS = [f"link{number}" for number in range(8)]
FAULTS = ("hang", "lose_reply", "unavailable", "wrong_value", "server_error")
PROMPTS = [f"p{number}" for number in range(20)]


def made_up_episodes(count: int) -> list[Episode]:
    """Every fourth one is clean; the others meet one fault, and seven in ten succeed."""
    chance = Random(1)
    calls = tuple(
        RememberedCall(
            link,
            f"POST /things/{link}",
            1,
            "write" if place % 2 else "read",
            {"method": "POST", "path": f"/things/{link}"},
            executed=bool(place % 2),
        )
        for place, link in enumerate(LINKS)
    )
    return [_episode(number, chance, calls) for number in range(count)]


def _episode(number: int, chance: Random, calls: tuple[RememberedCall, ...]) -> Episode:
    source, run, key = f"e{number // 100}", f"r{number // 20}", PROMPTS[number % len(PROMPTS)]
    used = {f"link {link}": True for link in LINKS}
    at = float(number)
    if number % 4 == 0:
        return Episode(
            source, "control", run, key, "subject a", at, 1.5, "success", "success", used=used, calls=calls
        )
    link, fault, fine = chance.choice(LINKS), chance.choice(FAULTS), chance.random() < 0.7
    components = (f"link {link}", f"tool {link} POST /things/{link}")
    return Episode(
        source,
        f"m-{fault}",
        run,
        key,
        "subject a",
        at,
        1.5,
        "success" if fine else "failure",
        "success" if fine else "failure",
        "control",
        (RememberedFault(fault, link, components, {"limit": 2.0, "probability": 1.0}, fault),),
        used=used,
        findings=() if fine else (RememberedFinding("write_repeated", components[:1]),),
    )


def main(count: int) -> None:
    episodes = made_up_episodes(count)
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder))
        memory.path.parent.mkdir()
        began = time.process_time()
        memory.rebuild(episodes, ["e0"], {})
        print(f"store {count} episodes: {time.process_time() - began:.2f} s of CPU")
        began = time.process_time()
        planner = Planner(memory.episodes())
        print(f"read them: {time.process_time() - began:.2f} s of CPU")
        cells = planner.cells(PROMPTS)
        for proposal in islice(planner.proposals(cells), 5):
            planner.experiment({"wiring": "lab"}, proposal)
        print(f"five of {len(cells)} cells proposed: {time.process_time() - began:.2f} s of CPU in all")


if __name__ == "__main__":
    main(*[int(word) for word in sys.argv[1:2]] or [10_000])
