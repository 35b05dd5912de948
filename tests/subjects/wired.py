"""A wiring with a subject, opened without a lab: its links lead to addresses without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.support import replace, until
from wirefault.core.identity import Identity
from wirefault.core.sockets import Address
from wirefault.history.events import Event
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.opening import open_wired_subject
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult
from wirefault.wiring.topology import default_topology
from wirefault.wiring.wiring import load_wiring

LINKS = """
links:
  model: {upstream: scripted, dialect: anthropic, env: ANTHROPIC_BASE_URL}
  shop: {upstream: "http://127.0.0.1:9000/v2", env: [SHOP_URL, STORE_URL]}
"""


class Wired:
    """Files next to a wiring, and attempts at prompts of the run ``run-1``."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environ = dict(os.environ if environ is None else environ)
        self.events: list[Event] = []
        self.links = LINKS
        self.addresses: dict[str, Address] = {}  # of parts of the lab that are there, by their names
        self.proxies = {"model": Address("127.0.0.1", 6007), "shop": Address("127.0.0.1", 6001)}

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def configuration(self) -> Configuration:
        state, logs = self.folder / "state", self.folder / "logs"
        return Configuration(
            settings=self.settings(),
            topology=replace(default_topology("lab"), proxies=self.proxies, **self.addresses),
            environ=self.environ,
            prompts=self.folder / "prompts.json",
            logs=logs,
            state=state / "state.db",
            effects=state / "effects.db",
        )

    def settings(self, **fields: object) -> Settings:
        return Settings(**{"seed": 1, **fields})

    @contextmanager
    def opened(self, wiring: str) -> Iterator[Subject]:
        """The subject of a wiring file with that text."""
        loaded = load_wiring(self.file("wirefault.yaml", wiring))
        with open_wired_subject(loaded, self.configuration) as subject:
            yield subject

    def subject(self, yaml: str) -> AbstractContextManager[Subject]:
        """The subject with this specification, with the usual links."""
        return self.opened(f"{self.links}subject: {yaml}\n")

    def context(self, attempt: int = 1, turns: tuple[str, ...] = (), **settings: object) -> AttemptContext:
        identity = Identity("run-1", "episode", attempt)
        topology = self.configuration.topology
        return AttemptContext(identity, self.settings(**settings), topology, self.events.append, turns)

    def ask(self, yaml: str, prompt: str = "What is 6 * 7?", **settings: object) -> SubjectResult:
        """One attempt."""
        with self.subject(yaml) as subject:
            return subject(prompt, self.context(**settings))

    def attempt_file(self, name: str, attempt: int = 1) -> str:
        """The saved output of that attempt."""
        folder = self.folder / "logs" / "runs" / "run-1" / "attempts" / f"episode-{attempt}"
        return (folder / name).read_text(encoding="utf-8")


def alive(pid: int) -> bool:
    """Whether that process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pid_in(file: Path) -> int:
    """The number that a process wrote into the file, once it is there."""
    return int(until(lambda: file.exists() and file.read_text(encoding="utf-8").strip(), str(file)))
