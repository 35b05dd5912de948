"""``wirefault lab serve``: a lab, its agent in conversation, and the HTTP API, until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from wirefault.conversation.chat import Chat
from wirefault.conversation.databases import open_databases
from wirefault.conversation.modes import Odds, mode_named
from wirefault.conversation.server import Api
from wirefault.conversation.worker import RUN_ERRORS, Worker, for_people
from wirefault.core.api_server import api_in_thread, wait_for_signal
from wirefault.core.control_access import own_secret
from wirefault.core.errors import InputError, UserError, nearest
from wirefault.core.files import open_shared, read_shared, replace_shared
from wirefault.core.identity import new_run_id
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.redaction import Redaction
from wirefault.core.sockets import LOOPBACK, Address, bind_or_replace, bound_address
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import Configuration

TOKEN_FILE = "conversation.token"
_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_MAX_RUN_BYTES = 4096
# as other conversation labs call them
_NAMES = {"AI_BASE_URL": "MODEL_BASE_URL", "AI_MODEL": "GROQ_MODEL", "AI_API_KEY": "MODEL_API_KEY"}

ENCODINGS = ("cl100k_base", "p50k_base", "r50k_base")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def run_of(state: Path, clock: Callable[[], float] = time.time) -> str:
    """Return the id of the run of all servers with this ``state`` folder; the first one draws it.

    Sessions keep their worlds and their idempotency keys, which depend on the run's id. Raises ``UserError``
    for a file that the lab did not write, and ``OSError``.
    """
    file = state / "conversation.json"
    try:
        stored = json.loads(read_shared(state, file, _MAX_RUN_BYTES))["run_id"]
        if _RUN_ID.fullmatch(stored):
            return str(stored)
    except FileNotFoundError:
        run_id = new_run_id(clock)
        replace_shared(state, file, json.dumps({"run_id": run_id}).encode())
        return run_id
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise UserError(f"{file}: not written by `wirefault lab serve`: move it away")


def own_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are set by the names of other conversation labs alone, by ours."""
    return {ours: environ[name] for name, ours in _NAMES.items() if name in environ and ours not in environ}


def log_level(environ: Mapping[str, str]) -> str:
    """Return LOG_LEVEL, WARNING by default. Raises ``InputError`` for an unknown one."""
    level = (environ.get("LOG_LEVEL") or "WARNING").upper()
    if level not in LEVELS:
        raise InputError(f"LOG_LEVEL: unknown level {level!r}{nearest(level, LEVELS)}")
    return level


def encoding_note(environ: Mapping[str, str]) -> str:
    """Return the line about AI_ENCODING, empty without it. Raises ``InputError`` for an unknown one.

    No tokenizer is installed with Wirefault: each downloads its vocabulary when it is first used.
    """
    encoding = environ.get("AI_ENCODING", "")
    if encoding and encoding not in ENCODINGS:
        hint = nearest(encoding, ENCODINGS)
        raise InputError(f"AI_ENCODING: unknown encoding {encoding!r}{hint}")
    return encoding and (
        f"AI_ENCODING={encoding} changes nothing: token_count is the usage that the model reports"
    )


class _RedactedLines(logging.Formatter):
    """One line per record, or several with a traceback, without secrets."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = Redaction(environ)

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction.text(super().format(record))


def _log_to_stderr(level: str, environ: Mapping[str, str]) -> None:
    """Write the records of the server and of its agent, which is in the same process, from this level up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactedLines(environ))
    logging.basicConfig(level=level, handlers=[handler])


def serve_conversations(
    configuration: Configuration,
    toxiproxy: Choice,
    port: int,
    failures: tuple[str, bool, float],
    bound: int,
    say: Callable[[str], None],
    show: Callable[[str], object] | None = None,
    host: str = LOOPBACK,
) -> None:
    """Open the store and the port, and serve. ``failures``: the forced mode, whether modes are drawn, and the
    factor of their probabilities. ``show`` opens or prints the page's address, which has the token.

    Raises ``UserError``, ``LabError`` and ``OSError``.
    """
    forced, probabilistic, multiplier = failures
    if forced not in ("", "none"):
        mode_named(forced)
    _log_to_stderr(log_level(configuration.environ), configuration.environ)
    if note := encoding_note(configuration.environ):
        say(note)
    state = configuration.state.parent
    state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(only_server(state))
        databases = open_databases(configuration.environ, state / "conversations.db", time.time)
        stack.callback(databases.close)
        chat = Chat(databases.store, time.time, Odds(multiplier), forced, probabilistic)
        listener = stack.enter_context(bind_or_replace(Address(host, port)))
        serve(configuration, toxiproxy, chat, listener, say, bound, databases.redis_answers, show)


@contextmanager
def only_server(state: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises ``UserError`` if another server has it."""
    flags = os.O_RDWR | os.O_CREAT
    with os.fdopen(open_shared(state, state / "conversation.lock", flags), "rb+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"another `wirefault lab serve` uses {state}; end it first") from None
        yield


def serve(
    configuration: Configuration,
    toxiproxy: Choice,
    chat: Chat,
    listener: socket.socket,
    say: Callable[[str], None],
    bound: int,
    redis: Callable[[], bool] | None = None,
    show: Callable[[str], object] | None = None,
) -> None:
    """Start the lab, answer the messages that an earlier server left, and serve until a signal.

    Raises ``LabError``, ``OSError`` and ``SettingsError``.
    """
    state = configuration.state.parent
    run_id = run_of(state)
    token = own_secret(state, state / TOKEN_FILE)
    with Lab(configuration, toxiproxy) as lab:
        environ = {**configuration.environ, TOPOLOGY_VARIABLE: str(lab.topology_path)}
        configuration = replace(configuration, environ=environ, topology=lab.topology)
        worker = Worker(bound)
        worker.start(configuration, lab, run_id, say)
        try:
            for session in list(chat.store.unfinished()):
                try:
                    worker.do(partial(chat.resume, session=session)).result()
                except RUN_ERRORS as error:
                    raise for_people(error) from None
                say(f"session {session.session_id}: continued from its checkpoint")
            with api_in_thread(Api(chat, worker, token, redis).app(), listener):
                at = replace(bound_address(listener), host=LOOPBACK)  # also if it listens on all addresses
                page = f"http://{at.host}:{at.port}/"
                say(f"page: {page}  (asks for the token; --open opens it with the token)")
                say(
                    f"http://{at.host}:{at.port}/docs  token: {state / TOKEN_FILE}  run: {run_id}"
                    "  (Ctrl-C ends it)"
                )
                if show is not None:
                    show(f"{page}?token={token}")
                wait_for_signal()
        finally:
            worker.stop()
