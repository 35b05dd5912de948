"""Calls that wait until the manager has changed the toxics for them: told to it through ``state.db``."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wirefault.settings.settings import SettingsError
from wirefault.state.held_calls import HeldCall
from wirefault.state.state import State


class HeldCalls:
    """Those of one attempt. ``tell`` is called once for each call before which its link's toxics change.

    ``links``: those where calls may have to wait.
    """

    def __init__(self, tell: Callable[[str, int], None]) -> None:
        self._tell = tell
        self._changes: dict[str, set[int]] = {}
        self.links: Collection[str] = self._changes.keys()
        self._awaited: dict[str, dict[int, list[Callable[[], None]]]] = {}

    def expect(self, changes: Mapping[str, Collection[int]]) -> None:
        """Before these calls of each link, counted from 1, its toxics change."""
        for link, calls in changes.items():
            self._changes.setdefault(link, set()).update(calls)

    def must_wait(self, link: str, call: int) -> bool:
        """Whether the call of that number waits for a change: its own, or that of an earlier one.

        ``link`` is one of ``links``.
        """
        changes = self._changes[link]
        if call in changes:
            changes.remove(call)
            self._awaited.setdefault(link, {})[call] = []
            self._tell(link, call)
        return any(earlier <= call for earlier in self._awaited.get(link, ()))

    def wait(self, link: str, call: int, go_on: Callable[[], None]) -> None:
        """Calls ``go_on`` when the last change is made that the call must wait for."""
        last = max(earlier for earlier in self._awaited[link] if earlier <= call)
        self._awaited[link][last].append(go_on)

    def release(self, link: str, call: int) -> None:
        """The toxics are as that call is to meet them; told again, it changes nothing."""
        for go_on in self._awaited.get(link, {}).pop(call, ()):
            go_on()


class CallNotes:
    """Writes held calls into ``state.db``, in a thread of its own: another writer of that file can be slow.

    ``fail`` is called in the loop with what went wrong.
    """

    def __init__(self, state_db: Path, fail: Callable[[HeldCall, str], None]) -> None:
        self._path = state_db
        self._fail = fail
        self._thread = ThreadPoolExecutor(1, "held-calls")

    def tell(self, held: HeldCall) -> None:
        """Returns at once."""
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, held)
        writing.add_done_callback(lambda done: self._fail(held, done.result()) if done.result() else None)

    def _write(self, held: HeldCall) -> str:
        """What went wrong; empty if nothing did."""
        try:
            with State(self._path) as state:
                state.held_calls.add(held)
        except (sqlite3.Error, SettingsError, OSError) as error:
            return f"a call could not be told to the manager: {error}"
        return ""

    def close(self) -> None:
        """Waits for what is being written."""
        self._thread.shutdown()
