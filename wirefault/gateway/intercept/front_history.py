"""The front's file in the history of the run that has the lane."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from wirefault.gateway.intercept.lane_state import ArmedAttempt, LaneState
from wirefault.history.events import ConnectionEnded
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import SettingsError


class FrontHistory:
    """Writes what became of connections; ``tell`` gets a sentence when that cannot be done any more."""

    def __init__(self, logs: Path, lane: int, state: LaneState, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._failed = False
        self._logs = logs
        self._lane = lane
        self._state = state
        self._writer: tuple[str, Writer] | None = None

    async def record(self, attempt: ArmedAttempt, ended: ConnectionEnded) -> None:
        """Into the history of the attempt's run, unless that is over: its seal is set then."""
        try:
            if not self._failed and await self._state.is_going_on(attempt.run_id):
                self._writer_of(attempt.run_id).write(ended)
        except (OSError, sqlite3.Error, SettingsError) as error:
            self._failed = True  # more would go on a line that was cut
            self._tell(f"the history cannot be written: {error}")

    def _writer_of(self, run_id: str) -> Writer:
        if self._writer is None or self._writer[0] != run_id:
            self.close()
            path = history_file(self._logs, run_id, "front", self._lane)
            self._writer = (run_id, Writer(path))
        return self._writer[1]

    def close(self) -> None:
        if self._writer is not None:
            self._writer[1].close()
            self._writer = None
