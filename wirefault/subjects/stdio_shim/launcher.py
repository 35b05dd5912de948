"""A launcher, first on the tap's ``PATH``: starts the program of its name, an MCP server through the lab.

``taps/pipes.py`` writes it under the names of programs that start MCP servers (``python``, ``npx``). It
executes the real program at once, with the same arguments, environment and descriptors, unless standard input
and output are both pipes and the first line on standard input is MCP's. It looks at that line, which stays in
the pipe. Only the first argument changes, to the program's path: by it Python finds its own environment.
Standard library only, since it starts with each such program.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

_SETTINGS = "pipes.json"
_MAX_LINE = 65536
_FIRST_LINE_S = 1.0
"""MCP clients send their first message as soon as the server's process is there."""
_PIECE_WAIT_S = 0.005
_STATELESS = "io.modelcontextprotocol/"


def main() -> None:
    file = os.path.abspath(sys.argv[0])  # noqa: PTH100 - pathlib doubles the time of the start
    folder, name = os.path.split(file)
    environ = _environ()
    search = environ.get(b"PATH", os.defpath.encode()).decode(errors="surrogateescape").split(os.pathsep)
    others = [each for each in search if each != folder]
    program = _program(name, others)
    if not program:
        os.write(2, f"{name}: command not found\n".encode(errors="surrogateescape"))
        os._exit(127)
    words = [program, *sys.argv[1:]]
    if _is_pipe(0) and _is_pipe(1) and _expects_client(folder, words) and _speaks_mcp(folder, words):
        with open(os.path.join(os.path.dirname(folder), _SETTINGS), encoding="utf-8") as settings:  # noqa: PTH118, PTH120, PTH123
            shim = json.load(settings)["shim"]
        # the server itself is started as without the lab
        environ[b"PATH"] = os.pathsep.join(others).encode(errors="surrogateescape")
        _execute([*shim, *words], environ)
    _execute(words, environ)


def _environ() -> dict[bytes, bytes]:
    """Return the environment as it was given: Python may have added a locale."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            variables = file.read().split(b"\0")
    except OSError:
        return dict(os.environb)
    pairs = (variable.partition(b"=") for variable in variables if variable)
    return {name: value for name, _, value in pairs}


def _program(name: str, folders: list[str]) -> str:
    for folder in folders:
        path = os.path.join(folder or ".", name)  # noqa: PTH118
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112
            return path
    return ""


def _execute(words: list[str], environ: Mapping[bytes, bytes]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores both, and exec keeps that
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execve(words[0], words, environ)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(126)


# recognition


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _note(folder: str, words: list[str]) -> str:
    """Return the file that notes a command as no MCP server."""
    from zlib import crc32

    digest = crc32("\0".join(words).encode(errors="surrogateescape"))
    return os.path.join(os.path.dirname(folder), f"no-mcp-{digest:08x}")  # noqa: PTH118, PTH120


def _expects_client(folder: str, words: list[str]) -> bool:
    """Whether the command may be an MCP server: False if it was none before, so that it starts at once."""
    return not os.path.exists(_note(folder, words))  # noqa: PTH110


def _speaks_mcp(folder: str, words: list[str]) -> bool:
    deadline = time.monotonic() + _FIRST_LINE_S
    while True:
        line, ended = _peek(max(0.0, deadline - time.monotonic()))
        if line[:1] not in (b"", b"{") or ended or b"\n" in line or time.monotonic() >= deadline:
            break
        time.sleep(_PIECE_WAIT_S)
    if is_first_message(line.partition(b"\n")[0]):
        return True
    with suppress(OSError):
        open(_note(folder, words), "xb").close()  # noqa: PTH123
    return False


def _peek(timeout_s: float) -> tuple[bytes, bool]:
    """Return the bytes that wait on standard input, which stay there, and whether no more will come."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    events = dict(poll.poll(timeout_s * 1000)).get(0, 0)
    if not events & select.POLLIN:
        return b"", bool(events)
    if stat.S_ISSOCK(os.fstat(0).st_mode):
        with socket.socket(fileno=os.dup(0)) as client:
            data = client.recv(_MAX_LINE, socket.MSG_PEEK)
            return data, not data
    from ctypes import CDLL  # slow to import

    reading, writing = os.pipe()
    try:
        size = CDLL(None).tee(0, writing, _MAX_LINE, 0)
        return (os.read(reading, size), False) if size > 0 else (b"", True)
    finally:
        os.close(reading)
        os.close(writing)


def is_first_message(line: bytes) -> bool:
    """Whether the line is the first message of an MCP client, of either era of the protocol."""
    try:
        message = json.loads(line)
    except ValueError:
        return False
    if not isinstance(message, dict) or "jsonrpc" not in message or "method" not in message:
        return False
    params = message.get("params")
    if not isinstance(params, dict):
        return False
    is_handshake = message["method"] == "initialize" and "protocolVersion" in params
    return is_handshake or any(str(key).startswith(_STATELESS) for key in params.get("_meta") or ())


if __name__ == "__main__":
    main()
