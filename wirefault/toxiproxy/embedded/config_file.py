"""The file of ``--config``: the proxies with which the server starts, checked more strictly than requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wirefault.core.spelling import nearest
from wirefault.toxiproxy.embedded.errors import ApiError
from wirefault.toxiproxy.embedded.proxy_collection import ProxyCollection

_TYPES: dict[str, type] = {"name": str, "upstream": str, "listen": str, "enabled": bool}
_REQUIRED = ("name", "upstream")


class ConfigFileError(Exception):
    """The file cannot be used; the text says which file, where in it the mistake is, and why."""


def read_starting_proxies(path: Path) -> list[dict[str, Any]]:
    """The proxies of the file, a JSON array as ``POST /populate`` takes it. Raises ``ConfigFileError``."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigFileError(f"{path}: cannot be read: {reason}") from None
    except json.JSONDecodeError as error:
        raise ConfigFileError(f"{path}:{error.lineno}:{error.colno}: no JSON: {error.msg}") from None
    if not isinstance(rows, list):
        raise ConfigFileError(f"{path}: must be an array of proxies, not {json.dumps(rows)[:40]}")
    names: set[str] = set()
    for number, row in enumerate(rows, start=1):
        problem = _problem(row) or (f"name {row['name']!r} is there twice" if row["name"] in names else None)
        if problem:
            raise ConfigFileError(f"{path}: proxy {number}: {problem}")
        names.add(row["name"])
    return rows


def _problem(row: Any) -> str | None:
    if not isinstance(row, dict):
        return f"must be an object, not {json.dumps(row)[:40]}"
    for key in row:
        if key not in _TYPES:
            return f"unknown key {key!r}{nearest(key, _TYPES)}"
    for key, expected in _TYPES.items():
        if key in row and not isinstance(row[key], expected):
            name = "true or false" if expected is bool else "a string"
            return f"{key} must be {name}, not {json.dumps(row[key])[:40]}"
    return next((f"{key} is missing" for key in _REQUIRED if not row.get(key)), None)


async def create_proxies(proxies: ProxyCollection, path: Path, rows: list[dict[str, Any]]) -> None:
    """Creates the proxies. Raises ``ConfigFileError`` for one that cannot listen."""
    for number, row in enumerate(rows, start=1):
        try:
            await proxies.create(json.dumps(row).encode())
        except ApiError as error:
            raise ConfigFileError(f"{path}: proxy {number} ({row['name']}): {error.message}") from None
