"""``wirefault demo`` as a user starts it, and the processes that remain."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cli_process import PROGRAM, CliProcess
from tests.support import RUN_PATIENCE_S, until
from wirefault.history.events import Event, RunFinished
from wirefault.history.reader import read_history

PARTS = {
    "wirefault.toxiproxy.embedded": "toxiproxy",
    "toxiproxy": "toxiproxy",
    "flask_tools": "tools",
    "wirefault.model_server": "model",
    "wirefault.gateway": "gateway",
    "wirefault.gateway.intercept": "ingress",
    "proxy_manager": "manager",
    "wirefault.cli.run_process": "agent",
    "wirefault.lab.fork_server": "fork server",
    "wirefault.lab.daemon": "launcher",
}
SLOW = ("--toxic-prob", "1", "--toxics", "latency:700", "--error-prob", "0", "--seed", "1")
CALM = ("--toxic-prob", "0", "--error-prob", "0", "--seed", "1")
# for `until`: not often, because a look at all processes costs
SELDOM = {"patience": RUN_PATIENCE_S, "interval": 0.05}
# a subject that stays in its attempt until killed: without the lab's agent a demo costs half as much
WAITING = """
import time
from contextlib import contextmanager

def wait(prompt, context):
    time.sleep(3600)

@contextmanager
def open_it(configuration):
    yield wait
"""
# limits the size of files, like a full disk
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def environ_in(folder: Path, **more: str) -> dict[str, str]:
    """Without a Toxiproxy on the path, unless ``PATH`` is given."""
    own = {name: value for name, value in os.environ.items() if name != "TOXIPROXY_URL"}
    return {**own, "PATH": "/usr/bin:/bin", **more}


def processes(folder: Path) -> dict[str, int]:
    """The processes that work in that folder, by part of the lab, without its launcher in the foreground.

    A process forked by ``tests/cli_process.py`` has the variables of another, but works in the folder. Of two
    for one part the first counts: the other is its child, just before it becomes another program.
    """
    wanted = f"STATE_DB={folder / 'state' / 'state.db'}".encode()
    pids: dict[str, int] = {}
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda entry: int(entry.name)):
        try:
            environ, line = ((entry / name).read_bytes().split(b"\0") for name in ("environ", "cmdline"))
        except (OSError, ValueError):
            continue
        words = [word.decode() for word in line]
        if (wanted in environ or _is_in(entry, folder)) and words[0] and not _is_launcher(words):
            pids.setdefault(_part(words), int(entry.name))
    return pids


def _is_launcher(words: list[str]) -> bool:
    """Whether it was started by a test; the lab's own processes are started by ``lab/program.py``."""
    return PROGRAM in words or words[1:3] == ["-m", "wirefault"]


def _is_in(entry: Path, folder: Path) -> bool:
    with suppress(OSError):  # it has ended
        return (entry / "cwd").readlink() == folder
    return False


def _part(words: list[str]) -> str:
    for number, word in enumerate(words[:-1]):
        if word == "-m" or word.endswith("/lab/program.py"):
            return PARTS.get(words[number + 1], " ".join(words))
    return PARTS["toxiproxy"] if "toxiproxy" in words[0] else " ".join(words)


@dataclass
class Ended:
    """End of a demo. ``left``: remaining processes; ``private``: private files."""

    code: int
    output: str
    left: dict[str, int]
    events: list[Event]
    torn: int
    private: list[str]

    @property
    def finished(self) -> RunFinished | None:
        return next((event for event in self.events if isinstance(event, RunFinished)), None)


class Demo:
    """One call of ``wirefault demo`` with many prompts, in its own folder."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        prompts: int = 30,
        path: str = "/usr/bin:/bin",
        file_limit: int | None = None,
        subject: str = "",
        fresh: bool = False,
    ) -> None:
        """``fresh``: a new interpreter that imports everything, like a user's."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._before: set[Path] = set()
        self._before = set(self.runs())
        file = folder / "prompts.json"
        file.write_text(json.dumps([{"prompt": "What is the temperature in Paris right now?"}] * prompts))
        words = ["demo", "--no-charts", "--out", str(folder), "--prompts", str(file), *arguments]
        if subject:
            (folder / "own_subject.py").write_text(subject)
            words += ["--subject", "own_subject:open_it"]
        command = [sys.executable, "-m", "wirefault", *words]
        if file_limit is not None:
            command = [sys.executable, "-c", LIMITED, str(file_limit), *command]
        started = command if fresh or file_limit is not None else ()
        self.process = CliProcess(
            folder, environ_in(folder, PATH=path, XDG_STATE_HOME=str(folder / "p")), *words, command=started
        )

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        """Its processes end with it."""
        with self.process:
            self.process.kill()

    def wait_for(self, *parts: str) -> dict[str, int]:
        """Until these processes run; their ids."""

        def running() -> dict[str, int]:
            pids = processes(self.folder)
            return pids if pids.keys() >= set(parts) else {}

        return until(running, f"{parts} to run", **SELDOM)

    def wait_until_in_an_attempt(self) -> None:
        def armed() -> bool:
            files = (run / "agent-0.jsonl" for run in self.runs())
            return any(file.exists() and b'"attempt_armed"' in file.read_bytes() for file in files)

        until(lambda: armed() or self.process.poll() is not None, "an attempt", **SELDOM)
        assert self.process.poll() is None, self.process.output()

    def kill(self, part: str, number: int = signal.SIGKILL) -> None:
        os.kill(self.wait_for(part)[part], number)

    def end(self) -> Ended:
        """Wait until the demo has ended; if it was killed, also until its processes have."""
        self.process.wait()
        if self.process.returncode < 0:
            until(lambda: not processes(self.folder), "the end of all processes", **SELDOM)
        output = self.process.output()
        histories = [read_history(self.folder / "logs", run.name) for run in self.runs()]
        events = [event for history in histories for event in history.events()]
        torn = sum(history.torn for history in histories)
        left, private = processes(self.folder), self.private()
        return Ended(self.process.returncode, output, left, events, torn, private)

    def private(self) -> list[str]:
        """The files of labs and taps in the private folder."""
        return sorted(
            path.name for path in (self.folder / "p").glob("wirefault/*") if path.name != "signing_key"
        )

    def runs(self) -> list[Path]:
        return sorted(set((self.folder / "logs" / "runs").glob("*")) - self._before)
