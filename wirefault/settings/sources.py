"""Sources of settings, in order: command line, environment, ``.env``, ``config.json``, default.

Unknown names and values out of range raise ``SettingsError`` that names the key and its source, before
anything starts.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv.parser import parse_stream
from dotenv.variables import parse_variables
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails

from wirefault.core.errors import nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import too_deep, unique
from wirefault.core.sockets import Address
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
    RECOVERY_PORT WIREFAULT_RECOVERY_IMAGE
    SUBJECT_FOLDER SUBJECT_IMAGE SUBJECT_COMMAND SUBJECT_PYTHONPATH
    """.split()  # noqa: SIM905
)


_KNOWN = (*map(str.upper, NAMES), *INSTALLATION_VARIABLES)
# similarity, from 0 to 1, above which a name counts as a misspelt known one
_SLIP = 0.88
_MAX_NAMED = 5
_MAX_WRONG_KEYS = 20
_MAX_DOTENV = 100_000
"""Characters of a ``.env`` file, and of all its values with their references replaced."""
_MAX_REFERENCES = 1000


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
                problem = f"unknown setting {key}{nearest(key, NAMES)}"
                raise SettingsError(f"{source.where}: {problem}", source.where, key, problem)
            if key not in merged and value is not None:
                merged[key], origin[key] = value, source.where
    if isinstance(merged.get("faults"), str):
        merged["faults"] = _fault_set_in_full(merged["faults"], origin["faults"], links)
    for name, in_full in (("prices", prices_in_full), ("budgets", budgets_in_full)):
        if isinstance(merged.get(name), str):
            merged[name] = _file_in_full(in_full, merged[name], origin[name], name)
    merged.setdefault("seed", secrets.randbelow(2**31))
    merged.setdefault("model", "compatible" if merged.get("model_base_url") else "scripted")
    settings = _validate(merged, origin, links)
    budgets = load_budgets(settings.budgets)
    if budgets is not None and budgets.counts_cost and not settings.prices:
        problem = "a budget of cost needs PRICES, the file of what the models cost"
        where = origin["budgets"]
        raise SettingsError(f"{where}: BUDGETS: {problem}", where, "budgets", problem)
    if settings.model == "compatible" and not settings.model_base_url:
        problem = "MODEL=compatible needs MODEL_BASE_URL, the address of the model's server"
        raise SettingsError(problem, setting="model")
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
        raise SettingsError(f"{where}: FAULTS: {error}", where, "faults", str(error)) from None


def _file_in_full(in_full: Callable[[str], str], text: str, where: str, name: str) -> str:
    """Return the canonical text of the file of that name, or of a text."""
    try:
        return in_full(text)
    except OSError as error:
        problem = f"{text[:80]}: cannot be read: {error.strerror}"
    except ValueError as error:
        problem = str(error)
    raise SettingsError(f"{where}: {name.upper()}: {problem}", where, name, problem)


def _validate(merged: Mapping[str, Any], origin: Mapping[str, str], links: Links | None) -> Settings:
    try:
        return Settings.model_validate(merged, context={"links": links})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0]) if first["loc"] else "?"
        reason = first["msg"].removeprefix("Value error, ")
        where = origin.get(key, "settings")
        value = _printable(merged.get(key))
        message = f"{where}: {key.upper()}={value}: {reason}"
        raise SettingsError(message, where, key, f"{value}: {reason}") from None


def _printable(value: object) -> str:
    """Return the value for an error message: cut to 80 characters, without secrets."""
    from wirefault.core.redaction import Redaction  # only an error needs it

    return "..." if "@" in str(value) and "://" in str(value) else Redaction().text(repr(value))[:80]


def from_environment(environ: Mapping[str, str]) -> Source:
    """Return the settings among the environment's variables; an empty variable counts as unset."""
    return Source("environment", {name: environ[name.upper()] for name in NAMES if environ.get(name.upper())})


def from_dotenv(path: Path) -> tuple[Source, dict[str, str]]:
    """Return a ``.env`` file's settings, and its other known variables (keys, locations) unchanged.

    Other names are ignored, since the file may belong to another program, too (``dotenv_remarks`` lists
    them). Raises ``SettingsError`` for a file that cannot be read.
    """
    settings: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in _dotenv_values(path).items():
        if name.lower() in NAMES:
            settings[name.lower()] = value
        elif _is_of_installation(name):
            others[name] = value
    return Source(str(path), {name: value for name, value in settings.items() if value}), others


def dotenv_remarks(path: Path) -> tuple[str, ...]:
    """Return sentences on the names in a ``.env`` file that are not Wirefault's.

    Each that looks like a misspelt setting has one, and one lists the others.

    Raises ``SettingsError`` if the file cannot be read.
    """
    names = [
        name for name in _dotenv_values(path) if name.lower() not in NAMES and not _is_of_installation(name)
    ]
    slips = [name for name in names if _is_slip(name)]
    remarks = [f"{path}: {name} is ignored: unknown setting{nearest(name, _KNOWN)}" for name in slips]
    foreign = [name for name in names if name not in slips]
    if foreign:
        more = f" and {len(foreign) - _MAX_NAMED} more" if len(foreign) > _MAX_NAMED else ""
        remarks.append(f"{path}: ignored, not settings of Wirefault: {', '.join(foreign[:_MAX_NAMED])}{more}")
    return tuple(remarks)


def _is_of_installation(name: str) -> bool:
    return name in INSTALLATION_VARIABLES or name.startswith(("COMPOSE_", "DOCKER_"))


def _is_slip(name: str) -> bool:
    """Return whether a known name is meant: ``TOXIC_PRB`` is, ``OPENAI_API_KEY`` or ``LOG_LEVEL`` is not."""
    return bool(get_close_matches(name, _KNOWN, n=1, cutoff=_SLIP))


def _dotenv_values(path: Path) -> dict[str, str]:
    """Return the file's variables; none without a file. Raises for a line that dotenv would skip.

    The error does not quote the line, since it may contain a secret.
    """
    try:
        text = read_input(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    if len(text) > _MAX_DOTENV or text.count("${") > _MAX_REFERENCES:
        raise _too_large_dotenv(path)
    values: dict[str, str] = {}
    known, size = ChainMap(values, os.environ), 0
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            raise SettingsError(f"{path}:{binding.original.line}: not NAME=value")
        if binding.key is not None:
            parts = parse_variables(binding.value) if binding.value else ()
            value = "".join(part.resolve(known) for part in parts)
            if (size := size + len(value)) > _MAX_DOTENV:
                raise _too_large_dotenv(path)
            values[binding.key] = value
    return values


def _too_large_dotenv(path: Path) -> SettingsError:
    return SettingsError(
        f"{path}: too large: at most {_MAX_DOTENV} characters, also with each ${{NAME}} replaced, and"
        f" {_MAX_REFERENCES} such references"
    )


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
# earlier names, and keys of similar labs, which have another meaning here or none
_OLD_INTERVALS = {"proxy_timeout": "tool_timeout", "proxy_mgr_wait": "proxy_wait"}
_UNNEEDED = {
    ("intervals", "proxy_check_interval"): "the manager checks each toxic before a prompt is sent",
    ("proxy_check_interval",): "the manager checks each toxic before a prompt is sent",
    ("services", "proxy_mgr"): "agent and manager meet in state/state.db",
}
_HIGHEST_PORT = 63_535  # a link's gateway port is its service's port + 2000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Proxy(BaseModel):
    """``host`` of all proxies; any other key is a link's name, with its proxy's ``host:port``."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, str]

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
    name to ``host:port``) set the addresses that the subject dials, ``proxy.LINK`` that of one link's proxy.
    A default address there does not override the running lab's. ``files`` sets locations of files.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    intervals: dict[str, Any] = Field(default_factory=dict)
    ports: dict[str, Annotated[int, Field(ge=1, le=_HIGHEST_PORT, strict=True)]] = Field(default_factory=dict)
    proxy: _Proxy = _Proxy()
    services: dict[str, str] = Field(default_factory=dict)
    files: _Files = _Files()

    _remarks: tuple[str, ...] = PrivateAttr(())

    @field_validator("settings", "intervals", "ports", "services", "proxy")
    @classmethod
    def _keys_and_addresses_are_right(cls, section: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        valid, kind = _valid_names(name)
        wrong = []
        for key, value in ((section.model_extra or {}) if isinstance(section, _Proxy) else section).items():
            if key not in valid:
                wrong.append(f"{name}.{key}: unknown {kind}{nearest(key, valid)}")
            elif name in ("services", "proxy"):
                try:
                    Address.parse(value)
                except ValueError as error:
                    wrong.append(f"{name}.{key}: {error}")
            if len(wrong) == _MAX_WRONG_KEYS:
                break
        if wrong:
            raise ValueError("\n".join(wrong))
        return section

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence for each key with an old name, or without a meaning here."""
        return self._remarks

    def sources(self, path: Path) -> list[Source]:
        """Return the settings of the file at ``path``."""
        return [Source(f"{path}: settings", self.settings), Source(f"{path}: intervals", self.intervals)]

    def dialled(self, section: Literal["services", "proxy"]) -> dict[str, Address]:
        """Return the addresses that the subject dials: those of the services, or of their proxies."""
        texts = self.services if section == "services" else (self.proxy.model_extra or {})
        return {name: Address.parse(text) for name, text in texts.items()}

    def listening_ports(self, path: Path) -> Mapping[str, int]:
        """Return the checked ``ports``. Raises ``SettingsError`` for a port used twice."""
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
        text = read_input(path)
        data = json.loads(text, object_pairs_hook=unique)
        data, remarks = _in_present_names(data)
        config = ConfigFile.model_validate(data)
        config._remarks = tuple(f"{path}: {remark}" for remark in remarks)
        return config
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
        reasons = [line for each in error.errors(include_url=False) for line in _reasons(each)]
        raise SettingsError("\n".join(f"{path}: {reason}" for reason in reasons)) from None
    except RecursionError:
        raise SettingsError(too_deep(str(path), text)) from None
    except ValueError as error:  # a duplicate key, a number that is too long
        raise SettingsError(f"{path}: {error}") from None


def _valid_names(section: str) -> tuple[Collection[str], str]:
    """Return the keys that a section of ``config.json`` may have, and a word for such a key."""
    if section == "settings":
        return NAMES, "setting"
    if section == "intervals":
        return _INTERVALS, "interval"
    if section == "ports":
        return default_ports(lab_links()), "part"
    links = default_topology("").services
    return [*links, "host"] if section == "proxy" else links, "link"


def _in_present_names(data: Any) -> tuple[Any, list[str]]:
    """Return the file's data with present names only, and a remark on each renamed or removed key."""
    if not isinstance(data, dict):
        return data, []
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    remarks = []
    intervals = data.get("intervals")
    for old, new in _OLD_INTERVALS.items() if isinstance(intervals, dict) else ():
        if old not in intervals:
            continue
        if new in intervals:
            raise ValueError(f"intervals.{old} is the old name of {new}, which is also set")
        intervals[new] = intervals.pop(old)
        remarks.append(f"intervals.{old} is now called {new} and is still read as that")
    for place, reason in _UNNEEDED.items():
        section = data if len(place) == 1 else data.get(place[0])
        if isinstance(section, dict) and place[-1] in section:
            del section[place[-1]]
            remarks.append(f"{'.'.join(place)} is ignored: {reason}")
    services = {link.service: link.name for link in lab_links() if link.service}
    for name in ("services", "proxy", "ports"):
        if isinstance(data.get(name), dict):
            data[name] = {services.get(key, key): value for key, value in data[name].items()}
    return data, remarks


def _reasons(error: ErrorDetails) -> list[str]:
    path = [str(part) for part in error["loc"]]
    place = ".".join(path) or "the file"
    if error["type"] == "value_error":  # of a validator above, which names the place
        return error["msg"].removeprefix("Value error, ").splitlines()
    if error["type"] == "extra_forbidden":
        section: type[_Section] = _Files if path[1:] else ConfigFile
        return [f"unknown key {place}{nearest(path[-1], section.model_fields)}"]
    if error["type"] in ("model_type", "dict_type"):
        return [f"{place}: must be an object"]
    return [f"{place}: {error['msg']}"]
