"""Where a process's configuration comes from: environment, ``.env`` and ``config.json``, made one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windtunnel.settings import (
    Settings,
    SettingsError,
    Source,
    from_dotenv,
    from_environment,
    nearest,
    resolve,
)
from windtunnel.topology import TOPOLOGY_VARIABLE, Address, Topology, topology_from

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
LinkName = Literal["search", "weather", "movie", "calendar", "calculator", "message", "translator", "model"]


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
    services: dict[LinkName, str] = Field(default_factory=dict)
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
    sources = [
        Source("command line", command_line or {}),
        from_environment(environ),
        dotenv,
        *_of_config(config_path, config),
        Source("preset", preset or {}),
    ]
    settings = resolve([*sources, Source("default", _default_model(sources, merged))])
    return Configuration(
        settings=settings,
        topology=_topology(merged, config, Path(merged.get("STATE_DB") or "state/state.db").parent),
        environ=merged,
        prompts=Path(merged.get("PROMPTS_FILE") or config.files.prompts or "agent/prompts.json"),
        logs=Path(merged.get("LOGS_DIR") or config.files.logs or "logs"),
        state=Path(merged.get("STATE_DB") or config.files.state or "state/state.db"),
        effects=Path(merged.get("EFFECTS_DB") or config.files.effects or "state/effects.db"),
    )


def _default_model(sources: Sequence[Source], environ: Mapping[str, str]) -> dict[str, str]:
    """Whoever gave an address means it; whoever gave a key means Groq; else the scripted model."""
    if any(source.values.get("model_base_url") for source in sources):
        return {"model": "compatible"}
    return {"model": "groq" if environ.get("GROQ_API_KEY") else "scripted"}


def _of_config(path: Path, config: ConfigFile) -> list[Source]:
    for key in config.intervals:
        if key not in INTERVALS:
            raise SettingsError(f"{path}: intervals.{key} is no interval{nearest(key, INTERVALS).lower()}")
    return [
        Source(f"{path}: settings", config.settings),
        Source(f"{path}: intervals", config.intervals),
    ]


def read_config_file(path: Path, required: bool = False) -> ConfigFile:
    """The file's content, or the empty one if there is no file and none is required.

    Raises ``SettingsError`` that names the file, the line or the key.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
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
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"] if part != "[key]")
        hint = nearest(str(first["loc"][-1]), ConfigFile.model_fields).lower() if first["loc"] else ""
        raise SettingsError(f"{path}: {key or 'the file'}: {first['msg']}{hint}") from None


def _topology(environ: Mapping[str, str], config: ConfigFile, state: Path) -> Topology:
    running = running_lab(state)
    if running and not environ.get(TOPOLOGY_VARIABLE) and not environ.get("PROXY_HOST"):
        environ = {**environ, TOPOLOGY_VARIABLE: running["topology"]}
    topology = topology_from(environ)
    proxies, services = dict(topology.proxies), dict(topology.services)
    if config.proxy.host:
        proxies = {name: Address(config.proxy.host, address.port) for name, address in proxies.items()}
    for name, text in config.services.items():
        try:
            services[name] = Address.parse(text)
        except ValueError as error:
            raise SettingsError(f"config.json: services.{name}: {error}") from None
    return replace(topology, proxies=proxies, services=services)


def running_lab(state: Path) -> dict[str, Any] | None:
    """What ``windtunnel lab up`` left in ``state/lab.json``, if that lab is alive: pid, topology, lab_id."""
    try:
        lab = json.loads((state / LAB_FILE).read_text(encoding="utf-8"))
        os.kill(int(lab["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(lab)
