"""The live state of the lab that is up: its links, the toxics in force, and the last requests.

The manager's public ``/status`` and the gateway's histories have it, so no token of the lab is needed here.
The histories are recorded without secrets.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import requests

from wirefault.core.files import UnsafeFileError, open_shared
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.sockets import Address
from wirefault.experiments.index import recorded_runs
from wirefault.history.events import Exchange
from wirefault.history.reader import LIVE, HistoryError, parse_line
from wirefault.judging.requests import Request
from wirefault.settings.configuration import running_lab
from wirefault.wiring.topology import topology_from

MAX_REQUESTS = 20
_ANSWER_BOUND_S = 1.0
_FRESH_S = 0.3
"""Clients that ask within this time of each other share one answer of the manager."""
# twenty requests with bodies of 64 KiB each way do not fit; most fit many times
_TAIL_BYTES = 1 << 20
_MAX_STATUS_BYTES = 1 << 20


@dataclass(frozen=True)
class LiveLink:
    """A link of the lab: the address that the agent dials, and the toxics in force on it, in words."""

    name: str
    dials: str
    toxics: tuple[str, ...]


@dataclass(frozen=True)
class LiveRequest:
    """A request that the gateway recorded. ``faults``: those injected into it, in words."""

    time: str
    link: str
    method: str
    path: str
    status: str
    faults: str
    failed: bool


@dataclass(frozen=True)
class LabState:
    """State of the lab now. ``doing``: a sentence; ``run``: in progress, else the last one; ``requests``: the
    newest first.
    """

    up: bool
    doing: str
    run: str = ""
    links: tuple[LiveLink, ...] = ()
    requests: tuple[LiveRequest, ...] = ()


NO_LAB = LabState(False, "No lab is up here. Start one: wirefault lab up, or docker compose up.")


@dataclass
class LabWatch:
    """Reads the lab's live state. ``find``: where its manager is, None while no lab is up."""

    logs: Path
    find: Callable[[], Address | None]
    _lock: Lock = field(default_factory=Lock)
    _read_at: float = -1.0
    _state: LabState = NO_LAB

    def state(self) -> LabState:
        """Return the state now, or as it was at most ``_FRESH_S`` ago."""
        with self._lock:
            if time.monotonic() - self._read_at > _FRESH_S:
                self._state = self._read()
                self._read_at = time.monotonic()
            return self._state

    def status(self) -> Mapping[str, Any] | None:
        """Return the manager's ``/status``; None if no lab answers."""
        manager = self.find()
        return None if manager is None else _status(manager)

    def _read(self) -> LabState:
        manager = self.find()
        if manager is None:
            return NO_LAB
        status = _status(manager)
        if status is None:
            return LabState(False, f"The lab's manager at {manager} does not answer.")
        run = str(status.get("run") or _newest_run(self.logs))
        live = f"{LIVE}{status.get('lab_id')}"
        return LabState(
            True, _doing(status), run, tuple(_links(status)), tuple(last_requests(self.logs, (run, live)))
        )


def lab_finder(environ: Mapping[str, str], state: Path) -> Callable[[], Address | None]:
    """Return how to find the manager: in Compose it is named, natively the lab of that ``state`` folder has
    a record.
    """
    if environ.get("MANAGER_HOST"):
        manager = topology_from(environ).manager
        return lambda: manager

    def find() -> Address | None:
        record = running_lab(state)
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # it is ending
            return topology_from({TOPOLOGY_VARIABLE: record["topology"]}).manager if record else None
        return None

    return find


def _status(manager: Address) -> Mapping[str, Any] | None:
    with requests.Session() as session:
        session.trust_env = False
        try:
            answer = session.get(manager.url + "/status", timeout=_ANSWER_BOUND_S, stream=True)
            body = answer.raw.read(_MAX_STATUS_BYTES, decode_content=True)
            status = json.loads(body) if answer.ok else None
        except (requests.RequestException, OSError, ValueError):
            return None
    return status if isinstance(status, dict) else None


def _doing(status: Mapping[str, Any]) -> str:
    if status.get("error"):
        return f"Not ready: {status['error']}"
    if status.get("run"):
        place = f"episode {status.get('episode')}, attempt {status.get('attempt')}"
        return f"Run {status['run']}: {place}." if status.get("episode") else f"Run {status['run']}."
    if status.get("configuration"):
        return "No run is in progress. Faults set on the lab act on all traffic."
    return "No run is in progress."


def _links(status: Mapping[str, Any]) -> Iterator[LiveLink]:
    observed = [row for row in status.get("observed") or () if isinstance(row, dict)]
    for name, address in dict(status.get("proxies") or {}).items():
        toxics = tuple(_toxic_words(row) for row in observed if row.get("link") == name)
        yield LiveLink(str(name), str(address), toxics)


def _toxic_words(row: Mapping[str, Any]) -> str:
    """Describe a toxic as in ``timeout upstream, timeout 400``."""
    attributes = row.get("attributes") or {}
    values = ", ".join(f"{key} {value}" for key, value in attributes.items())
    return " ".join(str(part) for part in (row.get("kind"), row.get("stream")) if part) + (
        f", {values}" if values else ""
    )


def _newest_run(logs: Path) -> str:
    """Return the run that began last; empty without one."""
    return max((run for run in recorded_runs(logs) if not run.startswith(LIVE)), default="")


def last_requests(logs: Path, runs: Iterable[str]) -> list[LiveRequest]:
    """Return the last requests that the runs' gateways recorded, the newest first, at most ``MAX_REQUESTS``.

    Unreadable lines and files are left out: the run's page reports them.
    """
    exchanges: list[Exchange] = []
    for run in runs:
        if not run or "/" in run or run.startswith("."):  # the name is the manager's word
            continue
        for path in (logs / "runs" / run).glob("gateway-*.jsonl"):
            with suppress(OSError, UnsafeFileError):
                exchanges += _last_exchanges(logs, path)
    exchanges.sort(key=lambda exchange: exchange.start)
    return [_request(exchange) for exchange in reversed(exchanges[-MAX_REQUESTS:])]


def _last_exchanges(logs: Path, path: Path) -> list[Exchange]:
    with os.fdopen(open_shared(logs, path, os.O_RDONLY), "rb") as file:
        start = max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0)
        file.seek(start)
        lines = file.read(_TAIL_BYTES).split(b"\n")
    whole = lines[1 if start else 0 : -1]
    exchanges: list[Exchange] = []
    for line in reversed(whole):
        with suppress(HistoryError):
            event = parse_line(line, path, 0)
            if isinstance(event, Exchange):
                exchanges.append(event)
        if len(exchanges) == MAX_REQUESTS:
            break
    return exchanges


def _request(exchange: Exchange) -> LiveRequest:
    faults = [fault.id or fault.kind for fault in exchange.faults if fault.injected]
    status = "no reply" if exchange.status is None else str(exchange.status)
    if exchange.status is not None and not exchange.reply_complete:
        status += ", broken off"
    return LiveRequest(
        datetime.fromtimestamp(exchange.start, UTC).strftime("%H:%M:%S.%f")[:-3],
        exchange.link,
        exchange.method,
        exchange.target,
        status,
        ", ".join(faults),
        bool(Request((), exchange, None).failed),
    )
