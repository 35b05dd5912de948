"""What the manager tells: ``/health``, ``/ready``, ``/status``. Nothing here changes anything."""

from __future__ import annotations

from dataclasses import asdict

from flask import Flask
from flask.typing import ResponseReturnValue

from proxy_manager.loop import Loop
from windtunnel.topology import Topology


def create_app(loop: Loop, topology: Topology) -> Flask:
    app = Flask(__name__)

    @app.get("/health")
    def health() -> ResponseReturnValue:
        return {"status": "OK"}

    @app.get("/ready")
    def ready() -> ResponseReturnValue:
        error = loop.error
        return ({"ready": True}, 200) if error is None else ({"ready": False, "error": error}, 503)

    @app.get("/status")
    def status() -> ResponseReturnValue:
        shown = asdict(loop.reconciler.status) if loop.reconciler else {}
        return {
            "lab_id": topology.lab_id,
            "lane": topology.lane,
            "ready": loop.error is None,
            "error": loop.error,
            "toxiproxy": topology.toxiproxy,
            "proxies": {link: str(address) for link, address in loop.addresses.items()},
            **shown,
        }

    return app
