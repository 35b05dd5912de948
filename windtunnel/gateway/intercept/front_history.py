"""The front's file in the history of the run that has the lane."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from windtunnel.gateway.intercept.lane_state import AttemptInProgress, LaneState
from windtunnel.history.events import ConnectionEnded
from windtunnel.history.writer import Writer, history_file
from windtunnel.settings.settings import SettingsError


class FrontHistory:
    """Writes what became of connections. ``failure``: why nothing can be written any more."""

    def __init__(self, logs: Path, lane: int, state: LaneState) -> None:
        self.failure = ""
        self._logs = logs
        self._lane = lane
        self._state = state
        self._writer: tuple[str, Writer] | None = None

    async def record(self, attempt: AttemptInProgress, ended: ConnectionEnded) -> None:
        """Into the history of the attempt's run, unless that is over: its seal is set then."""
        try:
            if await self._state.is_going_on(attempt.run_id):
                self._writer_of(attempt.run_id).write(ended)
        except (OSError, sqlite3.Error, SettingsError) as error:
            self.failure = f"the history cannot be written: {error}"

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
