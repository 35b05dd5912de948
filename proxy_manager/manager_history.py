"""The manager's file in the history of the run that has the lane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy_manager.outages import ToxicsStep
from wirefault.history.events import Event, ToxicsAction, ToxicsChanged
from wirefault.history.writer import Writer, history_file
from wirefault.state.state import AttemptRow


class ManagerHistory:
    """Records what was done to a lane's toxics; ``clock`` gives seconds since the epoch.

    Raises ``OSError``.
    """

    def __init__(self, logs: Path, lane: int, clock: Callable[[], float]) -> None:
        self._logs = logs
        self._lane = lane
        self._clock = clock
        self._writer: tuple[str, Writer] | None = None

    def record(
        self,
        attempt: AttemptRow,
        action: ToxicsAction,
        toxics: list[dict[str, Any]],
        detail: str = "",
    ) -> None:
        """``toxics``: those that were read back."""
        event = ToxicsChanged(self._clock(), attempt.episode, attempt.attempt, action, toxics, detail)
        self.write(attempt.run_id, event)

    def record_change(
        self, attempt: AttemptRow, toxics: list[dict[str, Any]], change: ToxicsStep, begun: float
    ) -> None:
        """A planned one. ``begun``: when the manager began to carry it out."""
        event = ToxicsChanged(
            self._clock(),
            attempt.episode,
            attempt.attempt,
            "started" if change.started else "ended",
            toxics,
            ended=change.ended,
            begun=begun,
            started=change.started,
        )
        self.write(attempt.run_id, event)

    def write(self, run_id: str, *events: Event) -> None:
        """Events of that run, one by one."""
        if self._writer is None or self._writer[0] != run_id:
            self.close()
            path = history_file(self._logs, run_id, "manager", self._lane)
            self._writer = (run_id, Writer(path))
        for event in events:
            self._writer[1].write(event)

    def close(self) -> None:
        if self._writer:
            self._writer[1].close()
            self._writer = None
