"""A marked key of a real model in Compose: in no log of a container, no file and no volume."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.compose.engine import PATIENCE_S
from tests.compose.rig import Lab

pytestmark = pytest.mark.compose

KEY = "mArk3d01xQ7zP0wL9sT4vB"


def test_key_repeated_by_model_server_is_in_no_file_or_log(lab: Lab) -> None:
    received = []

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.headers["Authorization"])
            error = {"error": {"message": f"{self.headers['Authorization']} is not a key of ours: {KEY}"}}
            body = json.dumps(error).encode()
            self.send_response(401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("0.0.0.0", 0), Refuse) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://host.docker.internal:{server.server_port}/v1"
        key = {"MODEL_API_KEY": KEY, "MODEL": "compatible", "MODEL_BASE_URL": url, "BODIES": "on"}
        done = lab.play("docker compose up -d --force-recreate --no-deps agent", **key)
        assert done.returncode == 0, done.stderr
        lab.wait()
        server.shutdown()
    assert received and KEY in received[0]
    outputs = {service: "\n".join(lab.log(service)) for service in lab.containers()}
    outputs["the command"] = done.stdout + done.stderr
    assert [name for name, text in outputs.items() if KEY in text] == []
    matches = subprocess.run(
        ["grep", "-rlaF", KEY, lab.logs, lab.folder / "state"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (matches.returncode, matches.stdout) == (1, "")
    volume = lab.python(
        "gateway",
        "import os; print(*[open('/run/wirefault/' + n).read() for n in os.listdir('/run/wirefault')])",
    )
    assert volume and KEY not in volume
