"""Servers over pipes among this process's descendants."""

from __future__ import annotations

import subprocess

import pytest

from tests.support import until
from wirefault.subjects.taps import watch_pipes
from wirefault.subjects.taps.watch_pipes import PipeServers

INITIALIZE = (
    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}\n'
)


@pytest.mark.slow
def test_program_without_words_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has no command line while it executes another program."""
    words = watch_pipes._words
    empty = [True]
    servers = PipeServers()
    with subprocess.Popen(["sleep", "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        server.stdin.write(INITIALIZE)
        server.stdin.flush()
        monkeypatch.setattr(watch_pipes, "descendants", lambda _: [server.pid])
        monkeypatch.setattr(watch_pipes, "_maker_of_pipes", lambda _: 1)
        monkeypatch.setattr(watch_pipes, "_words", lambda pid: [] if empty else words(pid))
        servers.look()
        assert servers.commands == []
        empty.clear()
        until(lambda: words(server.pid), "sleep's command line")
        servers.look()
        assert servers.commands == ["sleep 30"]
        server.kill()
