"""The rebuild of memory from 10,000 recorded episodes, and the planner over them.

``python -m bench.memory_size [episodes] [experiment|search]`` records an experiment, or a search whose arms
have one episode each, and writes the recording again and again under new ids, through the real writer,
with seals and signatures. Facts that the recording stored are left out, as after an update of Wirefault, so
that every episode is judged. The figures are seconds of CPU of this process, and of the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from wirefault.experiments.evidence import sign_recording
from wirefault.experiments.index import saved_ids
from wirefault.history.events import EpisodeJudged, RunSealed, SealedFile
from wirefault.history.lines import dump_event, event_start, unlinked
from wirefault.history.writer import Writer, history_file
from wirefault.memory.histories import rebuilt
from wirefault.memory.planner.evidence import prompt_of
from wirefault.memory.planner.planner import Planner
from wirefault.memory.store import Memory

RECORDED = {
    "experiment": ("run", "experiments/lost-replies.yaml", "--repeats", "10"),
    "search": ("search", "next", "experiments/careless-agent.yaml", "--run", "--budget", "100"),
}
"""The words that record it."""


def recorded(kind: str, folder: Path) -> Path:
    """Record in the folder; return its logs."""
    words = [sys.executable, "-m", "wirefault", *RECORDED[kind], "--out", str(folder)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder / "logs"


def repeat_recording(source: Path, target: Path, name: str, new_name: str) -> int:
    """Write a recording below ``source`` again below ``target``; return its number of episodes."""
    home = target / "experiments" / new_name
    home.mkdir(parents=True)
    for file in (source / "experiments" / name).iterdir():
        if file.is_file():
            home.joinpath(file.name.replace(name, new_name)).write_bytes(
                file.read_bytes().replace(name.encode(), new_name.encode())
            )
    seals = {}
    episodes = 0
    for run in sorted((source / "runs").glob(f"{name}*")):
        run_id = run.name.replace(name, new_name)
        seals[run_id], own = _repeat_run(run, target, run_id, (name, new_name))
        episodes += own
    with (target / "info.log").open("a", encoding="utf-8") as log:
        for line in (source / "info.log").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line.replace(name, new_name))
            if entry.get("seal"):
                entry["seal"] = seals[entry["run_id"]]
            log.write(json.dumps(entry, ensure_ascii=False) + "\n")
    sign_recording(target, new_name)
    return episodes


def _repeat_run(run: Path, target: Path, run_id: str, names: tuple[str, str]) -> tuple[str, int]:
    """Write the files of a run again, the runner's last; return its seal and its number of episodes."""
    heads: dict[str, SealedFile] = {}
    seal, episodes = "", 0
    for file in sorted(run.glob("*.jsonl"), key=lambda path: path.name.startswith("agent")):
        process, _, lane = file.stem.rpartition("-")
        writer = Writer(history_file(target, run_id, process, int(lane)))
        records = [
            (unlinked(line) or line).decode().replace(*names).encode()
            for line in file.read_bytes().splitlines()
        ]
        if records[-1].startswith(event_start(RunSealed)):
            records[-1] = dump_event(RunSealed(heads))
        writer.write_lines(records)
        writer.close()
        heads[file.name] = SealedFile(len(records), writer.head)
        episodes += sum(record.startswith(event_start(EpisodeJudged)) for record in records)
        seal = writer.head
    return seal, episodes


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print the seconds of CPU and of the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    yield
    print(
        f"{what}: {time.process_time() - cpu:.2f} s of CPU, {time.perf_counter() - clock:.2f} s", flush=True
    )


def main(count: int, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, logs = recorded(kind, Path(folder) / "once"), Path(folder) / "logs"
        [name] = saved_ids(source)
        written = number = 0
        while written < count:
            number += 1
            written += repeat_recording(source, logs, name, f"20260101-{number:06}-aaaaaa")
        print(f"{written} episodes, {number} recordings of the kind {kind}", flush=True)
        memory = Memory(logs)
        with measured("rebuild"):
            remembered, skipped = rebuilt(memory, logs, {"LOGS_DIR": str(logs)})
        if skipped or remembered < count:
            raise SystemExit(f"only {remembered} episodes remembered; skipped: {skipped}")
        prompts = sorted({prompt_of(each.key) for each in memory.episodes()})
        with measured("search next: read memory, propose five"):
            planner = Planner(memory.episodes())
            cells = planner.cells(prompts)
            for proposal in islice(planner.proposals(cells), 5):
                planner.experiment({"wiring": "lab"}, proposal)
        print(f"of {len(cells)} cells")


if __name__ == "__main__":
    main(int((sys.argv[1:2] or ["10000"])[0]), (sys.argv[2:3] or ["experiment"])[0])
