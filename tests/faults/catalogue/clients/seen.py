"""Real clients' views of each fault: noted in docs/faults_seen.json, the source of docs/faults.md.

A test drives a client through the gateway and notes the result in ``SEEN``. A run with FAULTS_SEEN=write in
its environment writes the notes; any other run fails if the file differs. A row is a fault's name, perhaps
with its parameters: ``hang``, ``hang (at: mid_body)``.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT

FILE = ROOT / "docs" / "faults_seen.json"
EXECUTED = "the upstream executed it"

Table = dict[str, dict[str, str]]


class Seen:
    """The table in a file."""

    def __init__(self, path: Path, *, write: bool = False) -> None:
        self._path = path
        self._write = write

    def note(self, row: str, client: str, saw: str) -> None:
        """Raise ``AssertionError`` if the table differs, unless it is being written."""
        if self._write:
            self._put(row, client, saw)
        was = self.read().get(row, {}).get(client, "(not in the table)")
        assert saw == was, (
            f"{client} under {row} saw: {saw}; {self._path.name} says: {was}."
            " If that is right, run these tests once with FAULTS_SEEN=write"
        )

    def _put(self, row: str, client: str, saw: str) -> None:
        with self._path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # other runs may write at the same time
            file.seek(0)
            table: Table = json.loads(file.read() or "{}")
            table.setdefault(row, {})[client] = saw
            file.truncate(0)
            file.write(dumped(table))

    def read(self) -> Table:
        if not self._path.exists():
            return {}
        with self._path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            return json.load(file)


def dumped(table: Table) -> str:
    rows = {row: dict(sorted(clients.items())) for row, clients in sorted(table.items())}
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


SEEN = Seen(FILE, write=os.environ.get("FAULTS_SEEN") == "write")


def row_of(fault: str, parameters: Mapping[str, Any] | None = None) -> str:
    parameter_text = ", ".join(f"{key}: {_short_value(value)}" for key, value in (parameters or {}).items())
    return f"{fault} ({parameter_text})" if parameter_text else fault


def fault_of(row: str) -> str:
    return row.partition(" (")[0]


def _short_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def saw(call: Callable[[], Any], good: Any, tries: Callable[[], int] = lambda: 1) -> str:
    """A client's view of one call, in a few words.

    ``good`` is the result of the call without a fault; ``tries``, called at the end, counts the client's
    requests.
    """
    try:
        value = call()
    except Exception as error:  # noqa: BLE001 - whatever a client raises is what it saw
        end = f"exception {type(error).__name__}{_detail(error)}"
    else:
        end = "good answer" if value == good else "silent: changed answer taken as good"
    again = tries() - 1
    return end if again < 1 else f"retried {_times(again)}, then {end}"


def executed(count: int) -> str:
    """How often the upstream executed it, for the column ``EXECUTED``."""
    return {0: "never"}.get(count) or _times(count)


def _detail(error: Exception) -> str:
    """The status that an error reports, or what happened to the connection, if the client knows it."""
    status = getattr(error, "status_code", None) or getattr(
        getattr(error, "response", None), "status_code", None
    )
    root: BaseException = error
    while inner := root.__cause__ or (None if root.__suppress_context__ else root.__context__):
        root = inner
    connection = type(root).__name__ if isinstance(root, ConnectionError) and root is not error else ""
    detail = f"status {status}" if status else connection
    return f" ({detail})" if detail else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count) or f"{count} times"
