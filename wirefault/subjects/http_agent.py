"""``http:`` subjects: agents that run already and are asked over HTTP; the lab may kill and resume them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPException

from wirefault.settings.settings import SettingsError
from wirefault.state.tables import KillOrder
from wirefault.subjects.agent_request import (
    AgentReply,
    AgentRequest,
    NoAnswerError,
    ReplyTimeout,
    is_open,
    is_ready,
)
from wirefault.subjects.killing import Killable, LabFailed, SubjectKills
from wirefault.subjects.results import AttemptOver, conversation_id, converse
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import Surroundings, resolved_words
from wirefault.subjects.user_commands import run_user_command
from wirefault.wiring.subject_spec import (
    SIGNAL,
    HttpSpec,
    RequestSpec,
    holds_conversations,
)

_POLL_S = 0.1
# for a command that kills or resumes; less than the gateway waits
_COMMAND_BOUND_S = 20.0
_RESUME_BOUND_S = 120.0
# from the end of the killing command until its port is closed
_CLOSED_BOUND_S = 5.0
_MIN_READY_S = 30.0
# Sends a request, which takes its time limit in seconds, and returns the reply.
SendTurn = Callable[[Callable[[float], AgentReply], float, AttemptContext], AgentReply]


def running_agent(
    spec: HttpSpec,
    surroundings: Surroundings,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> HttpAgent:
    """Return the agent once it listens; its wiring's ``resume`` starts it if nothing does.

    Raises ``SettingsError`` if that takes longer than ``ready_within``.
    """
    commands = _KillCommands(spec, surroundings, clock, sleep) if spec.kill else None
    within_s = spec.ready_within
    if commands is not None and not is_open(spec.http):
        within_s = commands.start()
    end = clock() + within_s
    while within_s and not is_ready(spec.http, spec.ready):
        if clock() > end:
            bound = f"no server listens there within {within_s:g} s (ready_within)"
            raise SettingsError(f"{surroundings.where}: subject.http: {bound}")
        sleep(_POLL_S)
    return HttpAgent(spec, spec.http, surroundings, commands.send_turn if commands else None)


class HttpAgent(Subject):
    """Sends each prompt in its wiring's request. Raises ``SettingsError`` for an invalid one."""

    kind = "http"

    def __init__(
        self, spec: RequestSpec, url: str, surroundings: Surroundings, send: SendTurn | None = None
    ) -> None:
        """``send``: how a turn's request is sent; None: once."""
        self._surroundings = surroundings
        self._send = send or _send_once
        self._request = AgentRequest(spec, url, surroundings.environ, surroundings.where)
        self.holds_conversations = holds_conversations(spec)
        self.name = f"http: {url.partition('?')[0]}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        conversation, headers = conversation_id(context), context.identity.headers("")

        def turn(text: str, _number: int, seconds: float) -> object:
            try:
                request = partial(self._request.send, text, conversation, headers)
                reply = self._send(request, seconds, context)
                return self._request.answer_in(reply)
            except ReplyTimeout:
                raise AttemptOver(limit_reached(context.settings.attempt_time)) from None
            except NoAnswerError as error:
                raise AttemptOver(crashed("NoAnswer", self._surroundings.redact(str(error)))) from None
            except (OSError, HTTPException) as error:
                failed = f"{type(error).__name__}: {error}"
                raise AttemptOver(crashed("NoReply", f"no reply: {failed}")) from None

        return converse(prompt, context, turn)


def _send_once(
    request: Callable[[float], AgentReply], seconds: float, _context: AttemptContext
) -> AgentReply:
    return request(seconds)


def send_through_kills(
    request: Callable[[float], AgentReply],
    seconds: float,
    kills: SubjectKills,
    process: Callable[[], Killable],
    resume: Callable[[KillOrder], None],
    clock: Callable[[], float],
) -> AgentReply:
    """Send a turn's request, and again whenever the lab has killed and resumed the agent.

    ``process``: the one to kill next.
    """
    end = clock() + seconds
    while True:
        reply: AgentReply | None = None
        failure: Exception | None = None
        with kills.watching(process()) as watch:
            try:
                reply = request(max(end - clock(), 0.001))
            except (OSError, HTTPException, ReplyTimeout) as error:
                failure = error
        if watch.order is not None:
            resume(watch.order)
        if reply is not None:
            return reply
        if watch.order is None and failure is not None:
            raise failure


class _KillCommands:
    """Kills and resumes an agent that runs elsewhere, by its wiring's commands. Implements ``Killable``."""

    exit_code = None  # whether it runs is not known before it is asked

    def __init__(
        self,
        spec: HttpSpec,
        surroundings: Surroundings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._clock = clock
        self._sleep = sleep
        self._kill = resolved_words(spec.kill or [], surroundings, "kill")
        self._resume = resolved_words(spec.resume or [], surroundings, "resume")

    def send_turn(
        self, request: Callable[[float], AgentReply], seconds: float, context: AttemptContext
    ) -> AgentReply:
        """Send a turn's request; see ``SendTurn``."""
        if context.kills is None:
            return request(seconds)
        resume = partial(self._resume_after, context.kills)
        return send_through_kills(request, seconds, context.kills, lambda: self, resume, self._clock)

    def start(self) -> float:
        """Run the resuming command at the beginning; return the seconds until it must be ready.

        Raises ``SettingsError`` if it fails.
        """
        try:
            self._run("resume", self._resume, _RESUME_BOUND_S)
        except LabFailed as error:
            problem = str(error).removeprefix("kill_subject: ")
            raise SettingsError(f"{self._surroundings.where}: {problem}") from None
        return max(self._spec.ready_within, _MIN_READY_S)

    def kill(self, *, grace_s: float | None) -> bool:
        """Run the killing command, first with TERM unless ``grace_s`` is None; whether its port is closed.

        Raises ``LabFailed`` if the command fails.
        """
        if grace_s is not None:
            self._run("kill", self._filled("TERM"), _COMMAND_BOUND_S)
            if self._is_closed(grace_s):
                return True
        self._run("kill", self._filled("KILL"), _COMMAND_BOUND_S)
        return self._is_closed(_CLOSED_BOUND_S)

    def _resume_after(self, kills: SubjectKills, order: KillOrder) -> None:
        kills.resumed(order, self._surroundings.redact(" ".join(self._spec.resume or ())))
        self._run("resume", self._resume, _RESUME_BOUND_S)
        end = self._clock() + max(self._spec.ready_within, _MIN_READY_S)
        while not is_ready(self._spec.http, self._spec.ready):
            if self._clock() > end:
                late = (
                    f"it was not ready within {max(self._spec.ready_within, _MIN_READY_S):g} s of its resume"
                )
                raise AttemptOver(crashed("NotReady", late))
            self._sleep(_POLL_S)

    def _filled(self, signal: str) -> list[str]:
        return [word.replace(SIGNAL, signal) for word in self._kill]

    def _is_closed(self, seconds: float) -> bool:
        end = self._clock() + seconds
        while is_open(self._spec.http):
            if self._clock() > end:
                return False
            self._sleep(_POLL_S)
        return True

    def _run(self, key: str, words: Sequence[str], seconds: float) -> None:
        try:
            run_user_command(
                f"subject.{key}", words, self._surroundings.environ, self._surroundings.folder, seconds
            )
        except LabFailed as error:
            raise LabFailed(self._surroundings.redact(str(error))) from None
