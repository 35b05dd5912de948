"""Reset and read a wiring's world by HTTP, a command, SQL or a Python function."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import requests

from wirefault.history.events import WorldProbed
from wirefault.wiring.world_spec import HookSpec, SqlSpec, WorldSpec

MAX_STATE_BYTES = 4 * 1024 * 1024  # bytes of JSON; each episode's history has it twice
_WORDS_OF_ERROR = 300


class HookFailed(Exception):
    """A reset or probe failed; the message says why, in one line."""


class WorldProbe:
    """Resets and reads the world around each episode. Paths and commands are relative to ``folder``.

    ``now`` gives seconds since the epoch. Without hooks it does nothing.
    """

    def __init__(self, spec: WorldSpec, folder: Path, now: Callable[[], float]) -> None:
        self._spec = spec
        self._folder = folder
        self._now = now

    def before(self, episode: str) -> WorldProbed | None:
        """Reset and read the world; None if there is nothing to record."""
        for hook in self._spec.resets:
            try:
                run_hook(hook, self._folder, as_json=False)
            except HookFailed as failure:
                return self._event(episode, "before", error=f"the reset failed: {failure}")
        return self._read(episode, "before")

    def after(self, episode: str) -> WorldProbed | None:
        """Read the world; None without a probe."""
        return self._read(episode, "after")

    def _read(self, episode: str, when: Any) -> WorldProbed | None:
        if self._spec.probe is None:
            return None
        try:
            return self._event(episode, when, run_hook(self._spec.probe, self._folder, as_json=True))
        except HookFailed as failure:
            return self._event(episode, when, error=f"the probe failed: {failure}")

    def _event(self, episode: str, when: Any, state: Any = None, error: str | None = None) -> WorldProbed:
        return WorldProbed(self._now(), episode, when, state, error)


def run_hook(hook: HookSpec, folder: Path, *, as_json: bool) -> Any:
    """Run the hook; its output as JSON if ``as_json``, else None. Raises ``HookFailed``."""
    if hook.sql is not None:
        rows = _sql(hook.sql, folder, hook.timeout)
        return _state(json.dumps(rows, default=str)) if as_json else None
    if hook.http is not None:
        text = _http(hook.http, hook.timeout)
    else:
        python = [sys.executable, "-m", "wirefault.runner.python_hook", str(hook.python)]
        text = _command(hook.command or python, folder, hook.timeout)
    return _state(text) if as_json else None


def _state(text: str) -> Any:
    if len(text) > MAX_STATE_BYTES:
        raise HookFailed(f"its answer is longer than {MAX_STATE_BYTES >> 20} MiB: probe for less")
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise HookFailed(f"its answer is not JSON: {_short(text)!r}") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _http(call: str, timeout: float) -> str:
    method, _, url = call.partition(" ")
    with requests.Session() as session:
        session.trust_env = False  # no proxy between the world and this probe
        try:
            reply = session.request(method, url, timeout=timeout)
        except requests.RequestException as error:
            raise HookFailed(f"{method} {url}: {type(error).__name__}") from None
    if not reply.ok:
        raise HookFailed(f"{method} {url}: {reply.status_code} {_short(reply.text)}")
    return reply.text


def _command(command: list[str], folder: Path, timeout: float) -> str:
    name = command[0] if command[0] != sys.executable else command[-1]
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            except BaseException:  # on Ctrl-C too, leave no process behind
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    except subprocess.TimeoutExpired:
        raise HookFailed(f"{name}: not done within {timeout:g} s") from None
    except (OSError, ValueError) as error:  # ValueError: output that is not UTF-8
        raise HookFailed(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    if process.returncode:
        last_line = (errors.strip().splitlines() or [""])[-1]
        raise HookFailed(f"{name}: exit code {process.returncode}: {_short(last_line)}")
    return output


def _sql(sql: SqlSpec, folder: Path, timeout: float) -> list[Mapping[str, Any]]:
    """The rows as mappings; empty for a statement without rows."""
    if sql.is_postgresql:
        return _postgresql(sql, timeout)
    path = folder / sql.database
    if not path.is_file():
        raise HookFailed(f"missing file {sql.database}")
    try:
        with closing(sqlite3.connect(path, timeout=timeout)) as database, database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql.query)]
    except sqlite3.Error as error:
        raise HookFailed(f"{sql.database}: {error}") from None


def _postgresql(sql: SqlSpec, timeout: float) -> list[Mapping[str, Any]]:
    try:
        psycopg = import_module("psycopg")
    except ImportError:
        raise HookFailed("PostgreSQL needs a driver: pip install 'wirefault[postgresql]'") from None
    # a connection error may repeat the address with its password
    try:
        connection = psycopg.connect(sql.database, connect_timeout=max(int(timeout), 1))
    except psycopg.Error as error:
        raise HookFailed(f"PostgreSQL: no connection: {type(error).__name__}") from None
    try:
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(f"SET statement_timeout = {math.ceil(timeout * 1000)}")
            cursor.execute(sql.query)
            names = [column.name for column in cursor.description or ()]
            rows = cursor.fetchall() if names else []
            connection.commit()
            return [dict(zip(names, row, strict=True)) for row in rows]
    except psycopg.Error as error:
        raise HookFailed(f"PostgreSQL: {_short(str(error))}") from None


def _short(text: str) -> str:
    return " ".join(text.split())[:_WORDS_OF_ERROR]
