"""Where a process's configuration comes from: environment, ``.env`` and ``config.json``, made one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windtunnel.core import lock
from windtunnel.core.lifeline import TOPOLOGY_VARIABLE
from windtunnel.core.sockets import Address
from windtunnel.core.spelling import nearest
from windtunnel.core.strict_json import unique
from windtunnel.faults.sets.fault_set import FaultSetError
from windtunnel.faults.sets.presets import find_set
from windtunnel.links.topology import Topology, topology_from
from windtunnel.settings.settings import (
    Settings,
    SettingsError,
    Source,
    from_dotenv,
    from_environment,
    resolve,
)

INTERVALS = (
    "tool_timeout",
    "model_timeout",
    "arm_timeout",
    "settle_bound",
    "attempt_time",
    "retry_after",
    "retry_after_max",
)
LAB_FILE = "lab.json"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Proxy(_Section):
    host: str | None = None


class _Files(_Section):
    prompts: str | None = None
    movies: str | None = None
    logs: str | None = None
    state: str | None = None
    effects: str | None = None


class ConfigFile(_Section):
    """``agent/config.json``: every key is optional and goes over a default.

    ``settings`` takes any setting in lower case; ``intervals`` those that are seconds; ``proxy.host``
    and ``services`` (link name to ``host:port``) say where the agent dials; ``files`` where things lie.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    intervals: dict[str, Any] = Field(default_factory=dict)
    proxy: _Proxy = _Proxy()
    services: dict[str, str] = Field(default_factory=dict)
    files: _Files = _Files()


@dataclass(frozen=True)
class Configuration:
    """All that a process needs to know. ``environ`` has the variables of ``.env`` beneath its own."""

    settings: Settings
    topology: Topology
    environ: Mapping[str, str]
    prompts: Path
    logs: Path
    state: Path
    effects: Path


def load_configuration(
    environ: Mapping[str, str],
    command_line: Mapping[str, Any] | None = None,
    preset: Mapping[str, Any] | None = None,
) -> Configuration:
    """Reads and validates everything. ``preset`` stands between ``config.json`` and the defaults.

    Raises ``SettingsError`` that names the source and the key.
    """
    dotenv, others = from_dotenv(Path(".env"))
    merged = {**others, **environ}
    config_path = Path(merged.get("CONFIG_FILE") or "agent/config.json")
    config = read_config_file(config_path, required=bool(merged.get("CONFIG_FILE")))
    state = Path(merged.get("STATE_DB") or config.files.state or "state/state.db")
    if config.files.movies and not merged.get("MOVIES_FILE"):
        merged["MOVIES_FILE"] = config.files.movies
    sources = [
        Source("command line", command_line or {}),
        from_environment(environ),
        dotenv,
        *_of_config(config_path, config),
        Source("preset", preset or {}),
    ]
    sources = [_with_fault_set(source) for source in sources]
    settings = resolve([*sources, Source("default", _default_model(sources, merged))])
    if settings.fallback == "direct" and merged.get("PROXY_HOST") and not merged.get("SERVICES_HOST"):
        raise SettingsError(
            "FALLBACK=direct: this agent has no way to the tools but the proxies; in Compose it gets one with"
            " `docker compose -f docker-compose.yaml -f compose.direct.yaml up`"
        )
    return Configuration(
        settings=settings,
        topology=_topology(merged, config, config_path, state.parent),
        environ=merged,
        prompts=Path(merged.get("PROMPTS_FILE") or config.files.prompts or "agent/prompts.json"),
        logs=Path(merged.get("LOGS_DIR") or config.files.logs or "logs"),
        state=state,
        effects=Path(merged.get("EFFECTS_DB") or config.files.effects or "state/effects.db"),
    )


def _with_fault_set(source: Source) -> Source:
    """The source with its fault set in full, where it names a preset or a file."""
    given = source.values.get("faults")
    if not isinstance(given, str):
        return source
    try:
        return Source(source.where, {**source.values, "faults": find_set(given).dump()})
    except FaultSetError as error:
        raise SettingsError(f"{source.where}: FAULTS: {error}") from None


def _default_model(sources: Sequence[Source], environ: Mapping[str, str]) -> dict[str, str]:
    """Whoever gave an address means it; whoever gave a key means Groq; else the scripted model."""
    if any(source.values.get("model_base_url") for source in sources):
        return {"model": "compatible"}
    return {"model": "groq" if environ.get("GROQ_API_KEY") else "scripted"}


def _of_config(path: Path, config: ConfigFile) -> list[Source]:
    for key in config.intervals:
        if key not in INTERVALS:
            raise SettingsError(f"{path}: intervals.{key} is no interval{nearest(key, INTERVALS)}")
    return [
        Source(f"{path}: settings", config.settings),
        Source(f"{path}: intervals", config.intervals),
    ]


def read_config_file(path: Path, required: bool = False) -> ConfigFile:
    """The file's content, or the empty one if there is no file and none is required.

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
    except (ValueError, RecursionError) as error:  # a key given twice, a number too long, nested too deep
        raise SettingsError(f"{path}: {error}") from None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    place = ".".join(path) or "the file"
    if first["type"] == "extra_forbidden":
        sections: dict[str, type[_Section]] = {"proxy": _Proxy, "files": _Files}
        section = sections.get(path[0], ConfigFile) if path[1:] else ConfigFile
        return f"{place} is no key here{nearest(path[-1], section.model_fields)}"
    if first["type"] in ("model_type", "dict_type"):
        return f"{place}: must be an object"
    return f"{place}: {first['msg']}"


def _topology(environ: Mapping[str, str], config: ConfigFile, config_path: Path, state: Path) -> Topology:
    running = running_lab(state)
    if running and not environ.get(TOPOLOGY_VARIABLE) and not environ.get("PROXY_HOST"):
        environ = {**environ, TOPOLOGY_VARIABLE: running["topology"]}
    try:
        topology = topology_from(environ)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        file = environ.get(TOPOLOGY_VARIABLE)
        raise SettingsError(f"{TOPOLOGY_VARIABLE}={file}: no lab's topology: {error}") from None
    proxies, services = dict(topology.proxies), dict(topology.services)
    if config.proxy.host:
        proxies = {name: Address(config.proxy.host, address.port) for name, address in proxies.items()}
    for name, text in config.services.items():
        if name not in services:
            raise SettingsError(f"{config_path}: services.{name} is no link{nearest(name, services)}")
        try:
            services[name] = Address.parse(text)
        except ValueError as error:
            raise SettingsError(f"{config_path}: services.{name}: {error}") from None
    return replace(topology, proxies=proxies, services=services)


def running_lab(state: Path) -> dict[str, Any] | None:
    """What ``windtunnel lab up`` left in ``state/lab.json``, if that lab is alive: pid, topology, lab_id."""
    if not lock.is_held(state):
        return None
    try:
        return dict(json.loads((state / LAB_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
