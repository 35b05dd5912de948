"""Sources of settings, in order: command line, environment, ``.env``, ``config.json``, default.

Unknown names and values out of range raise ``SettingsError`` that names the key and its source, before
anything starts.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.core.errors import nearest
from wirefault.core.plain_data import unique
from wirefault.settings.budgets import budgets_in_full, load_budgets, prices_in_full
from wirefault.settings.settings import NAMES, Settings, SettingsError
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.topology import default_ports, default_topology, listening_addresses

# Variables that belong in .env but are not settings of a run: keys, and locations of files and servers.
INSTALLATION_VARIABLES: tuple[str, ...] = tuple(
    """
    GROQ_API_KEY MODEL_API_KEY LAB_ID TOXIPROXY_URL WIRING PROMPTS_FILE CONFIG_FILE MOVIES_FILE PLAYBOOKS
    LIBRE_URL STATE_DB EFFECTS_DB LOGS_DIR SERVICES_HOST PROXY_HOST GATEWAY_HOST CONTROL_HOST MANAGER_HOST
    INGRESS_HOST LISTEN_HOST PROXY_LISTEN_HOST TRANSLATOR_DEADLINE_S STATUS_PORT WIREFAULT_IMAGE
    SUBJECT_FOLDER SUBJECT_IMAGE SUBJECT_COMMAND
    """.split()  # noqa: SIM905
)


_KNOWN = (*map(str.upper, NAMES), *INSTALLATION_VARIABLES)
# similarity, from 0 to 1, above which a name counts as a misspelt known one
_SLIP = 0.88
_MAX_NAMED = 5


@dataclass(frozen=True)
class Source:
    """Values from one place: ``where`` is used in errors, keys are setting names in lower case."""

    where: str
    values: Mapping[str, Any]


def merge_sources(sources: Iterable[Source], links: Links | None = None) -> Settings:
    """Merge and validate the sources; earlier ones win. Raises ``SettingsError``.

    ``links`` are the wiring's, which a fault set may name; default: the lab's.
    """
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source in sources:
        for key, value in source.values.items():
            if key not in NAMES:
                raise SettingsError(f"{source.where}: unknown setting {key}{nearest(key, NAMES)}")
            if key not in merged and value is not None:
                merged[key], origin[key] = value, source.where
    if isinstance(merged.get("faults"), str):
        merged["faults"] = _fault_set_in_full(merged["faults"], origin["faults"], links)
    for name, in_full in (("prices", prices_in_full), ("budgets", budgets_in_full)):
        if isinstance(merged.get(name), str):
            merged[name] = _file_in_full(in_full, merged[name], f"{origin[name]}: {name.upper()}")
    merged.setdefault("seed", secrets.randbelow(2**31))
    merged.setdefault("model", "compatible" if merged.get("model_base_url") else "scripted")
    settings = _validate(merged, origin, links)
    budgets = load_budgets(settings.budgets)
    if budgets is not None and budgets.counts_cost and not settings.prices:
        raise SettingsError(
            f"{origin['budgets']}: BUDGETS: a budget of cost needs PRICES, the file of what the models cost"
        )
    if settings.model == "compatible" and not settings.model_base_url:
        raise SettingsError("MODEL=compatible needs MODEL_BASE_URL, the address of the model's server")
    return settings


def _fault_set_in_full(text: str, where: str, links: Links | None) -> str:
    """Return the canonical text of a preset, a file or a text; empty for no faults."""
    if not text.strip():
        return ""
    # only a run that has faults loads the catalogue
    from wirefault.faults.sets.conditions import FaultSetError
    from wirefault.faults.sets.presets import find_set

    try:
        return find_set(text, links).dump()
    except FaultSetError as error:
        raise SettingsError(f"{where}: FAULTS: {error}") from None


def _file_in_full(in_full: Callable[[str], str], text: str, where: str) -> str:
    """Return the canonical text of the file of that name, or of a text."""
    try:
        return in_full(text)
    except OSError as error:
        raise SettingsError(f"{where}: {text[:80]}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def _validate(merged: Mapping[str, Any], origin: Mapping[str, str], links: Links | None) -> Settings:
    try:
        return Settings.model_validate(merged, context={"links": links})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        reason = first["msg"].removeprefix("Value error, ")
        where = origin.get(key, "settings")
        raise SettingsError(f"{where}: {key.upper()}={_printable(merged.get(key))}: {reason}") from None


def _printable(value: object) -> str:
    """Return the value for an error message: cut to 80 characters, without URLs that may contain a
    password.
    """
    return "..." if "@" in str(value) and "://" in str(value) else repr(value)[:80]


def from_environment(environ: Mapping[str, str]) -> Source:
    """Return the settings among the environment's variables; an empty variable counts as unset."""
    return Source("environment", {name: environ[name.upper()] for name in NAMES if environ.get(name.upper())})


def from_dotenv(path: Path, *, of_lab: bool = False) -> tuple[Source, dict[str, str]]:
    """Return a ``.env`` file's settings, and its other known variables (keys, locations) unchanged.

    Other names are ignored, since the file may belong to another program, too (``dotenv_remarks`` lists
    them). Raises ``SettingsError`` for a misspelt known name, for any unknown name in a file that is
    ``of_lab`` alone, and for a file that cannot be read.
    """
    settings: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in _dotenv_values(path).items():
        if name.lower() in NAMES:
            settings[name.lower()] = value or ""
        elif _is_of_installation(name):
            others[name] = value or ""
        elif of_lab or _is_slip(name):
            raise SettingsError(f"{path}: unknown setting {name}{nearest(name, _KNOWN)}")
    return Source(str(path), {name: value for name, value in settings.items() if value}), others


def dotenv_remarks(path: Path) -> tuple[str, ...]:
    """Return a sentence that lists the names in a ``.env`` file that are not Wirefault's, if any.

    Raises ``SettingsError`` if the file cannot be read.
    """
    names = [
        name for name in _dotenv_values(path) if name.lower() not in NAMES and not _is_of_installation(name)
    ]
    if not names:
        return ()
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return (f"{path}: ignored, not settings of Wirefault: {', '.join(names[:_MAX_NAMED])}{more}",)


def _is_of_installation(name: str) -> bool:
    return name in INSTALLATION_VARIABLES or name.startswith(("COMPOSE_", "DOCKER_"))


def _is_slip(name: str) -> bool:
    """Return whether a known name is meant: ``TOXIC_PRB`` is, ``OPENAI_API_KEY`` or ``LOG_LEVEL`` is not."""
    return bool(get_close_matches(name, _KNOWN, n=1, cutoff=_SLIP))


def _dotenv_values(path: Path) -> dict[str, str | None]:
    """Return the file's variables; none without a file. Raises for a line that dotenv would skip.

    The error does not quote the line, since it may contain a secret.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            raise SettingsError(f"{path}:{binding.original.line}: not NAME=value")
    return dotenv_values(stream=io.StringIO(text))


_INTERVALS = (
    "tool_timeout",
    "backend_timeout",
    "fallback_timeout",
    "proxy_wait",
    "model_timeout",
    "arm_timeout",
    "settle_bound",
    "attempt_time",
    "retry_after",
    "retry_after_max",
)
_OLD_INTERVALS = {"proxy_timeout": "tool_timeout"}
_HIGHEST_PORT = 63_535  # a link's gateway port is its service's port + 2000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Proxy(_Section):
    host: str | None = None


class _Files(_Section):
    """``prompts`` and ``movies`` are relative to this file; the others to the working folder."""

    prompts: str | None = None
    movies: str | None = None
    logs: str | None = None
    state: str | None = None
    effects: str | None = None


class ConfigFile(_Section):
    """``agent/config.json``: every key is optional and overrides a default.

    ``settings`` takes any setting in lower case; ``intervals`` takes those in seconds. ``ports`` sets the
    ports of a lab without Compose; a link's name means its service. ``proxy.host`` and ``services`` (link
    name to ``host:port``) set the addresses that the subject dials; a default address there does not override
    the running lab's. ``files`` sets locations of files.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    intervals: dict[str, Any] = Field(default_factory=dict)
    ports: dict[str, Annotated[int, Field(ge=1, le=_HIGHEST_PORT, strict=True)]] = Field(default_factory=dict)
    proxy: _Proxy = _Proxy()
    services: dict[str, str] = Field(default_factory=dict)
    files: _Files = _Files()

    def sources(self, path: Path) -> list[Source]:
        """Return the settings of the file at ``path``. Raises ``SettingsError`` for an unknown interval."""
        for key in self.intervals:
            new = _OLD_INTERVALS.get(key)
            if new in self.intervals:
                raise SettingsError(f"{path}: intervals.{key} is the old name of {new}, which is also set")
            if key not in _INTERVALS and not new:
                raise SettingsError(f"{path}: unknown interval intervals.{key}{nearest(key, _INTERVALS)}")
        intervals = {_OLD_INTERVALS.get(key, key): value for key, value in self.intervals.items()}
        return [Source(f"{path}: settings", self.settings), Source(f"{path}: intervals", intervals)]

    def remarks(self, path: Path) -> tuple[str, ...]:
        """Return a sentence for each old name in the file at ``path``."""
        old = [key for key in self.intervals if key in _OLD_INTERVALS]
        return tuple(
            f"{path}: intervals.{key} is now called {_OLD_INTERVALS[key]} and is still read as that"
            for key in old
        )

    def listening_ports(self, path: Path) -> Mapping[str, int]:
        """Return the checked ``ports``. Raises ``SettingsError`` for an unknown name or a port used twice."""
        usual = default_ports(lab_links())
        for name in self.ports:
            if name not in usual:
                raise SettingsError(f"{path}: ports.{name}: no such part{nearest(name, usual)}")
        by_port: dict[int, str] = {}
        for part, address in listening_addresses(default_topology("", ports=self.ports)):
            other = by_port.setdefault(address.port, part)
            if other != part:
                raise SettingsError(f"{path}: ports: {part} and {other} both use port {address.port}")
        return self.ports

    def beside(self, path: Path, key: Literal["prompts", "movies"]) -> Path | None:
        """Return the path of a file named in ``files``, relative to this file at ``path``; None if it is not
        named.

        Raises ``SettingsError`` if the file is in the working folder, where an older version expected it.
        """
        named = getattr(self.files, key)
        if not named:
            return None
        file = Path(os.path.normpath(path.parent / named))
        if not file.exists() and Path(named).exists():
            right = os.path.relpath(named, path.parent)
            raise SettingsError(
                f"{path}: files.{key}: cannot find {file}; relative to this file it is {right!r}"
            )
        return file


def read_config_file(path: Path, required: bool = False) -> ConfigFile:
    """Return the file's content, or defaults if it does not exist and is not required.

    Raises ``SettingsError`` that names the file, the line or the key.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
        return ConfigFile.model_validate(data)
    except FileNotFoundError:
        if required:
            raise SettingsError(f"{path}: no such file (CONFIG_FILE)") from None
        return ConfigFile()
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except ValidationError as error:
        raise SettingsError(f"{path}: {_reason(error)}") from None
    # a duplicate key, a number that is too long, nested too deeply
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}") from None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    place = ".".join(path) or "the file"
    if first["type"] == "extra_forbidden":
        sections: dict[str, type[_Section]] = {"proxy": _Proxy, "files": _Files}
        section = sections.get(path[0], ConfigFile) if path[1:] else ConfigFile
        return f"unknown key {place}{nearest(path[-1], section.model_fields)}"
    if first["type"] in ("model_type", "dict_type"):
        return f"{place}: must be an object"
    return f"{place}: {first['msg']}"
