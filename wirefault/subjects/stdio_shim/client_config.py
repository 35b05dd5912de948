"""The configuration of an MCP client, and the same with every server behind the lab.

It reads the forms of Claude, Cursor, Windsurf and Cline (``mcpServers``), VS Code (``servers``, also below
``mcp``), Zed (``context_servers``), OpenCode (``mcp``) and Codex (``mcp_servers`` in TOML), with the comments
that some of them have. Pure.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import no_constant, too_deep, unique

_PLACES = (
    ("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",), ("mcp_servers",), ("mcp",),
)  # fmt: skip
_URL_KEYS = ("url", "serverUrl", "httpUrl")
_RESERVED = ("tools", "writes", "all")
_MAX_NAME_LENGTH = 32
_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMAS = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')
_ADDRESS = re.compile(r"https?://[^\s/]+")
_VARIABLE = re.compile(r"\$\{[^}]*\}|\{(?:env|file):[^}]*\}")
_TOML_KEY = re.compile(r"[A-Za-z0-9_-]+")

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

    def text(self, where: str) -> str:
        """The configuration in the form of the file that it was read from."""
        if _is_toml(where):
            return "\n".join(_toml_lines(self.data))
        return json.dumps(self.data, indent=2, ensure_ascii=False)


def _is_toml(where: str) -> bool:
    return where.lower().endswith(".toml")


def read_client_config(text: str, where: str) -> dict[str, Any]:
    """Read the file's text. Raises ``InputError`` that names file and line."""
    if _is_toml(where):
        try:
            return tomllib.loads(text)
        except ValueError as error:
            raise InputError(f"{where}: not TOML: {error}") from None
        except RecursionError:
            raise _too_deep(where, text) from None
    # a comment keeps its line ends, so that an error has the right line
    plain = _COMMENTS.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    plain = _LAST_COMMAS.sub(lambda match: match[1] or "", plain)
    try:
        data = json.loads(plain, object_pairs_hook=unique, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except ValueError as error:  # a duplicate key
        raise InputError(f"{where}: {error}") from None
    except RecursionError:
        raise _too_deep(where, text) from None
    if not isinstance(data, dict):
        raise InputError(f'{where}: must be an object with "mcpServers", not {json.dumps(data)[:40]}')
    return data


def _too_deep(where: str, text: str = "") -> InputError:
    return InputError(too_deep(where, text))


def wrap_servers(
    data: Mapping[str, Any], where: str, program: Sequence[str], lab: str, address_of: AddressOf
) -> WrappedConfig:
    """Put every server behind the lab; ``program`` starts ``wirefault``.

    A server that cannot be wrapped is left as it is. Raises ``InputError`` if that is so for all of them.
    """
    try:
        config = WrappedConfig(copy.deepcopy(dict(data)))
    except RecursionError:  # readable, but deeper than a copy can be
        raise _too_deep(where) from None
    servers, place = _servers(config.data, where)
    problems: list[str] = []
    for name, server in servers.items():
        link = _link_name(name, config.links)
        try:
            if not isinstance(server, dict):
                raise ValueError(f": must be an object, not {json.dumps(server, default=str)[:40]}")
            if "command" in server:
                _wrap_command(config, name, server, link, [*program, *(["--lab", lab] if lab else [])])
            elif any(key in server for key in _URL_KEYS):
                _wrap_address(config, name, server, link, address_of)
            else:
                known = ("command", "args", "env", "url")
                hints = [nearest(key, known) for key in server if key not in known]
                hint = next((hint for hint in hints if "did you mean" in hint), "")
                raise ValueError(f": missing command or url{hint}")
        except ValueError as error:
            problems.append(f"{place}.{name}{error}")
    if len(problems) == len(servers):
        raise InputError("\n  ".join(f"{where}: {problem}" for problem in problems))
    config.left += problems
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
    config: WrappedConfig, name: str, server: dict[str, Any], link: str, program: Sequence[str]
) -> None:
    command, arguments = server["command"], server.get("args", [])
    in_one_list = isinstance(command, list)  # of OpenCode
    if isinstance(command, list):
        command, arguments = (command or [""])[0], [*command[1:], *arguments]
    if isinstance(command, dict):  # of older versions of Zed
        server |= {"args": command.get("args", []), "env": command.get("env") or server.get("env", {})}
        command, arguments = command.get("path"), server["args"]
    if not isinstance(command, str) or not command:
        raise ValueError(".command: must be the name of a program")
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise ValueError(f".{'command' if in_one_list else 'args'}: must be a list of texts")
    words = [command, *arguments]
    if "mcp" in words and "--link" in words and any("wirefault" in word for word in words):
        config.left.append(f"{name}: already goes through a lab")
        return
    config.links[link] = {"mcp": {}}
    config.wrapped.append(name)
    started = [*program, "--link", link, "--", *words]
    server |= {"command": started} if in_one_list else {"command": started[0], "args": started[1:]}


def _wrap_address(
    config: WrappedConfig, name: str, server: dict[str, Any], link: str, address_of: AddressOf
) -> None:
    key = next(key for key in _URL_KEYS if key in server)
    upstream = server[key]
    if isinstance(upstream, str) and (variable := _VARIABLE.search(upstream)):
        raise ValueError(
            f".{key}: has the variable {variable[0]}, which only the client knows: put in its value"
        )
    if not isinstance(upstream, str) or not _ADDRESS.match(upstream):
        raise ValueError(f".{key}: must be an address such as http://127.0.0.1:9000/mcp")
    path, mark, query = upstream.partition("?")
    config.links[link] = {"upstream": path.rstrip("/"), "dialect": "mcp"}
    address = address_of(path.rstrip("/"))
    if address:
        server[key] = address + ("/" if path.endswith("/") else "") + mark + query
        config.wrapped.append(name)
    else:
        config.needs_lab = True
        config.left.append(f"{name}: its address in a lab is unknown until a lab with its link is up")


def _toml_lines(table: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the lines of a table, and of the tables below it."""
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    if path and (len(tables) < len(table) or not table):
        yield from ("", f"[{path}]")
    for key, value in table.items():
        if key not in tables:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in tables.items():
        yield from _toml_lines(value, f"{path}.{_toml_key(key)}".lstrip("."))


def _toml_key(key: str) -> str:
    return key if _TOML_KEY.fullmatch(key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(key)} = {_toml_value(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool | str):  # written as in JSON, but for one control character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)  # numbers, dates and times


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
