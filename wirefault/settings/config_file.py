"""``agent/config.json``: settings, addresses and places in one file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wirefault.core.errors import nearest
from wirefault.core.plain_data import unique
from wirefault.settings.settings import SettingsError
from wirefault.settings.sources import Source
from wirefault.wiring.links import lab_links
from wirefault.wiring.topology import default_topology, listening_addresses, usual_ports

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
_HIGHEST_PORT = 63_535  # a link's gateway is 2000 above its service


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Proxy(_Section):
    host: str | None = None


class _Files(_Section):
    """``prompts`` and ``movies`` lie beside the file; the others are of the folder that one works in."""

    prompts: str | None = None
    movies: str | None = None
    logs: str | None = None
    state: str | None = None
    effects: str | None = None


class ConfigFile(_Section):
    """``agent/config.json``: every key is optional and goes over a default.

    ``settings`` takes any setting in lower case; ``intervals`` those that are seconds. ``ports`` says where a
    lab without Compose listens, a link's service by the link's name. ``proxy.host`` and ``services`` (link
    name to ``host:port``) say where the subject dials; an address that is the default one leaves what the lab
    in force says. ``files`` says where things lie.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    intervals: dict[str, Any] = Field(default_factory=dict)
    ports: dict[str, Annotated[int, Field(ge=1, le=_HIGHEST_PORT, strict=True)]] = Field(default_factory=dict)
    proxy: _Proxy = _Proxy()
    services: dict[str, str] = Field(default_factory=dict)
    files: _Files = _Files()

    def sources(self, path: Path) -> list[Source]:
        """The settings of the file at ``path``. Raises ``SettingsError`` for an unknown interval."""
        for key in self.intervals:
            new = _OLD_INTERVALS.get(key)
            if new in self.intervals:
                raise SettingsError(f"{path}: intervals.{key} is the old name of {new}, which is there too")
            if key not in _INTERVALS and not new:
                raise SettingsError(f"{path}: intervals.{key} is no interval{nearest(key, _INTERVALS)}")
        intervals = {_OLD_INTERVALS.get(key, key): value for key, value in self.intervals.items()}
        return [Source(f"{path}: settings", self.settings), Source(f"{path}: intervals", intervals)]

    def remarks(self, path: Path) -> tuple[str, ...]:
        """A sentence for each old name in the file at ``path``."""
        old = [key for key in self.intervals if key in _OLD_INTERVALS]
        return tuple(
            f"{path}: intervals.{key} is now called {_OLD_INTERVALS[key]}; it is used as that" for key in old
        )

    def listening_ports(self, path: Path) -> Mapping[str, int]:
        """``ports``, checked. Raises ``SettingsError`` for an unknown name, and where two would be one."""
        usual = usual_ports(lab_links())
        for name in self.ports:
            if name not in usual:
                raise SettingsError(f"{path}: ports.{name}: no such part{nearest(name, usual)}")
        by_port: dict[int, str] = {}
        for part, address in listening_addresses(default_topology("", ports=self.ports)):
            other = by_port.setdefault(address.port, part)
            if other != part:
                raise SettingsError(f"{path}: ports: {part} and {other} would both have {address.port}")
        return self.ports

    def beside(self, path: Path, key: Literal["prompts", "movies"]) -> Path | None:
        """The file of ``files`` that is read, beside this one at ``path``; None if it is not named.

        Raises ``SettingsError`` where it lies in the working folder instead, as an older version wanted it.
        """
        named = getattr(self.files, key)
        if not named:
            return None
        file = Path(os.path.normpath(path.parent / named))
        if not file.exists() and Path(named).exists():
            right = os.path.relpath(named, path.parent)
            raise SettingsError(f"{path}: files.{key}: no {file}; it is beside this file, so write {right!r}")
        return file


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
