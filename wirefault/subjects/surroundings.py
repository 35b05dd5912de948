"""What every kind of wired subject works in: its wiring's folder, its environment, the run's logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wirefault.core.identity import Identity
from wirefault.core.shared_files import replace_shared
from wirefault.history.writer import history_file
from wirefault.settings.configuration import Configuration, redactor
from wirefault.subjects.kept_output import Printed
from wirefault.subjects.taps.tap import NO_TAP, Tap
from wirefault.subjects.variables import link_address, run_environ
from wirefault.wiring.wiring import Wiring


@dataclass(frozen=True)
class Surroundings:
    """``folder`` is the wiring file's; ``environ`` has the addresses of the links, ``links`` too, by name.

    ``redact`` takes secrets out of a text. What ``tap`` needs of the environment is in there.
    """

    where: str
    folder: Path
    logs: Path
    environ: Mapping[str, str]
    links: Mapping[str, str]
    redact: Callable[[str], str]
    tap: Tap = NO_TAP

    def working_folder(self, given: str) -> Path:
        """The folder that a wiring names, relative to its file; that file's own if it names none."""
        return self.folder / given if given else self.folder


def surroundings_of(wiring: Wiring, configuration: Configuration, tap: Tap = NO_TAP) -> Surroundings:
    """Those of a run of that wiring, whose subject is behind that tap."""
    topology = configuration.topology
    return Surroundings(
        where=wiring.file or "the command line",
        folder=wiring.folder.absolute(),
        logs=configuration.logs.absolute(),
        environ=tap.environ(run_environ(configuration.environ, wiring.links, topology)),
        links={link.name: link_address(link, topology) for link in wiring.links},
        redact=redactor(configuration.environ),
        tap=tap,
    )


class AttemptFiles:
    """``logs/runs/<run>/attempts/<episode>-<attempt>/``: what an attempt leaves beside its events."""

    def __init__(self, surroundings: Surroundings, identity: Identity) -> None:
        self._logs = surroundings.logs
        self._redact = surroundings.redact
        run = history_file(self._logs, identity.run, "agent", 0).parent
        self.folder = run / "attempts" / f"{identity.episode}-{identity.attempt}"

    def make_work_folder(self) -> Path:
        """An empty folder for a process that works in none of its own."""
        folder = self.folder / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def remove_if_empty(self) -> None:
        """Removes the folder that nothing was put into."""
        with suppress(OSError):
            (self.folder / "work").rmdir()
            self.folder.rmdir()

    def keep(self, name: str, printed: Printed) -> None:
        """Keeps it, if it is anything, without secrets. Raises ``OSError``."""
        if printed.end:
            text = self._redact(printed.as_file().decode("utf-8", "surrogateescape"))
            data = text.encode("utf-8", "surrogateescape")
            replace_shared(self._logs, self.folder / name, data)
