"""The manager's HTTP API: ``/health``, ``/ready``, ``/status``; ``/faults`` alone changes anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from flask import Flask
from flask.typing import ResponseReturnValue

from proxy_manager.live_faults import FaultsEndpoint, faults_blueprint
from proxy_manager.loop import Loop
from wirefault.state.state import State
from wirefault.wiring.topology import Topology

_LARGEST_BODY = 1 << 20


def create_manager_api(
    loop: Loop, topology: Topology, open_state: Callable[[], State], token: str, logs: Path
) -> Flask:
    """``token`` is what a request that changes something must carry; ``logs`` has the histories."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = _LARGEST_BODY
    live = FaultsEndpoint(loop, topology, open_state, logs)
    app.register_blueprint(faults_blueprint(live, token, {topology.manager.host}))

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
