"""Where an account is kept: in this process, or in a file that the gateways of several lanes share."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from wirefault.core.shared_files import open_shared
from wirefault.gateway.budgets.account import Account

_LARGEST = 1024 * 1024


class Book(Protocol):
    """Gives out its account to be read and changed, to one at a time."""

    def opened(self) -> AbstractContextManager[Account]: ...


class OwnBook:
    """An account of this process alone."""

    def __init__(self) -> None:
        self._account = Account()

    @contextmanager
    def opened(self) -> Iterator[Account]:
        yield self._account


class SharedBook:
    """An account in a file below the folder ``state``, for the runs of one ``pool``, also one after another.

    What a gateway of this ``lane`` that was killed had in progress is over. Raises ``OSError``.
    """

    def __init__(self, state: Path, pool: str, lane: str) -> None:
        self._state = state
        self._path = state / "budgets" / f"{pool}.json"
        with self.opened() as account:
            account.open.pop(lane, None)

    @contextmanager
    def opened(self) -> Iterator[Account]:
        file = open_shared(self._state, self._path, os.O_RDWR | os.O_CREAT)
        try:
            # held for as long as it takes to count a request, and let go by the system if this process dies
            fcntl.flock(file, fcntl.LOCK_EX)
            text = os.pread(file, _LARGEST, 0)
            account = self._read(text)
            yield account
            # blanks over the rest of a longer text: one write is whole or not at all, also after a kill
            os.pwrite(file, json.dumps(vars(account)).encode().ljust(len(text)), 0)
        finally:
            os.close(file)

    def _read(self, text: bytes) -> Account:
        try:
            return Account(**json.loads(text)) if text else Account()
        except (ValueError, TypeError):
            raise OSError(f"{self._path} holds no account of a budget: move it away") from None
