"""The server of ``wirefault ui``: a list of the runs, the page of each, two side by side, the memory,
and the lab's live state.

It only reads, and answers only requests that name it by a loopback address: another site's page in the same
browser can neither read it nor reach it by another name. Everything recorded may be hostile: ids are
looked up, not joined to a path, and texts are escaped as on every page.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from wirefault.audit.options import is_audit_id
from wirefault.audit.result import worst_so_far
from wirefault.core.errors import UserError
from wirefault.core.sockets import names_loopback
from wirefault.experiments.compare import compare
from wirefault.experiments.evidence import Evidence, evidence_of
from wirefault.experiments.index import (
    ListedRun,
    listed_run,
    lone_runs,
    recorded_runs,
    run_ids_of,
    saved_ids,
    started_text,
)
from wirefault.experiments.recorded import open_recording
from wirefault.history.reader import HistoryError
from wirefault.judging.ending import CAN_RESUME
from wirefault.memory.document import memory_document
from wirefault.memory.histories import sources_in
from wirefault.memory.store import Memory
from wirefault.report.known_findings import compared_side
from wirefault.report.page.comparisons import comparison_content
from wirefault.report.page.memory import memory_content
from wirefault.report.page.parts import PageContent
from wirefault.report.page.write import live_episode, page_content, page_html, template_html
from wirefault.report.ui.lab import LabState, LabWatch

_POLL_S, _LAB_POLL_S = 1.0, 0.5
_MAX_PAGES = 16
"""Pages kept in memory."""
_MAX_RENDERED = 8
_MAX_WATCHED = 20
"""Newest recordings whose files the list watches."""
_READ_ERRORS = (UserError, HistoryError, OSError, ValueError)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class ListRow:
    """A row of the list."""

    id: str
    started: str
    """In UTC; empty if its id has no time."""
    kind: str
    run: ListedRun
    evidence: str


@dataclass
class _Page:
    """The content of a page, its HTML, and the state of the files that it shows."""

    lock: Lock = field(default_factory=Lock)
    signature: _Signature | None = None
    content: PageContent | None = None
    html: str = ""
    rendered: OrderedDict[str, dict[int, Any]] = field(default_factory=OrderedDict)
    """The figures of the episodes of the last renderings, by the state of the files then."""


@dataclass
class Runs:
    """Reads the recorded runs; pages and states are kept as long as their files do not change."""

    logs: Path
    environ: Mapping[str, str]
    _pages: OrderedDict[tuple[str, ...], _Page] = field(default_factory=OrderedDict)
    _states: dict[str, tuple[_Signature, str]] = field(default_factory=dict)
    _worst: dict[str, tuple[_Signature, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    """Of the caches; each page has its own lock while it is rendered."""

    def ids(self) -> list[str]:
        """The ids, the newest first."""
        return sorted({*saved_ids(self.logs), *lone_runs(self.logs)}, reverse=True)

    def rows(self) -> list[ListRow]:
        """The list, the newest first."""
        saved, runs = set(saved_ids(self.logs)), set(recorded_runs(self.logs))
        return [self._row(name, is_saved=name in saved, has_arms=name not in runs) for name in self.ids()]

    def _row(self, name: str, *, is_saved: bool, has_arms: bool) -> ListRow:
        """``has_arms``: no run has its id."""
        run, state = listed_run(self.logs, name, is_saved=is_saved), self._state(name)
        if state == "altered":
            run = replace(run, verdict="unknown", worst="-", tested="-")
        elif run.verdict in CAN_RESUME:
            run = replace(run, worst=self._worst_so_far(name))
        kind = "audit" if is_saved and is_audit_id(self.logs, name) else "experiment" if has_arms else "run"
        return ListRow(name, started_text(name), kind, run, state)

    def _state(self, name: str) -> str:
        signature = self.signature(name)
        cached = self._states.get(name)
        if cached is None or cached[0] != signature:
            try:
                state = evidence_of(self.logs, name)
            except OSError as error:
                state = Evidence("altered", (str(error),))
            cached = self._states[name] = signature, state.state
        return cached[1]

    def _worst_so_far(self, name: str) -> str:
        signature = self.signature(name)
        cached = self._worst.get(name)
        if cached is None or cached[0] != signature:
            try:
                worst = worst_so_far(open_recording(self.logs, name, self.environ)) or "none"
            except _READ_ERRORS:
                worst = "-"
            cached = self._worst[name] = signature, worst
        return cached[1]

    def signature(self, name: str) -> _Signature:
        """Path, size and time of each file of a recording."""
        runs = [self.logs / "runs" / run for run in run_ids_of(self.logs, name)]
        folders = [folder for folder in (self.logs / "experiments" / name, *runs) if not folder.is_symlink()]
        files = [file for folder in folders for file in folder.glob("*") if file.is_file()]
        states = []
        for file in files:
            with suppress(FileNotFoundError):  # removed since, as by `runs prune`
                state = file.lstat()
                states.append((str(file), state.st_size, state.st_mtime_ns))
        return tuple(sorted(states))

    def page(self, name: str) -> str:
        """The page of a recording. Raises one of ``_READ_ERRORS``."""
        return self._current(name).html

    def content(self, name: str) -> PageContent:
        """The content of that page. Raises one of ``_READ_ERRORS``."""
        content = self._current(name).content
        assert content is not None
        return content

    def _current(self, name: str) -> _Page:
        def describe() -> PageContent:
            return page_content(open_recording(self.logs, name, self.environ))

        return self._cached((name,), describe)

    def comparison(self, first: str, second: str) -> str:
        """The page of two recordings. Raises one of ``_READ_ERRORS``."""

        def describe() -> PageContent:
            one, other = (open_recording(self.logs, name, self.environ) for name in (first, second))
            return comparison_content(one, other, compare(compared_side(one), compared_side(other)))

        return self._cached((first, second), describe).html

    def _cached(self, names: tuple[str, ...], describe: Callable[[], PageContent]) -> _Page:
        """The page as of now; others are rendered at the same time."""
        with self._lock:
            page = self._pages.setdefault(names, _Page())
            self._pages.move_to_end(names)
            while len(self._pages) > _MAX_PAGES:
                self._pages.popitem(last=False)
        with page.lock:
            signature = tuple(each for name in names for each in self.signature(name))
            if page.signature != signature:
                page.content = describe()
                page.html = page_html(page.content, live=_state_text(signature) if len(names) == 1 else "-")
                page.signature = signature
                page.rendered[_state_text(signature)] = _episode_figures(page.content)
                while len(page.rendered) > _MAX_RENDERED:
                    page.rendered.popitem(last=False)
            return page

    def rendered(self, name: str, state: str) -> dict[int, Any] | None:
        """The figures of the episodes that a page of this state shows, by number; None if not kept."""
        page = self._pages.get((name,))
        return page.rendered.get(state) if page else None


def _state_text(signature: _Signature) -> str:
    return hashlib.sha256(repr(signature).encode()).hexdigest()[:16]


def ui_app(logs: Path, environ: Mapping[str, str], lab: LabWatch | None = None) -> ASGIApp:
    """Return the app that shows the runs below ``logs`` and the live state of ``lab``; default: of none."""
    runs = Runs(logs, environ)
    watched = lab or LabWatch(logs, lambda: None)

    def listed(request: Request) -> Response:
        wanted = {name: request.query_params.get(name, "") for name in ("kind", "verdict", "text")}
        rows = runs.rows()
        context = {
            "rows": [row for row in rows if _matches(row, wanted)],
            "total": len(rows),
            "wanted": wanted,
            "kinds": sorted({row.kind for row in rows}),
            "verdicts": sorted({row.run.verdict for row in rows}),
            "logs": str(logs),
            "lab": watched.state(),
        }
        return _page(template_html("list.html", context))

    def run_page(request: Request) -> Response:
        return _rendered(runs, [request.path_params["name"]], runs.page)

    def comparison(request: Request) -> Response:
        names = [request.query_params.get(side, "") for side in ("first", "second")]
        return _rendered(runs, names, runs.comparison)

    async def changes(request: Request) -> Response:
        name = request.query_params.get("run", "")
        if name and name not in runs.ids():
            return PlainTextResponse("unknown run", 404, _HEADERS)
        state = request.query_params.get("state", "")
        stream = _run_changes(runs, name, state, request) if name else _list_changes(runs, request)
        return StreamingResponse(stream, 200, _HEADERS, "text/event-stream")

    def live(request: Request) -> Response:
        context = {"lab": watched.state(), "logs": str(logs)}
        return _page(template_html("lab.html", context, script="lab.js"))

    async def live_changes(request: Request) -> Response:
        return StreamingResponse(_lab_changes(watched, request), 200, _HEADERS, "text/event-stream")

    def memory(request: Request) -> Response:
        remembered = Memory(logs)
        if not remembered.exists:
            return _problem(404, f"no memory at {remembered.path}; build it with: wirefault memory rebuild")
        try:
            newer = sorted(set(sources_in(logs)).difference(remembered.sources()))
            document = memory_document(remembered, logs, environ, newer)
            return _page(page_html(memory_content(document, runs_at="/runs/"), live="-"))
        except _READ_ERRORS as error:
            return _problem(409, str(error))

    def health(request: Request) -> Response:
        return JSONResponse({"status": "OK"}, 200, _HEADERS)

    def status(request: Request) -> Response:
        answer = watched.status()
        return JSONResponse(
            answer or {"ready": False, "error": "no lab answers"}, 200 if answer else 503, _HEADERS
        )

    routes = [
        Route("/", listed),
        Route("/lab", live),
        Route("/lab/changes", live_changes),
        Route("/health", health),
        Route("/status", status),
        Route("/runs/{name}", run_page),
        Route("/compare", comparison),
        Route("/memory", memory),
        Route("/changes", changes),
    ]
    return _LoopbackOnly(Starlette(routes=routes))


def _matches(row: ListRow, wanted: Mapping[str, str]) -> bool:
    text = wanted["text"].casefold()
    return (
        wanted["kind"] in ("", row.kind)
        and wanted["verdict"] in ("", row.run.verdict)
        and (not text or text in f"{row.id} {row.run.worst} {row.run.tested} {row.run.title}".casefold())
    )


def _rendered(runs: Runs, names: list[str], render: Callable[..., str]) -> Response:
    known = runs.ids()
    for name in names:
        if name not in known:
            return _problem(404, f"unknown run {name!r}")
    try:
        return _page(render(*names))
    except _READ_ERRORS as error:
        return _problem(409, str(error))


def _page(html: str, status: int = 200) -> Response:
    return HTMLResponse(html, status, _HEADERS)


def _problem(status: int, text: str) -> Response:
    return _page(template_html("problem.html", {"text": text}), status)


async def _list_changes(runs: Runs, request: Request) -> AsyncIterator[str]:
    """Send an event whenever the list has changed."""

    def state() -> Any:
        ids = runs.ids()
        return ids, [runs.signature(each) for each in ids[:_MAX_WATCHED]]

    known = await asyncio.to_thread(state)
    yield ": connected\n\n"
    while not await request.is_disconnected():
        await asyncio.sleep(_POLL_S)
        now = await asyncio.to_thread(state)
        if now != known:
            known = now
            yield "event: list\ndata:\n\n"


async def _run_changes(runs: Runs, name: str, state: str, request: Request) -> AsyncIterator[str]:
    """Send each episode of a run when it has ended or changed, then an event for the other sections.

    ``state``: of the files when the page that asks was rendered, empty for one without episodes; ``stale`` if
    it is not known any more what it shows.
    """
    episodes = runs.rendered(name, state) if state else {}
    if episodes is None:
        yield "event: stale\ndata:\n\n"
        return
    yield ": connected\n\n"
    pause, first = _POLL_S, True
    while not await request.is_disconnected():
        now = _state_text(await asyncio.to_thread(runs.signature, name))
        if now == state or (first and not state and not await asyncio.to_thread(_episode_states, runs, name)):
            state, first = now, False
            await asyncio.sleep(pause)
            continue
        began, state, first = time.monotonic(), now, False
        current = await asyncio.to_thread(_episode_states, runs, name)
        changed = [number for number, each in current.items() if episodes.get(number) != each]
        for number in changed:
            document = await asyncio.to_thread(_live_episode, runs, name, number)
            if document:
                yield f"event: episode\ndata: {document}\n\n"
        episodes = current
        yield "event: sections\ndata:\n\n"
        pause = max(_POLL_S, 2 * (time.monotonic() - began))  # a long run is not read all the time
        await asyncio.sleep(pause)


def _episode_states(runs: Runs, name: str) -> dict[int, Any]:
    """A mark of each episode's visible state, by its number; empty while the run cannot be read."""
    try:
        return _episode_figures(runs.content(name))
    except _READ_ERRORS:
        return {}


def _episode_figures(content: PageContent) -> dict[int, Any]:
    return {row["number"]: row for row in content.figures["episodes"]}


def _live_episode(runs: Runs, name: str, number: int) -> str:
    """The JSON of an episode, on one line; empty if it cannot be read now."""
    try:
        episodes = runs.content(name).episodes
    except _READ_ERRORS:
        return ""
    return json.dumps(live_episode(episodes[number - 1])) if number <= len(episodes) else ""


async def _lab_changes(lab: LabWatch, request: Request) -> AsyncIterator[str]:
    """Send the lab's live state as HTML, now and whenever it has changed."""
    last: LabState | None = None
    yield ": connected\n\n"
    while not await request.is_disconnected():
        state = await asyncio.to_thread(lab.state)
        if state != last:
            last = state
            html = template_html("lab_state.html", {"lab": state})
            yield f"data: {json.dumps(html)}\n\n"
        await asyncio.sleep(_LAB_POLL_S)


class _LoopbackOnly:
    """Refuses requests that name this server by another host than a loopback one, and other methods."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            if not names_loopback(headers.get(b"host", b"").decode("latin-1")):
                await PlainTextResponse("this server has no such name", 421, _HEADERS)(scope, receive, send)
                return
            if scope["method"] not in ("GET", "HEAD"):
                await PlainTextResponse("read-only", 405, _HEADERS)(scope, receive, send)
                return
        await self._app(scope, receive, send)
