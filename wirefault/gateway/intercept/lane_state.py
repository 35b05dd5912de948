"""The ingress's view of ``state.db``, and its file in the run's history.

``state.db`` is read in a thread: a writer can delay a reader, and open connections must not wait.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from wirefault.history.events import ConnectionEnded, WentPastLab
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import SettingsError
from wirefault.state.state import State
from wirefault.state.tables import FoundLink
from wirefault.toxiproxy.toxics import UNRESOLVED
from wirefault.wiring.links import Link

_Answer = TypeVar("_Answer")
_LIVE_EPISODE, _LIVE_ATTEMPT = "live", 1


@dataclass(frozen=True)
class ArmedAttempt:
    """The attempt that a new connection belongs to."""

    run_id: str
    episode: str
    attempt: int
    # its plan has the toxic ``unresolved``, at any time
    plans_unresolved: bool = False


class LaneState:
    """State of one lane of one lab.

    Every method raises ``sqlite3.Error``, and ``SettingsError`` for a file of another version.
    """

    def __init__(self, path: Path, lab_id: str, lane: int) -> None:
        self._path = path
        self._lab = (lab_id, lane)
        self._state: State | None = None
        self._version = -1
        self._current: ArmedAttempt | None = None
        self._thread = ThreadPoolExecutor(1, "state")

    async def attempt(self) -> ArmedAttempt | None:
        """Return the armed attempt, or without a run the open episode of the run ``live``."""
        return await self._ask(self._attempt)

    async def is_running(self, run_id: str) -> bool:
        """Whether the run still has the lane, so that its history is not sealed yet."""
        return await self._ask(lambda state: _is_running(state, run_id))

    async def link_rows(self) -> list[FoundLink]:
        """Return the lane's links for new hosts, open or requested, in order."""
        return await self._ask(lambda state: state.found_links.rows(*self._lab))

    async def lab_links(self) -> list[Link]:
        """Return the links for new hosts of all lanes."""
        return await self._ask(lambda state: state.found_links.in_lab(self._lab[0]))

    async def request_link(self, link: Link) -> None:
        """Ask the manager to open the link."""
        await self._ask(lambda state: state.found_links.want(*self._lab, link))

    async def _ask(self, question: Callable[[State], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    def _answer(self, question: Callable[[State], _Answer]) -> _Answer:
        if self._state is None:
            self._state = State(self._path)
        return question(self._state)

    def _attempt(self, state: State) -> ArmedAttempt | None:
        version = state.data_version()  # unchanged: no write since the last connection
        if version != self._version:
            self._version, self._current = version, self._read_attempt(state)
        return self._current

    def _read_attempt(self, state: State) -> ArmedAttempt | None:
        for row in state.open_attempts(*self._lab):
            if row.state == "armed":
                plan = state.toxics.planned(row.id)
                unresolved = any(toxic.kind == UNRESOLVED for toxic in plan)
                return ArmedAttempt(row.run_id, row.episode, row.attempt, unresolved)
        if not state.runs(*self._lab, "leased"):
            for run in state.runs(*self._lab, "live"):
                return ArmedAttempt(run.run_id, _LIVE_EPISODE, _LIVE_ATTEMPT)
        return None

    def close(self) -> None:
        self._thread.shutdown()
        if self._state is not None:
            self._state.close()


def _is_running(state: State, run_id: str) -> bool:
    run = state.run(run_id)
    return run is not None and run.status in ("leased", "live")


class IngressHistory:
    """Writes the history of ended connections; ``warn`` gets one sentence if that fails."""

    def __init__(self, logs: Path, lane: int, state: LaneState, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._failed = False
        self._logs = logs
        self._lane = lane
        self._state = state
        self._writer: tuple[str, Writer] | None = None

    async def record(self, attempt: ArmedAttempt, event: ConnectionEnded | WentPastLab) -> None:
        """Write to the history of the attempt's run, unless that run is over and sealed."""
        try:
            if not self._failed and await self._state.is_running(attempt.run_id):
                self._writer_of(attempt.run_id).write(event)
        except (OSError, sqlite3.Error, SettingsError) as error:
            self._failed = True  # another record would continue a line that was cut
            self._warn(f"the history cannot be written: {error}")

    def _writer_of(self, run_id: str) -> Writer:
        if self._writer is None or self._writer[0] != run_id:
            self.close()
            path = history_file(self._logs, run_id, "ingress", self._lane)
            self._writer = (run_id, Writer(path))
        return self._writer[1]

    def close(self) -> None:
        if self._writer is not None:
            self._writer[1].close()
            self._writer = None
