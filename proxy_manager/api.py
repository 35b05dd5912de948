"""The manager's HTTP API.

``/health``, ``/ready``, ``/status`` and ``/metrics`` are read-only; ``/faults`` sets faults;
``/handoffs`` decides calls that the lab's agent handed over to a person.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import requests
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from proxy_manager.handoffs import PAGE, handoff_routes
from proxy_manager.live_traffic import live_counts
from proxy_manager.loop import Loop
from proxy_manager.metrics import NOT_INSTALLED, LabMetrics
from wirefault.core.api_server import ApiError, api_app
from wirefault.core.control_access import ControlAccess, guarded
from wirefault.core.sockets import Address
from wirefault.dialects.json_values import parsed
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import MAX_CHAOS_LEVEL, FaultSet, FaultSetError, build_set, scaled
from wirefault.faults.sets.presets import preset
from wirefault.history.reader import HistoryError
from wirefault.state.handoffs import HandoffQueue
from wirefault.state.state import State
from wirefault.state.tables import ConfigurationRow
from wirefault.wiring.links import Links
from wirefault.wiring.topology import Topology

# paths that every program on this machine may read
_PUBLIC = ("/", "/health", "/ready", "/status", "/metrics", "/faults", PAGE)


# The loop steps immediately; it takes this long only if something is wrong.
_BOUND_S = 5.0
_GATEWAY_BOUND_S = 0.5
_IDLE = (
    "no run is in progress: these faults now apply to all traffic on the links, until a run takes the lane; a"
    " run without its own faults (FAULTS) has them too. Toxics for a part of an attempt (during, duration,"
    " turn) wait for such a run"
)
_KEYS = {"faults", "source", "chaos_level"}


class FaultsEndpoint:
    """Write configurations to ``state.db``, which the loop puts in force."""

    def __init__(self, loop: Loop, topology: Topology, open_state: Callable[[], State], logs: Path) -> None:
        self._loop = loop
        self._logs = logs
        self._lab = (topology.lab_id, topology.lane)
        self.links = topology.links
        self._open_state = open_state

    def show(self) -> dict[str, Any]:
        with self._open_state() as state:
            return self._description(state.configurations.latest(*self._lab))

    def set(self, faults: FaultSet, source: str) -> dict[str, Any]:
        """Return once the faults are in force. Raises ``ApiError``."""
        if self._loop.error is not None or self._loop.reconciler is None:
            raise ApiError(503, "not_ready", f"the manager is not ready: {self._loop.error}")
        with self._open_state() as state:
            number = state.configurations.add(*self._lab, faults.dump(), source, time.time())
            end = time.monotonic() + _BOUND_S
            while time.monotonic() < end and not self._loop.stop.is_set():
                row = state.configurations.get(*self._lab, number)
                if row is not None and row.refused:
                    raise ApiError(409, "faults_refused", row.refused)
                if self._loop.reconciler.status.configuration >= number:
                    return self._description(row)
                time.sleep(0.002)
        raise ApiError(503, "not_in_force", f"configuration {number} is written, but not in force yet")

    def _description(self, row: ConfigurationRow | None) -> dict[str, Any]:
        if row is None:
            return {"number": 0, "faults": None, "source": "", "from": None, "note": "", "live": None}
        status = self._loop.reconciler.status if self._loop.reconciler else None
        in_run = status.in_force_from if status and status.configuration == row.number else None
        later = "the next attempt" if status and status.run else "the next run without its own faults"
        faults = json.loads(row.faults) if row.faults else None
        return {
            "number": row.number,
            "faults": faults,
            "source": row.source,
            "from": f"from {in_run or later} on",
            "note": _IDLE if faults and not (status and status.run) else "",
            "live": self._live_counts(),
        }

    def _live_counts(self) -> Mapping[str, Any] | None:
        """Return the counts of traffic outside any run; None if no faults were set outside a run yet."""
        run_id = self._loop.reconciler.status.live if self._loop.reconciler else None
        if run_id is None:
            return None
        try:
            return live_counts(self._logs, run_id, self._lab[1])
        except (OSError, HistoryError) as error:
            return {"run": run_id, "error": str(error)}


def _requested_set(body: Any, links: Links) -> tuple[FaultSet, str]:
    """Return the requested set and its display name. ``faults``: a set as in a file, or a preset's name."""
    if not isinstance(body, dict) or not body.keys() <= _KEYS or "faults" not in body:
        raise ApiError(400, "bad_request", 'send {"faults": a set or a preset\'s name, "chaos_level": 0..2}')
    requested, level = body["faults"], body.get("chaos_level", 1)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 <= level <= MAX_CHAOS_LEVEL:
        raise ApiError(400, "bad_request", f"chaos_level must be a number in 0 .. {MAX_CHAOS_LEVEL:g}")
    try:
        unscaled = (
            preset(requested, links)
            if isinstance(requested, str)
            else build_set(requested, "faults", REGISTRY, links)
        )
    except FaultSetError as error:
        raise ApiError(400, "bad_faults", str(error)) from None
    chosen = scaled(unscaled, level)
    if not chosen.can_be_met:
        raise ApiError(
            400, "bad_faults", "none of its faults can occur; to remove the current ones: DELETE /faults"
        )
    name = requested if isinstance(requested, str) else str(body.get("source") or "a set")
    return chosen, name[:200] if level == 1 else f"{name[:200]} at chaos level {level:g}"


def gateway_problem(control: Address) -> str | None:
    """Return that the gateway does not answer, or None. The loop contacts it only during an attempt."""
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.get(control.url + "/", timeout=_GATEWAY_BOUND_S).raise_for_status()
    except requests.RequestException:
        return f"the gateway at {control} does not answer"
    return None


_MAX_BODY_BYTES = 1 << 20


def create_manager_api(
    loop: Loop,
    topology: Topology,
    open_state: Callable[[], State],
    token: str,
    logs: Path,
    handoffs: Path,
) -> ASGIApp:
    """Create the app. ``token``: required for changes; ``logs``: the folder of the histories.

    ``handoffs``: the file of the queue of calls that wait for a person.
    """
    metrics = LabMetrics(loop, open_state, logs, (topology.lab_id, topology.lane), time.time())
    api = _Api(loop, topology, FaultsEndpoint(loop, topology, open_state, logs), metrics)
    app = api_app(
        [
            Route("/health", api.health, methods=["GET"]),
            Route("/ready", api.ready, methods=["GET"]),
            Route("/status", api.status, methods=["GET"]),
            Route("/metrics", api.metrics, methods=["GET"]),
            Route("/faults", api.show_faults, methods=["GET"]),
            Route("/faults", api.set_faults, methods=["PUT"]),
            Route("/faults", api.clear_faults, methods=["DELETE"]),
            *handoff_routes(HandoffQueue(handoffs)),
        ],
    )
    return guarded(app, ControlAccess(token, {topology.manager.host}, _PUBLIC))


class _Api:
    """The routes, which raise ``ApiError``. Code that waits or reads files runs in a thread."""

    def __init__(self, loop: Loop, topology: Topology, live: FaultsEndpoint, metrics: LabMetrics) -> None:
        self._loop = loop
        self._topology = topology
        self._live = live
        self._metrics = metrics

    async def health(self, request: Request) -> JSONResponse:
        return JSONResponse({"status": "OK"})

    async def ready(self, request: Request) -> JSONResponse:
        error = self._loop.error
        if error is not None:
            return JSONResponse({"ready": False, "error": error}, 503)
        return JSONResponse({"ready": True})

    async def status(self, request: Request) -> JSONResponse:
        loop, topology = self._loop, self._topology
        error = loop.error or await run_in_threadpool(gateway_problem, topology.control)
        status_fields = asdict(loop.reconciler.status) if loop.reconciler else {}
        return JSONResponse(
            {
                "lab_id": topology.lab_id,
                "lane": topology.lane,
                "ready": error is None,
                "error": error,
                "toxiproxy": topology.toxiproxy,
                "proxies": {link: str(address) for link, address in loop.addresses.items()},
                **status_fields,
            }
        )

    async def metrics(self, request: Request) -> Response:
        try:
            text, content_type = await run_in_threadpool(self._metrics.exposition)
        except ImportError:
            raise ApiError(501, "not_installed", NOT_INSTALLED) from None
        return Response(text, media_type=content_type)

    async def show_faults(self, request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(self._live.show))

    async def set_faults(self, request: Request) -> JSONResponse:
        requested = _requested_set(await _json_body(request), self._live.links)
        return JSONResponse(await run_in_threadpool(self._live.set, *requested))

    async def clear_faults(self, request: Request) -> JSONResponse:
        return JSONResponse(await run_in_threadpool(self._live.set, FaultSet(), "clear"))


async def _json_body(request: Request) -> Any:
    """Return the body as JSON; None for other bodies. Raises ``ApiError`` for a body over the limit."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise ApiError(413, "too_large", f"the body must not exceed {_MAX_BODY_BYTES} bytes")
    try:
        return parsed(body)
    except ValueError:
        return None
