"""Send a signal at a random time to a random process of a lab, many times: ``python -m bench.signals``.

Each trial starts one command in a new folder, waits for a random part of its usual time, and sends one
signal to one of its processes: the command, a server of the lab, the run, a tap, the agent or its child. It
then lists what is left: processes, mounts, toxics on a shared Toxiproxy, files in the private folder, and
whether the command hung or printed a traceback. The seed determines the trials; times are approximate.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import rmtree
from threading import Thread

from wirefault.toxiproxy.client import ToxiproxyClient

SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT),
    signal.SIGSTOP,  # followed by SIGCONT
)
HANG_S = 90.0
"""A command that is still running this long after its signal hangs."""
_ORPHAN_S = 12.0
_STOPPED_S = 1.0
_POLL_S = 0.05
_MARK = "SIGNALS_TRIAL"
_WIREFAULT = (sys.executable, "-m", "wirefault")

# It sends requests for two seconds. Its child is in another session and would run for minutes.
AGENT = """
import os, subprocess, sys, time, urllib.request
url = os.environ.get("SHOP_URL") or sys.argv[1]
subprocess.Popen(["sleep", "300"], start_new_session=True)
for number in range(8):
    try:
        urllib.request.urlopen(urllib.request.Request(url + "/orders", b"{}"), timeout=5).read()
    except OSError as error:
        print("failed:", error)
    time.sleep(0.25)
print("done")
"""
EXPERIMENT = {
    "title": "Signals",
    "only": ["1", "2", "14"],
    "repeats": 4,
    "method": {
        "faults": {
            "faults": [{"fault": "lose_reply", "links": "writes", "when": {"probability": 0.5}}],
            "toxics": [{"toxic": "latency", "links": "tools", "with": {"latency": 300}}],
        }
    },
    "hypothesis": ["no duplicate"],
}
_SLOW = ("--toxic-prob", "1", "--toxics", "latency:300", "--error-prob", "0.2", "--no-charts")
_PROMPTS = ("--prompt", "What is the weather in Paris?", "--prompt", "Send Bob the message hi") * 3


def _commands(shop: str, shared: str) -> Mapping[str, Sequence[Sequence[str]]]:
    """Return the commands of each mode, by name. ``lab down``, at the end of some, gets no signal."""
    agent = (sys.executable, "agent.py", shop)
    wirefault = _WIREFAULT
    embedded = ("--toxiproxy", "embedded")
    link = ("--link", f"shop={shop}", "--prompt", "order", *embedded)
    down = (*wirefault, "lab", "down")
    return {
        "demo": [(*wirefault, "demo", *_SLOW, *_PROMPTS, *embedded)],
        "demo, shared Toxiproxy": [(*wirefault, "demo", *_SLOW, *_PROMPTS, "--toxiproxy", shared)],
        "experiment, 2 lanes": [(*wirefault, "run", "exp.json", "--workers", "2", *embedded)],
        "exec, namespace": [(*wirefault, "exec", "--tap", "namespace", *embedded, "--", *agent)],
        "exec, proxy": [(*wirefault, "exec", "--tap", "proxy", *embedded, "--", *agent)],
        "run, command": [(*wirefault, "run", *link, "--", *agent)],
        "lab up": [(*wirefault, "lab", "up", *embedded), down],
        "run --lab": [(*wirefault, "lab", "up", *embedded), (*wirefault, "run", "--lab", *_PROMPTS), down],
    }


MODES = tuple(_commands("", ""))


@dataclass
class Trial:
    """One signal, and the remains after it."""

    number: int
    mode: str
    signal: str
    after_s: float
    target: str = ""
    """The process that got the signal; empty if all had ended."""
    codes: list[int] = field(default_factory=list)
    """Exit codes of the mode's commands."""
    left: list[str] = field(default_factory=list)
    """Remains that should not exist, in words."""


class _Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        return


@contextmanager
def upstreams() -> Iterator[tuple[str, str]]:
    """Serve the agents' shop and a shared Toxiproxy; yield their URLs."""
    shop = ThreadingHTTPServer(("127.0.0.1", 0), _Shop)
    Thread(target=shop.serve_forever, daemon=True).start()
    words = [*_WIREFAULT, "toxiproxy", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as toxiproxy:
        assert toxiproxy.stdout is not None
        url = next(word for line in toxiproxy.stdout for word in line.split() if word.startswith("http://"))
        try:
            yield f"http://127.0.0.1:{shop.server_port}", url.rstrip("/.,;")
        finally:
            toxiproxy.terminate()
            shop.shutdown()
            shop.server_close()


def carry_out(trial: Trial, folder: Path, shop: str, shared: str) -> Trial:
    """Run the trial's commands in the folder and record the remains."""
    folder.mkdir(parents=True)
    (folder / "p").mkdir(mode=0o700)
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "exp.json").write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    mark = f"{os.getpid()}-{trial.number}"
    environ = {**os.environ, _MARK: mark, "XDG_STATE_HOME": str(folder / "p"), "PYTHONUNBUFFERED": "1"}
    commands = _commands(shop, shared)[trial.mode]
    with (folder / "output.txt").open("wb") as output:
        for place, command in enumerate(commands):
            start = partial(
                subprocess.Popen, command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output
            )
            with start(stderr=subprocess.STDOUT, start_new_session=True) as process:
                gets_signal = place == (1 if len(commands) == 3 else 0)
                if gets_signal:
                    _send_signal(trial, mark, process)
                try:
                    trial.codes.append(process.wait(HANG_S))
                except subprocess.TimeoutExpired:
                    trial.left.append(f"hang: {' '.join(command[2:5])}")
                    process.kill()
    trial.left += _orphans(mark)
    trial.left += [f"mount: {mount}" for mount in _mounts(folder)]
    private = (path.name for path in (folder / "p").glob("wirefault/*"))
    trial.left += [f"private file: {name}" for name in private if name != "signing_key"]
    if "shared" in trial.mode:
        trial.left += _toxics(shared, folder)
    printed = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")
    logs = [*(folder / ".wirefault" / "logs").glob("lab/**/*.log")]
    printed += "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
    if "Traceback (most recent call last)" in printed:
        trial.left.append(f"traceback: {printed.strip().splitlines()[-1][:120]}")
    return trial


def _send_signal(trial: Trial, mark: str, process: subprocess.Popen[bytes]) -> None:
    """Wait, then send the signal to one of the trial's processes. The trial's number selects it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(trial.after_s)
    pids = _processes(mark)
    if not pids:
        return
    pid = random.Random(trial.number).choice(sorted(pids))
    trial.target = pids[pid]
    with suppress(ProcessLookupError):
        os.kill(pid, signal.Signals[trial.signal])
        if trial.signal == "SIGSTOP":
            time.sleep(_STOPPED_S)
            os.kill(pid, signal.SIGCONT)


def _processes(mark: str) -> dict[int, str]:
    """Return the commands of the processes with that mark in their environment, by process id."""
    wanted = f"{_MARK}={mark}".encode()
    pids: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                pids[int(entry.name)] = " ".join(Path(word).name for word in words if word)[:100]
    return pids


def _orphans(mark: str) -> list[str]:
    """Kill and return the processes that are still running some time after all commands ended."""
    end = time.monotonic() + _ORPHAN_S
    while (left := _processes(mark)) and time.monotonic() < end:
        time.sleep(_POLL_S)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [f"orphan: {words}" for words in left.values()]


def _mounts(folder: Path) -> set[str]:
    """Return the mounts below the folder, or of a file in it."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4] for line in lines if str(folder) in line}


def _toxics(url: str, folder: Path) -> list[str]:
    """Return the proxies of the folder's labs on the shared server, with the number of their toxics."""
    labs = {path.name for path in (folder / ".wirefault" / "logs" / "lab").glob("lab-*")}
    with ToxiproxyClient(url) as client:
        proxies = client.proxies()
    names = [name for name in proxies if not labs or any(name.startswith(lab) for lab in labs)]
    return [f"proxy: {name} with {len(proxies[name].toxics)} toxics" for name in names]


def usual_seconds(folder: Path, modes: Sequence[str], shop: str, shared: str) -> dict[str, float]:
    """Return the seconds of each mode without a signal. Remains are a failure of this script."""
    seconds = {}
    for number, mode in enumerate(modes):
        began = time.monotonic()
        trial = carry_out(Trial(-1 - number, mode, "SIGCONT", 0.0), folder / f"usual-{number}", shop, shared)
        assert not trial.left, trial
        seconds[mode] = time.monotonic() - began
    return seconds


def drawn_trials(seed: int, count: int, seconds: Mapping[str, float]) -> list[Trial]:
    """Return the seed's trials, in turn over the modes."""
    draws = random.Random(seed)
    modes = list(seconds)
    return [
        Trial(
            number,
            modes[number % len(modes)],
            draws.choice(SIGNALS).name,
            round(draws.uniform(0.1, seconds[modes[number % len(modes)]]), 3),
        )
        for number in range(count)
    ]


def carry_out_all(
    trials: Sequence[Trial], folder: Path, shop: str, shared: str, at_once: int, say: Callable[[Trial], None]
) -> list[Trial]:
    """Carry out the trials, ``at_once`` in parallel; remove the folders of trials without remains."""

    def one(trial: Trial) -> Trial:
        own = folder / f"t{trial.number}"
        carry_out(trial, own, shop, shared)
        if not trial.left:
            rmtree(own, ignore_errors=True)
        say(trial)
        return trial

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, trials))


def main() -> int:
    """Return 0 if no trial has remains."""
    parser = argparse.ArgumentParser(prog="python -m bench.signals", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="*", help="numbers of trials")
    arguments = parser.parse_args()
    # short, since it is part of the path of a Unix socket
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    with upstreams() as (shop, shared):
        seconds = usual_seconds(folder, MODES, shop, shared)
        print("usual seconds:", {mode: round(took, 1) for mode, took in seconds.items()}, flush=True)
        trials = drawn_trials(arguments.seed, arguments.count, seconds)
        if arguments.only:
            trials = [trials[number] for number in arguments.only]

        def say(trial: Trial) -> None:
            what = "; ".join(trial.left) or "nothing"
            where = f"{trial.signal} to {trial.target or 'no process'} after {trial.after_s:.1f} s"
            print(f"{trial.number:3} {trial.mode}: {where}: {trial.codes} left {what}", flush=True)

        done = carry_out_all(trials, folder, shop, shared, arguments.at_once, say)
    bad = [trial for trial in done if trial.left]
    kinds = Counter(left.partition(":")[0] for trial in bad for left in trial.left)
    signalled = sum(bool(trial.target) for trial in done)
    print(f"{signalled} signals in {len(done)} trials; {len(bad)} left something: {dict(kinds)}")
    if bad:
        print(f"their folders: {folder}")
    else:
        rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
