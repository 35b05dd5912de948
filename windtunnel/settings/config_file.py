"""``agent/config.json``: settings, addresses and places in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from windtunnel.core.spelling import nearest
from windtunnel.core.strict_json import unique
from windtunnel.settings.settings import SettingsError
from windtunnel.settings.sources import Source

_INTERVALS = (
    "tool_timeout",
    "model_timeout",
    "arm_timeout",
    "settle_bound",
    "attempt_time",
    "retry_after",
    "retry_after_max",
)


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
    and ``services`` (link name to ``host:port``) say where the subject dials; ``files`` where things lie.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    intervals: dict[str, Any] = Field(default_factory=dict)
    proxy: _Proxy = _Proxy()
    services: dict[str, str] = Field(default_factory=dict)
    files: _Files = _Files()

    def sources(self, path: Path) -> list[Source]:
        """The settings of the file at ``path``. Raises ``SettingsError`` for an unknown interval."""
        for key in self.intervals:
            if key not in _INTERVALS:
                raise SettingsError(f"{path}: intervals.{key} is no interval{nearest(key, _INTERVALS)}")
        return [Source(f"{path}: settings", self.settings), Source(f"{path}: intervals", self.intervals)]


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
