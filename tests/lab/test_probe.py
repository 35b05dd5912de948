"""Compose's health check, against a real server."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from windtunnel.lab import probe


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/", "/ready") else 503)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def serving():
    with HTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_only_200_is_an_answer_unless_another_is_wanted():
    with serving() as port:
        assert probe.is_healthy("127.0.0.1", port, "/ready")
        assert not probe.is_healthy("127.0.0.1", port, "/broken")
        assert probe.is_healthy("127.0.0.1", port, "/broken", "503")
    assert not probe.is_healthy("127.0.0.1", port, "/")


def test_it_runs_as_a_script_without_any_package():
    with serving() as port:
        command = [sys.executable, "-IS", probe.__file__, f"127.0.0.1:{port}", "/ready"]
        assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == 0


def test_one_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(probe, "_WAIT_S", 0.0)
    monkeypatch.setattr(probe, "up_for_s", lambda: 0.0)
    with serving() as port:
        assert probe.main(f"127.0.0.1:{port}", "/broken") == 1


@pytest.mark.parametrize("name", ["python", "a (b) c"])
def test_how_long_a_container_is_up_is_read_from_proc(tmp_path, name):
    (tmp_path / "1").mkdir()
    fields = ["S", *["0"] * 18, "12300", "0"]
    (tmp_path / "1" / "stat").write_text(f"1 ({name}) {' '.join(fields)}\n")
    (tmp_path / "uptime").write_text("130.50 200.00\n")
    assert probe.up_for_s(Path(tmp_path)) == pytest.approx(7.5)
