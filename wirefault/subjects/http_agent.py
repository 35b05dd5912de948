"""``http:`` and ``service:`` subjects: agents that are asked over HTTP, running already or started here."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

from wirefault.history.logs import strip_control
from wirefault.settings.settings import SettingsError
from wirefault.state.tables import KillOrder
from wirefault.subjects.killing import Killable, LabFailed, SubjectKills
from wirefault.subjects.process import ProcessGroup, exit_description
from wirefault.subjects.results import AttemptOver, conversation_id, converse, value_at
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import AttemptFiles, Surroundings, existing_folder, resolved_words
from wirefault.subjects.user_commands import run_user_command
from wirefault.wiring.subject_spec import (
    CONVERSATION,
    PROMPT,
    SIGNAL,
    HttpSpec,
    RequestSpec,
    ServiceSpec,
    holds_conversations,
)

_MAX_REPLY = 4 * 1024 * 1024
_MAX_EXCERPT = 500
_CONNECT_TIMEOUT_S = 1.0
_TAG = re.compile(r"<[^<>]{0,200}>")  # the error pages of web servers are HTML


class ReplyTimeout(Exception):
    """The reply did not arrive in time."""


class NoAnswerError(Exception):
    """The reply has no answer; the message says why."""


@dataclass(frozen=True)
class AgentReply:
    status: int
    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def server_at(url: str) -> tuple[str, int]:
    """Return host and port of the URL."""
    parts = urlsplit(url)
    return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)


def is_open(url: str) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection(server_at(url), timeout=_CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


class AgentRequest:
    """A wiring's request to that URL. Raises ``SettingsError`` for a variable that is not set."""

    def __init__(self, spec: RequestSpec, url: str, environ: Mapping[str, str], where: str) -> None:
        self._spec = spec
        self._url = url
        self._headers: dict[str, str] = {}
        for name, value in spec.headers.items():
            try:
                self._headers[name] = Template(value).substitute(environ)
            except KeyError as error:
                problem = f"the variable {error.args[0]} is not set"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None
            except ValueError:
                problem = "a $ begins a variable's name; write $$ for a dollar sign"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None

    def send(self, prompt: str, conversation: str, identity: Mapping[str, str], seconds: float) -> AgentReply:
        """Return the agent's reply; ``identity`` has the headers that name the attempt.

        Raises ``ReplyTimeout``, or ``OSError`` and ``HTTPException`` without a complete reply.
        """
        words = {PROMPT: prompt, CONVERSATION: conversation}
        url = _filled_text(self._url, {name: quote(word, "") for name, word in words.items()})
        headers = {name: _filled_text(value, words) for name, value in self._headers.items()}
        body = None
        if self._spec.method != "GET":
            body = json.dumps(_filled(self._spec.body, words), ensure_ascii=False).encode("utf-8", "replace")
            headers = {"Content-Type": "application/json", **headers}
        return send(self._spec.method, url, {**identity, **headers}, body, seconds)

    def answer_in(self, reply: AgentReply) -> Any:
        """Return the answer, a text or a JSON value. Raises ``NoAnswerError``."""
        if not 200 <= reply.status < 300:
            text = " ".join(_TAG.sub(" ", strip_control(reply.text)).split())[:_MAX_EXCERPT]
            raise NoAnswerError(f"it answered with status {reply.status}: {text}")
        if not self._spec.answer and "json" not in reply.content_type:
            return reply.text
        try:
            return value_at(json.loads(reply.body), self._spec.answer)
        except (ValueError, RecursionError):
            raise NoAnswerError("its reply is not JSON") from None
        except LookupError as error:
            raise NoAnswerError(f"its reply has no {error.args[0]}") from None


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Fill the placeholders in a JSON value."""
    if isinstance(value, str):
        return _filled_text(value, words)
    if isinstance(value, dict):
        return {key: _filled(part, words) for key, part in value.items()}
    return [_filled(part, words) for part in value] if isinstance(value, list) else value


def _filled_text(text: str, words: Mapping[str, str]) -> str:
    """Fill both placeholders at once, so that a prompt with ``{conversation}`` in it is unchanged."""
    parts = text.split(PROMPT)
    return words[PROMPT].join(part.replace(CONVERSATION, words[CONVERSATION]) for part in parts)


def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> AgentReply:
    """Make one request on a new connection, past any proxy; redirects are not followed.

    Raises ``ReplyTimeout``, or ``OSError`` and ``HTTPException`` without a complete reply.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=seconds)
    expired = threading.Event()
    opened: list[socket.socket] = []  # the connection drops its socket before the reply is read

    def cut() -> None:
        expired.set()
        for sock in opened:
            with suppress(OSError):  # already closed
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)  # a socket's timeout restarts with each byte
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        content = response.read(_MAX_REPLY + 1)
    except (OSError, HTTPException) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise ReplyTimeout from None
        raise
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():
        raise ReplyTimeout
    if len(content) > _MAX_REPLY:
        raise HTTPException(f"its reply is larger than {_MAX_REPLY} bytes")
    return AgentReply(response.status, response.headers.get("Content-Type", ""), content)


_POLL_S = 0.1
_READY_TIMEOUT_S = 1.0


def is_ready(url: str, ready: str) -> bool:
    """Whether ``ready`` answers 2xx; without it, whether a server listens at ``url``."""
    if not ready:
        return is_open(url)
    try:
        return 200 <= send("GET", ready, {}, None, _READY_TIMEOUT_S).status < 300
    except (OSError, HTTPException, ReplyTimeout):
        return False


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


# Sends a request, which takes its time limit in seconds, and returns the reply.
SendTurn = Callable[[Callable[[float], AgentReply], float, AttemptContext], AgentReply]


def _send_once(
    request: Callable[[float], AgentReply], seconds: float, _context: AttemptContext
) -> AgentReply:
    return request(seconds)


def _send_through_kills(
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


# for a command that kills or resumes; less than the gateway waits
_COMMAND_BOUND_S = 20.0
_RESUME_BOUND_S = 120.0
# from the end of the killing command until its port is closed
_CLOSED_BOUND_S = 5.0
_MIN_READY_S = 30.0


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
        return _send_through_kills(request, seconds, context.kills, lambda: self, resume, self._clock)

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


_SERVICE_POLL_S = 0.02
# from the end of a connection to the end of its process
_EXIT_GRACE_S = 1.0


class ServiceSubject(Subject):
    """Keeps the process up, and restarts it for the attempt after one that it failed."""

    kind = "service"

    def __init__(
        self,
        spec: ServiceSpec,
        surroundings: Surroundings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self._surroundings = surroundings
        self._clock = clock
        self._sleep = sleep
        self._words = resolved_words(spec.service, surroundings, "service")
        self._folder = existing_folder(spec.folder, surroundings)
        self._resume = self._words
        if spec.resume:
            self._resume = resolved_words(spec.resume, surroundings, "resume")
        self._agent = HttpAgent(spec, spec.url, surroundings, self._send)
        self._process: ProcessGroup | None = None
        self.holds_conversations = self._agent.holds_conversations
        self.notes = surroundings.tap.notes
        self.name = f"service: {' '.join(spec.service)}"

    def start(self, words: Sequence[str] | None = None) -> ProcessGroup:
        """Return when it is ready; ``words`` replace its command. Raises ``SettingsError`` if it is late."""
        if is_open(self._spec.url):
            raise self._error(
                "url", f"another program listens there: stop it, {self._spec.url} belongs to the service"
            )
        process = self._process = self._started(words or self._words)
        end = self._clock() + self._spec.ready_within
        while not is_ready(self._spec.url, self._spec.ready):
            if process.exit_code is not None:
                process.close()
                raise self._error("service", f"it {self._last_lines(process)}")
            if self._clock() > end:
                bound = f"it was not ready within {self._spec.ready_within:g} s (ready_within)"
                last_lines = self._surroundings.redact(process.stderr.seen().last_lines())
                process.close()
                raise self._error("ready" if self._spec.ready else "url", f"{bound}: {last_lines}")
            self._sleep(_SERVICE_POLL_S)
        return process

    def _started(self, words: Sequence[str]) -> ProcessGroup:
        with ExitStack() as closing:
            forwards = [closing.enter_context(forward).fileno() for forward in self._forwards()]
            words = self._surroundings.tap.words(words, forwards)
            return ProcessGroup(words, self._surroundings.environ, self._folder, inherited=forwards)

    def _forwards(self) -> Iterator[socket.socket]:
        """Yield sockets bound to its addresses outside, if it listens in its own network."""
        addresses = {server_at(url): None for url in (self._spec.url, self._spec.ready) if url}
        for host, port in addresses if self._surroundings.tap.forwards_ports else ():
            forward = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            forward.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                forward.bind((host, port))
            except OSError as error:
                forward.close()
                raise self._error("url", f"{host}:{port}: {error.strerror}") from None
            yield forward

    def stop(self) -> None:
        """End it with all its descendants."""
        if self._process:
            self._process.close()
            self._process = None

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        try:
            process = self._process or self.start()
        except SettingsError as error:  # it started before, so this is its own failure
            self._process = None
            return crashed("NotReady", str(error))
        try:
            result = self._ask(process, prompt, context)
        finally:
            process = self._process or process  # another one after a kill
            files.keep("stdout.txt", process.stdout.take())
            files.keep("stderr.txt", process.stderr.take())
        if process.exit_code is not None or result.ended_by == "limit":
            self.stop()  # work on this prompt must not continue into the next attempt
        return result

    def _ask(self, process: ProcessGroup, prompt: str, context: AttemptContext) -> SubjectResult:
        if process.exit_code is not None:
            return self._ended(process, "before this attempt")
        result = self._agent(prompt, context)
        process = self._process or process
        if result.error_type == "NoReply" and process.wait(_EXIT_GRACE_S):
            return self._ended(process, "in this attempt")
        return result

    def _send(
        self, request: Callable[[float], AgentReply], seconds: float, context: AttemptContext
    ) -> AgentReply:
        """Send a turn's request; see ``SendTurn``."""
        if context.kills is None or self._process is None:
            return request(seconds)

        def running() -> ProcessGroup:
            assert self._process is not None
            return self._process

        resume = partial(self._resume_after, context)
        return _send_through_kills(request, seconds, context.kills, running, resume, self._clock)

    def _resume_after(self, context: AttemptContext, order: KillOrder) -> None:
        """Start the killed service again."""
        files, process = AttemptFiles(self._surroundings, context.identity), self._process
        if process is not None:
            files.keep(f"stdout-killed-{order.number}.txt", process.stdout.take())
            files.keep(f"stderr-killed-{order.number}.txt", process.stderr.take())
        self.stop()
        command = self._surroundings.redact(" ".join(self._spec.resume or self._spec.service))
        if context.kills is not None:
            context.kills.resumed(order, command)
        try:
            self.start(self._resume)
        except SettingsError as error:  # it started before, so this is its own failure
            raise AttemptOver(crashed("NotReady", str(error))) from None

    def _ended(self, process: ProcessGroup, when: str) -> SubjectResult:
        process.wait(_EXIT_GRACE_S)
        return crashed("ServiceEnded", f"{when} it {self._last_lines(process)}")

    def _last_lines(self, process: ProcessGroup) -> str:
        printed = process.stderr.seen() if process.stderr.seen().end else process.stdout.seen()
        return f"{exit_description(process.exit_code)}: {self._surroundings.redact(printed.last_lines())}"

    def _error(self, key: str, problem: str) -> SettingsError:
        return SettingsError(f"{self._surroundings.where}: subject.{key}: {problem}")


@contextmanager
def running_service(spec: ServiceSpec, surroundings: Surroundings) -> Iterator[ServiceSubject]:
    """Run the service within the block. Raises ``SettingsError`` if it does not become ready."""
    service = ServiceSubject(spec, surroundings)
    try:
        service.start()
        yield service
    finally:
        service.stop()
