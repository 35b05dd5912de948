"""The configuration of an MCP client, and the same with every server behind the lab.

It reads the forms of Claude, Cursor, Windsurf and Cline (``mcpServers``), VS Code (``servers``, also below
``mcp``) and Zed (``context_servers``), with the comments that some of them have. Pure.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import unique

_PLACES = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
_URL_KEYS = ("url", "serverUrl", "httpUrl")
_RESERVED = ("tools", "writes", "all")
_MAX_NAME_LENGTH = 32
_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_ADDRESS = re.compile(r"https?://[^\s/]+")

AddressOf = Callable[[str], str]
"""Returns the address of the link to that upstream in a lab that is up; empty if there is none."""


@dataclass
class WrappedConfig:
    """The configuration with its servers behind the lab."""

    data: dict[str, Any]
    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The links that the lab's wiring needs, by name."""
    wrapped: list[str] = field(default_factory=list)
    """The names of servers that now go through the lab."""
    left: list[str] = field(default_factory=list)
    """A line for each server that stays as it is: why."""
    needs_lab: bool = False
    """Whether a server has to wait for a lab to be up."""


def read_client_config(text: str, where: str) -> dict[str, Any]:
    """Read the file's text. Raises ``InputError`` that names file and line."""
    # a comment keeps its line ends, so that an error has the right line
    plain = _COMMENTS.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    plain = _LAST_COMMAS.sub(lambda match: match[1] or "", plain)
    try:
        data = json.loads(plain, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a duplicate key, or nested too deeply
        raise InputError(f"{where}: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f'{where}: must be an object with "mcpServers", not {json.dumps(data)[:40]}')
    return data


def wrap_servers(
    data: Mapping[str, Any], where: str, program: Sequence[str], lab: str, address_of: AddressOf
) -> WrappedConfig:
    """Put every server behind the lab; ``program`` starts ``wirefault``. Raises ``InputError``."""
    config = WrappedConfig(copy.deepcopy(dict(data)))
    servers, place = _servers(config.data, where)
    for name, server in servers.items():
        at = f"{where}: {place}.{name}"
        if not isinstance(server, dict):
            raise InputError(f"{at}: must be an object, not {json.dumps(server)[:40]}")
        link = _link_name(name, config.links)
        address = next((server[key] for key in _URL_KEYS if key in server), None)
        if "command" in server:
            _wrap_command(config, name, server, link, at, [*program, *(["--lab", lab] if lab else [])])
        elif address is not None:
            _wrap_address(config, name, server, link, at, address_of)
        else:
            known = ("command", "args", "env", "url")
            hints = [nearest(key, known) for key in server if key not in known]
            hint = next((hint for hint in hints if "did you mean" in hint), "")
            raise InputError(f"{at}: missing command or url{hint}")
    return config


def _servers(data: dict[str, Any], where: str) -> tuple[dict[str, Any], str]:
    """Return the servers by name, and the keys that lead to them."""
    for place in _PLACES:
        value: Any = data
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            continue
        name = ".".join(place)
        if not isinstance(value, dict):
            raise InputError(f"{where}: {name} must be an object of servers by name")
        if not value:
            raise InputError(f"{where}: {name} has no servers")
        return value, name
    first = [place[0] for place in _PLACES]
    hint = next((hint for key in data if "did you mean" in (hint := nearest(key, first))), "")
    keys = ", ".join(data) or "no keys"
    raise InputError(f'{where}: missing "mcpServers" (or "servers", as in VS Code), found {keys}{hint}')


def _wrap_command(
    config: WrappedConfig, name: str, server: dict[str, Any], link: str, at: str, program: Sequence[str]
) -> None:
    command, arguments = server["command"], server.get("args", [])
    if isinstance(command, dict):  # of older versions of Zed
        server |= {"args": command.get("args", []), "env": command.get("env") or server.get("env", {})}
        command, arguments = command.get("path"), server["args"]
    if not isinstance(command, str) or not command:
        raise InputError(f"{at}.command: must be the name of a program")
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise InputError(f"{at}.args: must be a list of texts")
    words = [command, *arguments]
    if "mcp" in words and "--link" in words and any("wirefault" in word for word in words):
        config.left.append(f"{name}: already goes through a lab")
        return
    config.links[link] = {"mcp": {}}
    config.wrapped.append(name)
    server["command"] = program[0]
    server["args"] = [*program[1:], "--link", link, "--", *words]


def _wrap_address(
    config: WrappedConfig, name: str, server: dict[str, Any], link: str, at: str, address_of: AddressOf
) -> None:
    key = next(key for key in _URL_KEYS if key in server)
    upstream = server[key]
    if not isinstance(upstream, str) or not _ADDRESS.match(upstream):
        raise InputError(f"{at}.{key}: must be an address such as http://127.0.0.1:9000/mcp")
    path, mark, query = upstream.partition("?")
    config.links[link] = {"upstream": path.rstrip("/"), "dialect": "mcp"}
    address = address_of(path.rstrip("/"))
    if address:
        server[key] = address + ("/" if path.endswith("/") else "") + mark + query
        config.wrapped.append(name)
    else:
        config.needs_lab = True
        config.left.append(f"{name}: its address in a lab is unknown until a lab with its link is up")


def _link_name(name: str, taken: Collection[str]) -> str:
    """Return a link's name for a server's: small letters, digits and ``_``."""
    base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not base[:1].isalpha() or base in _RESERVED:
        base = f"server_{base}".rstrip("_")
    chosen, number = base[:_MAX_NAME_LENGTH], 1
    while chosen in taken:
        number += 1
        chosen = f"{base[: _MAX_NAME_LENGTH - len(str(number)) - 1]}_{number}"
    return chosen
