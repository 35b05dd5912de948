"""Memory and descriptors of a lab under kept-alive clients and many episodes: ``python -m bench.soak``.

Target: after the first tenth no process grows by more than a tenth in memory or by more than 8 descriptors.
The whole soak is 3,600 s at 200 clients, then 20,000 episodes; ``--seconds`` and ``--episodes`` shorten it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench.lab import in_folder
from wirefault.core.identity import new_run_id
from wirefault.core.sockets import Address
from wirefault.experiments.planned_prompts import dump_prompts
from wirefault.lab.launcher import Lab
from wirefault.lab.own_lab import RunningLab
from wirefault.lab.process import ProcessLog, interruptible
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt, PromptsSource

_LANES = 2
_RUN = 500
"""Episodes of one run."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CITIES = ("Paris", "London", "Rome", "Tokyo", "Cairo")
_SAMPLE_S = 2.0
_GROWTH = 1.1
# an idle pool of connections, which opens and closes
_MORE_DESCRIPTORS = 8


@dataclass(frozen=True)
class Use:
    """Resident memory and number of descriptors of a process."""

    megabytes: float
    descriptors: int


def used_by(pid: int) -> Use:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return Use(round(pages * _PAGE / 1e6, 1), len(list(Path(f"/proc/{pid}/fd").iterdir())))


class Watch:
    """Samples of all processes of the lab and of this process."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.samples: list[dict[str, Use]] = []

    def sample(self) -> None:
        pids = {**self._lab.pids(), "launcher": os.getpid()}
        self.samples.append({name: used_by(pid) for name, pid in pids.items()})

    def grown(self) -> list[str]:
        """Return the processes that use more at the end than after the first tenth, in words."""
        first, last = self.samples[len(self.samples) // 10], self.samples[-1]
        return [
            f"{name}: {first[name]} to {use}"
            for name, use in last.items()
            if use.megabytes > first[name].megabytes * _GROWTH
            or use.descriptors > first[name].descriptors + _MORE_DESCRIPTORS
        ]

    def show(self, what: str) -> bool:
        """Print first, middle and last use of each process; return whether no process has grown."""
        places = [len(self.samples) // 10, len(self.samples) // 2, -1]
        for name in self.samples[-1]:
            figures = [self.samples[place][name] for place in places]
            text = ", ".join(f"{use.megabytes} MB {use.descriptors} fds" for use in figures)
            print(f"{what}: {name:12} {text}", flush=True)
        for grown in self.grown():
            print(f"{what}: grown: {grown}", flush=True)
        return not self.grown()


def soak_episodes(lab: Lab, running_lab: RunningLab, folder: Path, settings: Settings, episodes: int) -> bool:
    """Run ``episodes`` episodes, in runs of some hundred on each lane."""
    watch, began = Watch(lab), time.monotonic()
    watch.sample()

    def run_lane(lane: int) -> int:
        left = episodes // _LANES
        while left > 0:
            prompts = [
                Prompt(f"e{number}", f"What is the temperature in {_CITIES[number % 5]} right now?", None)
                for number in range(min(left, _RUN))
            ]
            run_id = f"{new_run_id()}.{lane}"
            file = folder / f"{lane}.json"
            file.write_text(dump_prompts(prompts), encoding="utf-8")
            document = run_document(run_id, settings, PromptsSource(str(file)))
            code = running_lab.run(document, ProcessLog(folder, folder / f"{lane}.txt"), lane)
            if code:
                raise RuntimeError(f"run {run_id} ended with {code}")
            left -= len(prompts)
        return 0

    with ThreadPoolExecutor(_LANES) as pool:
        running = [pool.submit(run_lane, lane) for lane in range(_LANES)]
        while not all(each.done() for each in running):
            time.sleep(_SAMPLE_S)
            watch.sample()
        for each in running:
            each.result()
    size = sum(file.stat().st_size for file in folder.glob("logs/runs/*/*.jsonl"))
    took = time.monotonic() - began
    print(f"episodes: {episodes} in {took:.0f} s, {size / episodes:.0f} bytes of history each", flush=True)
    return watch.show("episodes")


def soak_clients(lab: Lab, clients: int, seconds: float, pause_s: float) -> bool:
    """Run ``clients`` clients, each with one connection to a link's proxy and a pause after each reply."""
    watch = Watch(lab)
    requests = 0

    async def client(address: Address, until: float) -> None:
        nonlocal requests
        reader, writer = await asyncio.open_connection(address.host, address.port)
        words = b"GET /serp?q=x HTTP/1.1\r\nHost: lab\r\n\r\n"
        while time.monotonic() < until:
            writer.write(words)
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(
                int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            await reader.readexactly(size)
            requests += 1
            await asyncio.sleep(pause_s)
        writer.close()

    async def all_clients() -> None:
        until = time.monotonic() + seconds
        address = lab.topology.proxies["search"]
        await asyncio.gather(*(client(address, until) for _ in range(clients)))

    thread = threading.Thread(target=lambda: asyncio.run(all_clients()))
    thread.start()
    time.sleep(min(_SAMPLE_S, seconds / 2))  # all connections are open
    while thread.is_alive():
        watch.sample()
        thread.join(_SAMPLE_S)
    print(f"keep-alive: {requests} requests of {clients} clients in {seconds:.0f} s", flush=True)
    return watch.show("keep-alive")


def main() -> int:
    """Return 0 if no process has grown."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between a client's requests")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(seed=1, toxic_prob=0.1, error_prob=0.1)
        configuration = replace(in_folder(folder), settings=settings)
        with interruptible() as interrupted, Lab(configuration, Choice("embedded"), lanes=_LANES) as lab:
            running_lab = RunningLab(lab, interrupted, lambda _: None)
            flat = (
                [soak_clients(lab, arguments.clients, arguments.seconds, arguments.pause)]
                if arguments.seconds
                else []
            )
            if arguments.episodes:
                flat.append(soak_episodes(lab, running_lab, folder, settings, arguments.episodes))
    return 0 if all(flat) else 1


if __name__ == "__main__":
    sys.exit(main())
