"""What every kind of wired subject works in: its wiring's folder, its environment, the run's logs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from wirefault.core.files import private_folder, replace_shared
from wirefault.core.identity import BAGGAGE_HEADER, TRACEPARENT_HEADER, Identity
from wirefault.core.lab_folder import LIBRARY
from wirefault.history.writer import history_file
from wirefault.settings.configuration import Configuration, redactor
from wirefault.settings.settings import SettingsError
from wirefault.subjects.process import Printed
from wirefault.subjects.taps.tap import NO_TAP, Tap
from wirefault.wiring.links import SCRIPTED, Link
from wirefault.wiring.subject_spec import CommandSpec, ServiceSpec
from wirefault.wiring.topology import Topology, topology_file
from wirefault.wiring.wiring import Wiring

# The SDKs insist on a key, which the scripted model does not look at.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("OPENAI_API_KEY",),
    "openai_responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_PLACEHOLDER = "scripted-model"
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
# What the lab says to its own processes by variables that may have meant something else before.
_OF_THE_LAB = ("STATE_DB", "EFFECTS_DB", "LOGS_DIR", "PROMPTS_FILE", "LAB_ID")
_LAB_PREFIX = "WIREFAULT_"
# what was there of them before, as JSON
ORIGINAL_VARIABLE = "WIREFAULT_ORIGINAL"


def original_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Those of the surroundings' variables that the lab is about to say something else by."""
    return {name: environ[name] for name in _OF_THE_LAB if name in environ}


def run_environ(environ: Mapping[str, str], links: Iterable[Link], topology: Topology) -> dict[str, str]:
    """The surroundings' variables, and those that lead the subject to its links through the lab."""
    links = list(links)
    own = {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_LAB and not name.startswith(_LAB_PREFIX)
    } | json.loads(environ.get(ORIGINAL_VARIABLE) or "{}")
    addresses = {name: value for link in links for name, value in link_variables(link, topology).items()}
    return {**own, **_missing_keys(links, own), **_past_proxies(own), **addresses}


def link_variables(link: Link, topology: Topology) -> dict[str, str]:
    """The variables in which the subject finds the link. Of an MCP server over stdio: the command line that
    starts it, for a shell, and as JSON in one more variable."""
    variables = dict.fromkeys(link.env, link_address(link, topology))
    if link.is_stdio:
        variables |= {f"{name}_JSON": json.dumps(_shim_words(link, topology)) for name in link.env}
    return variables


def _shim_words(link: Link, topology: Topology) -> list[str]:
    file = topology_file(private_folder().resolve(), topology.lab_id, topology.lane)
    program = str(LIBRARY / "lab" / "program.py")
    return [sys.executable, "-P", program, "wirefault", "mcp", "--lab", str(file), "--link", link.name]


def link_address(link: Link, topology: Topology) -> str:
    """The URL of the link's upstream, behind its faults; of a server over stdio the command that starts it.

    Its path is what the client of that upstream expects: the upstream's own, and ``/v1`` where OpenAI's
    clients ask the scripted model.
    """
    if link.is_stdio:
        return shlex.join(_shim_words(link, topology))
    path = "/v1" if link.upstream == SCRIPTED and link.dialect.startswith("openai") else link.base_path
    return topology.proxies[link.name].url + path


def attempt_environ(identity: Identity) -> dict[str, str]:
    """Which attempt a process works on, and the headers by which its requests may say so."""
    headers = identity.headers("")
    return {
        "WIREFAULT_RUN": identity.run,
        "WIREFAULT_EPISODE": identity.episode,
        "WIREFAULT_ATTEMPT": str(identity.attempt),
        "TRACEPARENT": headers[TRACEPARENT_HEADER],
        "BAGGAGE": headers[BAGGAGE_HEADER],
    }


def _missing_keys(links: Iterable[Link], environ: Mapping[str, str]) -> dict[str, str]:
    """A placeholder for the key of each API that the scripted model speaks, if there is no key for it."""
    keys = [_KEYS.get(link.dialect, ()) for link in links if link.upstream == SCRIPTED]
    return {names[0]: _PLACEHOLDER for names in keys if names and not any(map(environ.get, names))}


def _past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """The lab is on loopback, whatever HTTP_PROXY says: no proxy is asked for what is there."""
    given = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    hosts = [host.strip() for host in given.split(",") if host.strip()]
    listed = ",".join(dict.fromkeys([*hosts, *_LOOPBACK_NAMES]))
    return {"NO_PROXY": listed, "no_proxy": listed}


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


def resolved_words(words: list[str], surroundings: Surroundings, key: str) -> list[str]:
    """The command with absolute paths of what lies beside the wiring's file, since it works elsewhere.

    Raises ``SettingsError`` if there is no such program.
    """
    program, *arguments = words
    if problem := program_problem(program, surroundings.folder, surroundings.environ):
        raise SettingsError(f"{surroundings.where}: subject.{key}: {problem}")
    if os.sep in program:
        program = str(surroundings.folder / program)
    return [program, *(_absolute(word, surroundings.folder) for word in arguments)]


def check_program(wiring: Wiring, environ: Mapping[str, str]) -> None:
    """Raises ``SettingsError`` if there is no program to start that wiring's subject by."""
    match wiring.subject:
        case CommandSpec(command=[program, *_]):
            key = "command"
        case ServiceSpec(service=[program, *_]):
            key = "service"
        case _:
            return
    if problem := program_problem(program, wiring.folder, environ):
        raise SettingsError(f"{wiring.file or 'the command line'}: subject.{key}: {problem}")


def program_problem(program: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Why the program cannot be run in that folder, in words; empty if it can."""
    named = str(folder / program) if os.sep in program else program
    if which(named, path=environ.get("PATH", os.defpath)) is not None:
        return ""
    if (folder / program).is_file():
        return f"{program!r} is a file and no program: name what runs it first, such as python or node"
    return f"there is no program {program!r}"


def _absolute(word: str, folder: Path) -> str:
    """A word that could be a subcommand is a folder's name only with a slash in it."""
    path = folder / word
    try:
        is_meant = path.is_file() or (path.is_dir() and (os.sep in word or word in (".", "..")))
    except (OSError, ValueError):  # too long for a name
        return word
    return os.path.normpath(path) if word and is_meant else word


def existing_folder(given: str, surroundings: Surroundings) -> Path:
    """The folder that the wiring names. Raises ``SettingsError`` if it is none."""
    folder = surroundings.working_folder(given)
    if not folder.is_dir():
        raise SettingsError(f"{surroundings.where}: subject.folder: there is no folder {folder}")
    return folder
