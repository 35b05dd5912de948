"""A server of ``wirefault lab serve`` in a folder."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import requests

from tests.support import free_port, until

PATIENCE_S = 120
# a busy machine is slower than a tool may be
PATIENT = {"TOOL_TIMEOUT": "30", "ATTEMPT_TIME": "120", "ARM_TIMEOUT": "60"}


class Served:
    """A server in a folder. ``kill`` and ``start`` follow each other in one test."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder, self.port, self.variables = folder, free_port(), variables
        self.start()

    def start(self) -> None:
        environ = {**os.environ, "SEED": "1", "TOXIC_PROB": "0", "ERROR_PROB": "0", **PATIENT}
        environ |= {"LOG_LEVEL": "info", "AI_ENCODING": "p50k_base", **self.variables}
        self.log = (self.folder / "serve.txt").open("w+")
        command = [sys.executable, "-m", "wirefault", "lab", "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=environ, stdout=self.log, stderr=self.log, start_new_session=True
        )
        until(self._is_up, "the server", patience=PATIENCE_S, interval=0.1)

    def _is_up(self) -> bool:
        text = (self.folder / "serve.txt").read_text()
        assert self.process.poll() is None, text
        return "/docs" in text

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.log.close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.state / "conversation.token").read_text()

    @property
    def state(self) -> Path:
        return self.folder / ".wirefault" / "state"

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        return requests.request(
            method, f"{self.url}{path}", json=body, timeout=PATIENCE_S, headers=headers, **more
        )

    def chat(self, session: str, message: str, **more: Any) -> dict[str, Any]:
        reply = self.call("POST", "/api/v1/chat", {"session_id": session, "message": message, **more})
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    def messages(self, session: str) -> int:
        """How many messages the session's world has."""
        if not (self.state / "effects.db").exists():
            return 0
        with closing(sqlite3.connect(f"file:{self.state / 'effects.db'}?mode=ro", uri=True)) as effects:
            if not effects.execute("SELECT * FROM sqlite_master WHERE name = 'effects'").fetchall():
                return 0  # its file is there before its table
            query = "SELECT COUNT(*) FROM effects WHERE kind = 'message_sent' AND world LIKE ?"
            return int(effects.execute(query, (f"%/{session}",)).fetchone()[0])
