"""The file of memory: one SQLite database below the logs, rebuilt at will from the histories."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec.json import decode, encode

from wirefault.core.errors import InputError
from wirefault.core.files import UnsafeFileError, read_shared, replace_shared
from wirefault.core.sqlite import check_owner, connect
from wirefault.memory.episodes import Remembered

FOLDER = "memory"
_FILE, _MARKS = "memory.sqlite", "outcomes.json"
_MAX_MARKS_BYTES = 1024 * 1024
_TABLES = """
CREATE TABLE IF NOT EXISTS sources (source TEXT PRIMARY KEY, problem TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episodes (
    source TEXT NOT NULL, arm TEXT NOT NULL, run_id TEXT NOT NULL, key TEXT NOT NULL, time REAL NOT NULL,
    subject TEXT NOT NULL, outcome TEXT NOT NULL, result TEXT NOT NULL, episode TEXT NOT NULL
);
"""


class Memory:
    """The memory of a folder of logs. All methods raise ``InputError`` if its file cannot be used."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self.path = logs / FOLDER / _FILE

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def rebuild(
        self, episodes: Iterable[Remembered], sources: Iterable[str], skipped: Mapping[str, str]
    ) -> int:
        """Replace all content in one transaction; return the number of episodes.

        ``episodes`` are read first, so that ``skipped`` may be filled by them.
        """
        rows = [
            (
                each.source,
                each.arm,
                each.run_id,
                each.key,
                each.time,
                each.subject,
                each.outcome,
                each.result,
                encode(each).decode(),
            )
            for each in episodes
        ]
        with self._opened() as database:
            database.executescript(_TABLES)
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM sources")
            database.execute("DELETE FROM episodes")
            problems = {name: skipped.get(name, "") for name in sources}
            database.executemany("INSERT INTO sources VALUES (?, ?)", problems.items())
            database.executemany("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute("COMMIT")
        return len(rows)

    def episodes(self) -> list[Remembered]:
        """All remembered episodes, oldest first."""
        with self._opened() as database:
            rows = database.execute("SELECT episode FROM episodes ORDER BY time, rowid").fetchall()
            try:
                return [decode(row["episode"], type=Remembered) for row in rows]
            except ValueError:
                raise self._unusable("it is from another version") from None

    def sources(self) -> list[str]:
        """The experiments and runs that it was built from."""
        with self._opened() as database:
            return [row["source"] for row in database.execute("SELECT source FROM sources ORDER BY source")]

    def own_outcomes(self) -> dict[str, str]:
        """The outcomes that the user gave to experiments and runs; they outlive a rebuild."""
        try:
            data = read_shared(self._logs, self._marks, _MAX_MARKS_BYTES)
            return decode(data, type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{self._marks}: cannot be read: {' '.join(str(error).split())}") from None

    def mark(self, source: str, outcome: str) -> None:
        """Give an experiment or a run an outcome of the user's; an empty one takes it back."""
        outcomes = {**self.own_outcomes(), source: outcome}
        marked = {name: text for name, text in outcomes.items() if text}
        data = json.dumps(marked, ensure_ascii=False, indent=1)
        try:
            replace_shared(self._logs, self._marks, f"{data}\n".encode())
        except OSError as error:
            raise InputError(f"{self._marks}: cannot be written: {error}") from None

    @property
    def _marks(self) -> Path:
        return self._logs / FOLDER / _MARKS

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            if self.exists:
                check_owner(self.path, "episodes")
            with closing(connect(self.path)) as database:
                yield database
        except (sqlite3.Error, UnsafeFileError, OSError) as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, reason: str) -> InputError:
        return InputError(f"{self.path}: {reason}; remove it, and run: wirefault memory rebuild")
