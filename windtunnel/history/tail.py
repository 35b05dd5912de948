"""Follows a history file that another process is writing."""

from __future__ import annotations

from pathlib import Path

from windtunnel.history.events import Event
from windtunnel.history.reader import parse_line


class Tail:
    """Each ``read`` returns the events that were appended since the last; none while there is no file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._line = 0

    def read(self) -> list[Event]:
        """Raises ``HistoryError`` for a bad line. An unterminated one is left for the next time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        self._offset += end
        events = []
        for line in data[:end].split(b"\n")[:-1]:
            self._line += 1
            events.append(parse_line(line, self._path, self._line))
        return events
