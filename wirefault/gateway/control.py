"""The gateway's control API, by which the manager begins, changes and settles attempts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import convert
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from wirefault.core.api_server import ApiError, api_app
from wirefault.core.control_access import ControlAccess, guarded
from wirefault.core.run_key import derive_run_key
from wirefault.core.sockets import Address
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSetError, load_set
from wirefault.gateway.budgets.enforcer import budget_enforcer
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.lane import Lane, LaneAttempt
from wirefault.gateway.run import ForeignLink, Run
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings, SettingsError, load_frozen
from wirefault.state.state import State
from wirefault.wiring.links import Link

# the certificate is public, and the launcher waits for the first
PUBLIC = ("/", "/authority")


# Listens for a link. Raises ``ValueError`` for an invalid link, ``OSError``.
OpenLink = Callable[[Link], Awaitable[Address]]

_Model = TypeVar("_Model", bound=BaseModel)

# Both names go into a header line towards the tools; the run's is also part of a file name.
_Name = Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")


class _Attempt(BaseModel):
    model_config = ConfigDict(extra="forbid")

    episode: str = _Name
    attempt: int = Field(ge=1)


class _Begin(_Attempt):
    run_id: str = Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")
    settings_hash: str


class _Faults(_Attempt):
    number: int = Field(ge=1)
    faults: str


class _Changes(_Attempt):
    changes: dict[str, list[int]]


class _Released(_Attempt):
    link: str
    call: int = Field(ge=1)


class _Turn(_Attempt):
    turn: int = Field(ge=1)


class _NewLink(BaseModel):
    model_config = ConfigDict(extra="forbid")

    link: dict[str, Any]


class _Settle(_Attempt):
    bound_s: float = Field(ge=0, le=600)


class Runs:
    """Opens runs: their settings are in ``state.db``, their histories go under ``logs``.

    ``secret``: the runs' keys derive from it.
    """

    def __init__(
        self, state_db: Path, logs: Path, model: Callable[[Settings], Endpoint | None], secret: str
    ) -> None:
        self._secret = secret
        self._state_db = state_db
        self._logs = logs
        self._model = model

    def open(self, run_id: str, settings_hash: str, lane: Lane) -> Run:
        """Open a run. Raises ``ApiError`` unless ``state.db`` has it with those settings."""
        settings = load_frozen(self._frozen(run_id, settings_hash))
        path = history_file(self._logs, run_id, "gateway", lane.number)
        try:
            writer = Writer(path)
        except OSError as error:
            raise ApiError(503, "history_failed", f"{path} cannot be written: {error}") from None
        try:
            budgets = budget_enforcer(settings, self._state_db.parent, lane.number, time.time)
            key = derive_run_key(self._secret, run_id)
            return Run(run_id, settings, writer, self._model(settings), lane.links, budgets, key)
        except OSError as error:
            writer.close()
            raise ApiError(503, "budgets_failed", f"the run's budget cannot be kept: {error}") from None
        except (ForeignLink, SettingsError) as error:
            writer.close()
            code = "foreign_link" if isinstance(error, ForeignLink) else "bad_cassettes"
            raise ApiError(409, code, str(error)) from None

    def _frozen(self, run_id: str, settings_hash: str) -> str:
        try:
            row = None
            if self._state_db.exists():
                with State(self._state_db) as state:
                    row = state.run(run_id)
        except sqlite3.Error as error:
            raise ApiError(503, "state_failed", f"{self._state_db} cannot be read: {error}") from None
        if row is None:
            raise ApiError(409, "unknown_run", f"{self._state_db} has no run {run_id!r}")
        if row.settings_hash != settings_hash:
            raise ApiError(
                409,
                "settings_differ",
                f"run {run_id!r} has the settings {row.settings_hash}, not {settings_hash!r}",
            )
        return row.settings


def create_app(
    lanes: Mapping[int, Lane], runs: Runs, open_link: OpenLink, pem: str, access: ControlAccess
) -> ASGIApp:
    """Return the control API over these lanes, for callers with ``access``; ``_Api`` has the routes.

    ``pem``: the certificate of the authority for intercepted hosts; empty without interception.
    """
    api = _Api(lanes, runs, open_link, pem)
    app = api_app(
        [
            Route("/", api.health),
            Route("/authority", api.authority, methods=["GET"]),
            Route("/lanes/{lane:int}", api.show, methods=["GET"]),
            Route("/lanes/{lane:int}", api.begin, methods=["PUT"]),
            Route("/lanes/{lane:int}/faults", api.set_faults, methods=["PUT"]),
            Route("/lanes/{lane:int}/calls", api.expect_changes, methods=["PUT"]),
            Route("/lanes/{lane:int}/calls", api.release, methods=["POST"]),
            Route("/lanes/{lane:int}/turn", api.begin_turn, methods=["PUT"]),
            Route("/lanes/{lane:int}/links/{name}", api.open_link, methods=["PUT"]),
            Route("/lanes/{lane:int}/settle", api.settle, methods=["POST"]),
        ],
    )
    return guarded(app, access)


class _Api:
    """The routes, which raise ``ApiError``."""

    def __init__(self, lanes: Mapping[int, Lane], runs: Runs, open_link: OpenLink, pem: str) -> None:
        self._lanes = lanes
        self._runs = runs
        self._open_link = open_link
        self._pem = pem

    async def health(self, request: Request) -> JSONResponse:
        return JSONResponse({"status": "OK"})

    async def authority(self, request: Request) -> JSONResponse:
        """Return the certificate that an intercepted subject must trust."""
        if not self._pem:
            raise ApiError(404, "not_intercepted", "this wiring intercepts nothing")
        return JSONResponse({"pem": self._pem})

    async def show(self, request: Request) -> JSONResponse:
        return JSONResponse(_status(_lane(self._lanes, request)))

    async def begin(self, request: Request) -> JSONResponse:
        """Begin an attempt: connections accepted from now on belong to it."""
        lane, body = _lane(self._lanes, request), await _body(request, _Begin)
        run = lane.start_run(
            body.run_id,
            body.settings_hash,
            lambda: self._runs.open(body.run_id, body.settings_hash, lane),
        )
        _check_history(run)
        lane.start_attempt(run, body.episode, body.attempt)
        return JSONResponse(_status(lane))

    async def set_faults(self, request: Request) -> JSONResponse:
        """Arm a fault set from the attempt's next request on, for the rest of the run."""
        lane, body = _lane(self._lanes, request), await _body(request, _Faults)
        run = _attempt_of(lane, body).run
        try:
            fault_set = load_set(body.faults, f"configuration {body.number}", REGISTRY, None)
            run.configure(body.number, fault_set, body.episode, body.attempt)
        except (FaultSetError, ForeignLink) as error:
            raise ApiError(409, "faults_refused", str(error)) from None
        _check_history(run)
        return JSONResponse(_status(lane))

    async def expect_changes(self, request: Request) -> JSONResponse:
        """Hold these calls of each link until they are released: its toxics change before them."""
        lane, body = _lane(self._lanes, request), await _body(request, _Changes)
        _attempt_of(lane, body).call_holds.expect(body.changes)
        return JSONResponse(_status(lane))

    async def release(self, request: Request) -> JSONResponse:
        """Release a call: its link's toxics are set."""
        lane, body = _lane(self._lanes, request), await _body(request, _Released)
        _attempt_of(lane, body).call_holds.release(body.link, body.call)
        return JSONResponse(_status(lane))

    async def begin_turn(self, request: Request) -> JSONResponse:
        """Begin a turn of the user: requests that come from now on belong to it."""
        lane, body = _lane(self._lanes, request), await _body(request, _Turn)
        _attempt_of(lane, body).turn = body.turn
        return JSONResponse(_status(lane))

    async def open_link(self, request: Request) -> JSONResponse:
        """Listen for a link that was found, and return the address. Idempotent."""
        lane, body = _lane(self._lanes, request), await _body(request, _NewLink)
        try:
            link = convert(body.link, Link)
            address = await self._open_link(link)
        except ValueError as error:
            raise ApiError(409, "link_refused", str(error)) from None
        except OSError as error:
            raise ApiError(503, "no_listener", f"{link.name}: {error}") from None
        return JSONResponse({"lane": lane.number, "link": link.name, "listen": str(address)})

    async def settle(self, request: Request) -> JSONResponse:
        """End the attempt once all its tool-link connections are closed, or at the bound."""
        lane, body = _lane(self._lanes, request), await _body(request, _Settle)
        run = lane.run
        still_open = await lane.settle(body.episode, body.attempt, body.bound_s)
        if run is not None:
            _check_history(run)
        return JSONResponse({"settled": still_open == 0, "open": still_open})


def _lane(lanes: Mapping[int, Lane], request: Request) -> Lane:
    number = int(request.path_params["lane"])
    if number not in lanes:
        raise ApiError(404, "unknown_lane", f"unknown lane {number}; the lanes are {sorted(lanes)}")
    return lanes[number]


def _attempt_of(lane: Lane, body: _Attempt) -> LaneAttempt:
    """Return the attempt in progress, which must be the one in the request."""
    attempt = lane.attempt
    if attempt is None or not attempt.is_(body.episode, body.attempt):
        raise ApiError(409, "other_attempt", f"the lane does not have attempt {body.attempt}")
    return attempt


async def _body(request: Request, model: type[_Model]) -> _Model:
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ApiError(400, "bad_request", f"{where} {first['msg']}".strip()) from None


def _check_history(run: Run) -> None:
    run.flush()
    if run.failure:
        raise ApiError(503, "history_failed", run.failure)
    recorder = run.model.recorder if run.model else None
    if recorder is not None and recorder.failure:
        raise ApiError(503, "recording_failed", recorder.failure)


def _status(lane: Lane) -> dict[str, object]:
    run, attempt = lane.run, lane.attempt
    return {
        "lane": lane.number,
        "run_id": run.run_id if run else None,
        "settings_hash": run.settings_hash if run else None,
        "episode": attempt.episode if attempt else None,
        "attempt": attempt.number if attempt else None,
        "open": attempt.open if attempt else 0,
    }
