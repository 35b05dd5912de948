"""The thread that does all work on the run of a server, one job after the other."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from queue import Full, Queue
from typing import Any, cast

from sqlalchemy.exc import SQLAlchemyError

from wirefault.conversation.chat import Memories
from wirefault.conversation.turns import ConversationRun
from wirefault.core.api_server import ApiError
from wirefault.core.errors import UserError
from wirefault.core.run_key import derive_run_key
from wirefault.history.reader import HistoryError
from wirefault.lab.launcher import Lab
from wirefault.lab.live import LiveFaultsClient
from wirefault.runner.manager_client import RunAborted
from wirefault.settings.configuration import Configuration
from wirefault.subjects.lab_process import ConversingProcess, LabProcess
from wirefault.subjects.lab_worker import Conversations
from wirefault.subjects.loading import lab_agent_function
from wirefault.subjects.subject import Subject

_OPEN = "open_conversations"
_CHECKPOINTS = "conversation-checkpoints.db"
_Job = Callable[[ConversationRun, Memories], Any]
_Agents = AbstractContextManager[tuple[Callable[[str, str, int], Subject], Memories]]
RUN_ERRORS = (UserError, OSError, sqlite3.Error, SQLAlchemyError, HistoryError, RunAborted)
"""Files of the run that were planted, replaced or damaged, or a lab that failed."""
log = logging.getLogger(__name__)


def for_people(error: Exception) -> Exception:
    """Return one of ``RUN_ERRORS`` as an error that the command line prints as one line."""
    return error if isinstance(error, UserError | OSError) else UserError(str(error))


class Worker:
    """Does all work on the run in one thread, in the order of arrival; at most ``bound`` jobs wait."""

    def __init__(self, bound: int) -> None:
        self._jobs: Queue[tuple[Future[Any], _Job] | None] = Queue(bound)
        self._thread = threading.Thread(target=self._work, name="turns", daemon=True)
        self._ready: Future[None] = Future()

    def do(self, job: _Job) -> Future[Any]:
        """Add a job. Raises ``ApiError`` 503 if too many wait."""
        future: Future[Any] = Future()
        try:
            self._jobs.put_nowait((future, job))
        except Full:
            raise ApiError(503, "queue_full", f"{self._jobs.maxsize} turns wait already; try later") from None
        return future

    def start(self, configuration: Configuration, lab: Lab, run_id: str, say: Callable[[str], None]) -> None:
        """Open the agent and the run in the worker's thread, and wait until they are ready."""
        self._parts = configuration, lab, run_id, say
        self._thread.start()
        self._ready.result()

    def _work(self) -> None:
        configuration, lab, run_id, say = self._parts
        file = configuration.state.parent / _CHECKPOINTS
        key = partial(derive_run_key, lab.token)
        faults = LiveFaultsClient(
            lab.topology.manager, configuration.state.parent, configuration.wiring.links, lab.token
        )
        try:
            agents = cast(_Agents, lab_agent_function(_OPEN)(configuration, file, key))
            with agents as (agent, sessions):
                process = LabProcess(configuration, Conversations(file.absolute(), key(run_id)))

                def subject(recovery: str, model: str, max_tokens: int, own_process: bool) -> Subject:
                    variant = recovery, model, max_tokens
                    return ConversingProcess(process, variant, sessions) if own_process else agent(*variant)

                run = ConversationRun(run_id, configuration, subject, faults, say)
                self._ready.set_result(None)
                try:
                    self._serve(run, sessions)
                finally:
                    run.close()
                    process.stop()
        except RUN_ERRORS as error:
            if self._ready.done():
                log.error("the lab was not left in order: %s", error)
            else:
                self._ready.set_exception(for_people(error))
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def _serve(self, run: ConversationRun, sessions: Memories) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            try:
                future.set_result(job(run, sessions))
            except BaseException as error:  # noqa: BLE001 - the request's thread raises it
                future.set_exception(error)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End after the jobs that wait."""
        self._jobs.put(None)
        self._thread.join()
