"""Launchers that put MCP servers, which the subject starts over pipes, behind the lab."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

LAUNCHERS = "bin"
_SETTINGS = "pipes.json"
_LAUNCHER = Path(__file__).parents[1] / "stdio_shim" / "launcher.py"
_PROGRAM = Path(__file__).parents[2] / "lab" / "program.py"
_NAMES = (
    *("python", "python3", "node", "npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx"),
    *("docker", "podman", "java", "dotnet", "ruby", "php", "go", "tsx", "ts-node"),
)
_MAX_SHEBANG = 250


def write_launchers(folder: Path, lab_id: str, environ: Mapping[str, str]) -> Path | None:
    """Write a launcher for each program on ``PATH`` that may start an MCP server; return their folder.

    None if this Python's path cannot be in a script's first line. ``folder``: the tap's.
    """
    if len(sys.executable) > _MAX_SHEBANG or any(each.isspace() for each in sys.executable):
        return None
    launchers = folder / LAUNCHERS
    launchers.mkdir()
    shim = [sys.executable, "-P", str(_PROGRAM), "wirefault.subjects.stdio_shim.pipe_server"]
    settings = {"lab_id": lab_id, "shim": [*shim, str(folder / _SETTINGS)]}
    (folder / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    source = f"#!{sys.executable} -IS\n{_LAUNCHER.read_text(encoding='utf-8')}"
    first = launchers / ".launcher"
    first.write_text(source, encoding="utf-8")
    first.chmod(0o755)
    for name in _names(environ):
        (launchers / name).hardlink_to(first)
    return launchers


def _names(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of programs on ``PATH`` that start MCP servers, or are some by their name."""
    names: dict[str, None] = {}
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        try:
            entries = list(os.scandir(folder or "."))
        except OSError:
            continue
        for entry in entries:
            name = entry.name
            is_python = name.startswith("python3.") and name[8:].isdecimal()
            if name in _NAMES or is_python or "mcp" in name.lower():
                names.setdefault(name)
    yield from names
