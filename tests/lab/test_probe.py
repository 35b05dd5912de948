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
from wirefault.lab import probe

NOTED = probe._ANSWERED


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


def test_only_200_counts_unless_other_status_is_requested():
    with serving() as port:
        assert probe.is_healthy("127.0.0.1", port, "/ready")
        assert not probe.is_healthy("127.0.0.1", port, "/broken")
        assert probe.is_healthy("127.0.0.1", port, "/broken", "503")
    assert not probe.is_healthy("127.0.0.1", port, "/")


@pytest.fixture(autouse=True)
def answered(monkeypatch, tmp_path) -> Path:
    """The file that marks the service as responding."""
    monkeypatch.setattr(probe, "_ANSWERED", tmp_path / NOTED.name)
    return tmp_path / NOTED.name


@pytest.fixture
def rests(monkeypatch) -> list[float]:
    """The probe's pauses, without waiting."""
    slept: list[float] = []
    monkeypatch.setattr(probe.time, "sleep", slept.append)
    return slept


def test_probe_runs_as_plain_script(tmp_path):
    # the memory folder is a container's own, but here the whole machine's
    source = Path(probe.__file__).read_text(encoding="utf-8").replace(str(NOTED.parent), str(tmp_path))
    script = tmp_path / "probe.py"
    script.write_text(source, encoding="utf-8")
    with serving() as port:
        command = [sys.executable, "-IS", str(script), f"127.0.0.1:{port}", "/ready"]
        assert subprocess.run(command, check=False, timeout=PATIENCE_S).returncode == 0
    assert (tmp_path / NOTED.name).exists()


def test_silent_service_times_out_and_is_polled_without_pause(monkeypatch, answered, rests):
    monkeypatch.setattr(probe, "_WAIT_S", 0.0)
    with serving() as port:
        for _ in range(2):
            assert probe.main(f"127.0.0.1:{port}", "/broken") == 1
    assert not answered.exists()
    assert probe._REST_S not in rests


def test_responding_service_is_polled_after_pause(monkeypatch, rests):
    monkeypatch.setattr(probe, "_WAIT_S", 0.0)
    with serving() as port:
        assert probe.main(f"127.0.0.1:{port}") == 0
        assert rests == []
        assert probe.main(f"127.0.0.1:{port}") == 0
        assert rests == [probe._REST_S]
        assert probe.main(f"127.0.0.1:{port}", "/broken") == 1
