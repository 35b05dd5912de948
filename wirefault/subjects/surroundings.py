"""The environment that a wired subject runs in: its folder, its variables, the run's logs, its command."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from wirefault.core.files import private_folder, replace_shared
from wirefault.core.identity import BAGGAGE_HEADER, TRACEPARENT_HEADER, Identity
from wirefault.core.lab_folder import LIBRARY
from wirefault.core.redaction import SECRET, Redaction
from wirefault.dialects.mcp import MCP
from wirefault.history.writer import history_file
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects.functions.connections import VARIABLE as FUNCTIONS_VARIABLE
from wirefault.subjects.process import OutputTail
from wirefault.subjects.taps.tap import NO_TAP, Tap
from wirefault.wiring.links import FUNCTIONS_HOST, FUNCTIONS_PORT, RETURN_PORT, SCRIPTED, Link
from wirefault.wiring.subject_spec import CommandSpec, PythonSpec, ServiceSpec
from wirefault.wiring.topology import Topology, topology_file
from wirefault.wiring.wiring import Wiring

# The SDKs require a key; the scripted model ignores it.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "openai_chat": ("OPENAI_API_KEY",),
    "openai_responses": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_PLACEHOLDER = "scripted-model"
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
# Variables that the lab sets for its own processes, and that the user may have set before.
_LAB_VARIABLES = ("STATE_DB", "EFFECTS_DB", "LOGS_DIR", "PROMPTS_FILE", "LAB_ID", "MOVIES_FILE")
_LAB_PREFIX = "WIREFAULT_"
# their original values, as JSON
ORIGINAL_VARIABLE = "WIREFAULT_ORIGINAL"


def original_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those variables that the lab is about to override."""
    return {name: environ[name] for name in _LAB_VARIABLES if name in environ}


def run_environ(
    environ: Mapping[str, str], links: Iterable[Link], topology: Topology, *, scripted: bool = False
) -> dict[str, str]:
    """Return the subject's variables: the original ones, and those with the lab's addresses of its links.

    ``scripted``: the scripted model also answers for the APIs of links that are found later.
    """
    links = list(links)
    own = {
        name: value
        for name, value in environ.items()
        if name not in _LAB_VARIABLES and not name.startswith(_LAB_PREFIX)
    } | json.loads(environ.get(ORIGINAL_VARIABLE) or "{}")
    addresses = {name: value for link in links for name, value in link_variables(link, topology).items()}
    dialects = [*_KEYS] if scripted else [link.dialect for link in links if link.upstream == SCRIPTED]
    return {**own, **_missing_keys(dialects, own), **_no_proxy(own), **addresses}


def link_variables(link: Link, topology: Topology) -> dict[str, str]:
    """Return the variables that hold the link's address.

    An MCP server over stdio has its command line for a shell there, and as JSON in one more variable.
    """
    variables = dict.fromkeys(link.env, link_address(link, topology))
    if link.is_stdio:
        variables |= {f"{name}_JSON": json.dumps(_shim_words(link, topology)) for name in link.env}
    return variables


def _shim_words(link: Link, topology: Topology) -> list[str]:
    file = topology_file(private_folder().resolve(), topology.lab_id, topology.lane)
    return [*_program_words(), "mcp", "--lab", str(file), "--link", link.name]


def _program_words() -> list[str]:
    return [sys.executable, "-P", str(LIBRARY / "lab" / "program.py"), "wirefault"]


def wirefault_words() -> list[str]:
    """Return the words that start ``wirefault`` for a program that does not have it on its ``PATH``."""
    script = Path(sys.executable).with_name("wirefault")
    return [str(script)] if script.is_file() else _program_words()


def address_in_lab(lab: str, upstream: str) -> str:
    """Return the address of an MCP server over HTTP in a lab that is up; empty if no lab has such a link.

    ``lab``: its id or its launcher's file; empty for any.
    """
    files = [Path(lab)] if os.sep in lab else sorted(private_folder().glob(f"{lab or 'lab-*'}.json"))
    for file in files:
        try:
            topology = Topology.load(file)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # of another version, or not a launcher's
        for link in topology.links if topology.lane == 0 else ():
            if link.dialect == MCP.name and link.upstream.rstrip("/") == upstream and _is_up(topology):
                return link_address(link, topology).rstrip("/")
    return ""


def _is_up(topology: Topology) -> bool:
    """Whether the lab's gateway answers."""
    try:
        with socket.create_connection((topology.control.host, topology.control.port), timeout=1):
            return True
    except OSError:
        return False


def link_address(link: Link, topology: Topology) -> str:
    """Return the URL of the link's upstream behind its faults, or the command that starts a stdio server.

    Its path is the one that the upstream's clients expect: the upstream's own, or ``/v1`` where OpenAI's
    clients call the scripted model.
    """
    if link.is_stdio:
        return shlex.join(_shim_words(link, topology))
    path = "/v1" if link.upstream == SCRIPTED and link.dialect.startswith("openai") else link.base_path
    return topology.proxies[link.name].url + path


def attempt_environ(identity: Identity) -> dict[str, str]:
    """Return the variables that name a process's attempt, and the headers for its requests."""
    headers = identity.headers("")
    return {
        "WIREFAULT_RUN": identity.run,
        "WIREFAULT_EPISODE": identity.episode,
        "WIREFAULT_ATTEMPT": str(identity.attempt),
        "TRACEPARENT": headers[TRACEPARENT_HEADER],
        "BAGGAGE": headers[BAGGAGE_HEADER],
    }


def _missing_keys(dialects: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return a placeholder key for each API of the scripted model that has no key."""
    keys = [_KEYS.get(dialect, ()) for dialect in dialects]
    return {names[0]: _PLACEHOLDER for names in keys if names and not any(map(environ.get, names))}


def _no_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Exclude loopback, where the lab is, from any HTTP proxy."""
    value = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    hosts = [host.strip() for host in value.split(",") if host.strip()]
    listed = ",".join(dict.fromkeys([*hosts, *_LOOPBACK_NAMES]))
    return {"NO_PROXY": listed, "no_proxy": listed}


@dataclass(frozen=True)
class Surroundings:
    """Everything outside a wired subject that its kinds share."""

    # the wiring's file, for error messages
    where: str
    # the wiring file's folder
    folder: Path
    logs: Path
    # with the variables of the links and of the tap
    environ: Mapping[str, str]
    # addresses by link
    links: Mapping[str, str]
    # removes secrets from a text
    redact: Callable[[str], str]
    tap: Tap = NO_TAP

    def working_folder(self, name: str) -> Path:
        """Return the folder that a wiring names, relative to its file; its own folder for ""."""
        return self.folder / name if name else self.folder


def make_surroundings(wiring: Wiring, configuration: Configuration, tap: Tap = NO_TAP) -> Surroundings:
    """Return the surroundings for a run of that wiring behind that tap."""
    topology = configuration.topology
    scripted = wiring.intercept is not None and wiring.intercept.models == "scripted"
    subject = wiring.subject
    own = subject.env if isinstance(subject, CommandSpec | ServiceSpec | PythonSpec) else {}
    environ = tap.environ(run_environ(configuration.environ, wiring.links, topology, scripted=scripted))
    return Surroundings(
        where=wiring.file or "the command line",
        folder=wiring.folder.absolute(),
        logs=configuration.logs.absolute(),
        environ={**environ, **function_variables(wiring.links, topology, tap, environ), **own},
        links={link.name: link_address(link, topology) for link in wiring.links},
        redact=Redaction(configuration.environ).text,
        tap=tap,
    )


_FUNCTIONS_STARTUP = LIBRARY / "subjects" / "functions" / "startup"


def function_variables(
    links: Iterable[Link], topology: Topology, tap: Tap, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables by which Python processes of the subject call their tools through the lab.

    Empty without interception and without a link of functions.
    """
    wired = next((link.name for link in links if link.is_in_process), None)
    if tap.kind is not None:
        place = f"{FUNCTIONS_HOST}:{FUNCTIONS_PORT} {FUNCTIONS_HOST}:{RETURN_PORT}"
        if tap.kind == "proxy":
            place += f" {topology.ingress}"
    elif wired is not None:
        place = f"{topology.proxies[wired]} {topology.gateways[wired]}"
    else:
        return {}
    path = os.pathsep.join(filter(None, (str(_FUNCTIONS_STARTUP), environ.get("PYTHONPATH"))))
    return {FUNCTIONS_VARIABLE: place, "PYTHONPATH": path}


class AttemptFiles:
    """``logs/runs/<run>/attempts/<episode>-<attempt>/``: an attempt's files."""

    def __init__(self, surroundings: Surroundings, identity: Identity) -> None:
        self._logs = surroundings.logs
        self._redact = surroundings.redact
        run = history_file(self._logs, identity.run, "agent", 0).parent
        self.folder = run / "attempts" / f"{identity.episode}-{identity.attempt}"

    def make_work_folder(self) -> Path:
        """Make an empty folder for a process that has no folder in the wiring."""
        folder = self.folder / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def remove_if_empty(self) -> None:
        """Remove the folder if it has no files."""
        with suppress(OSError):
            (self.folder / "work").rmdir()
            self.folder.rmdir()

    def set_aside(self, names: Iterable[str], suffix: str) -> None:
        """Rename files, so that the next ones of that name do not replace them."""
        for name in names:
            file = self.folder / name
            with suppress(FileNotFoundError):
                file.rename(file.with_name(f"{file.stem}-{suffix}{file.suffix}"))

    def keep(self, name: str, printed: OutputTail) -> None:
        """Write output without secrets, if there is any. Raises ``OSError``."""
        if printed.end:
            text = self._redact(printed.as_file().decode("utf-8", "surrogateescape"))
            data = text.encode("utf-8", "surrogateescape")
            replace_shared(self._logs, self.folder / name, data)


def resolved_words(
    words: list[str], surroundings: Surroundings, key: str, folder: Path | None = None
) -> list[str]:
    """Return the command with absolute paths of files in the wiring's folder, unless it runs there.

    ``folder``: where it runs; None for a new one for each attempt. Raises ``SettingsError`` if the program is
    missing.
    """
    program, *arguments = words
    if any(SECRET in word for word in words):
        raise SettingsError(
            f"{surroundings.where}: subject.{key}: {SECRET} replaces a value that is not recorded:"
            " put it back, or start with the original file or command"
        )
    if problem := program_problem(program, surroundings.folder, surroundings.environ):
        raise SettingsError(f"{surroundings.where}: subject.{key}: {problem}")
    if os.sep in program:
        program = str(surroundings.folder / program)
    if folder is not None and folder.samefile(surroundings.folder):
        return [program, *arguments]
    return [program, *(_absolute(word, surroundings.folder) for word in arguments)]


def check_program(wiring: Wiring, environ: Mapping[str, str]) -> None:
    """Raise ``SettingsError`` if the program of that wiring's subject is missing."""
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
    """Return why the program cannot run in that folder, in words; empty if it can."""
    named = os.path.join(folder, program) if os.sep in program else program  # noqa: PTH118 - keeps "./"
    if which(named, path=environ.get("PATH", os.defpath)) is not None:
        return ""
    if (folder / program).is_file():
        how = "make it executable" if os.sep in program else f"write .{os.sep}{program} if it is executable"
        return f"{program!r} is a file, not a program: name its interpreter, such as python or node, or {how}"
    return f"missing program {program!r}"


def _absolute(word: str, folder: Path) -> str:
    """Return the word as an absolute path if it names a file or folder; folders need a slash."""
    path = folder / word
    try:
        is_meant = path.is_file() or (path.is_dir() and (os.sep in word or word in (".", "..")))
    except (OSError, ValueError):  # too long for a name
        return word
    return os.path.normpath(path) if word and is_meant else word


def existing_folder(name: str, surroundings: Surroundings) -> Path:
    """Return the folder that the wiring names. Raises ``SettingsError`` if it is missing."""
    folder = surroundings.working_folder(name)
    if not folder.is_dir():
        raise SettingsError(f"{surroundings.where}: subject.folder: missing folder {folder}")
    return folder
