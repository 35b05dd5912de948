"""``http:``, an agent that runs already, here or elsewhere, and is asked over HTTP."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from string import Template
from typing import Any
from urllib.parse import quote, urlsplit

from wirefault.history.logs import strip_control
from wirefault.settings.settings import SettingsError
from wirefault.subjects.process import ProcessGroup, exit_words
from wirefault.subjects.results import AttemptOver, conversation_id, converse, value_at
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, crashed, limit_reached
from wirefault.subjects.surroundings import AttemptFiles, Surroundings, existing_folder, resolved_words
from wirefault.wiring.subject_spec import (
    CONVERSATION,
    PROMPT,
    HttpSpec,
    RequestSpec,
    ServiceSpec,
    holds_conversations,
)

_LARGEST_REPLY = 4 * 1024 * 1024
_SHOWN = 500
_LOOK_BOUND_S = 1.0
_TAG = re.compile(r"<[^<>]{0,200}>")  # the error pages of web servers are HTML


class TooSlowError(Exception):
    """The reply was not there in time."""


class NoAnswerError(Exception):
    """The reply has no answer in it; the message says why."""


@dataclass(frozen=True)
class AgentReply:
    """What the agent replied."""

    status: int
    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def server_at(url: str) -> tuple[str, int]:
    """Host and port of the URL."""
    parts = urlsplit(url)
    return str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)


def is_open(url: str) -> bool:
    """Whether a server listens there."""
    try:
        with socket.create_connection(server_at(url), timeout=_LOOK_BOUND_S):
            return True
    except OSError:
        return False


class AgentRequest:
    """The request of a wiring, to that URL. Raises ``SettingsError`` for a variable that is not set."""

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
                problem = "a $ begins the name of a variable; a real one is $$"
                raise SettingsError(f"{where}: subject.headers.{name}: {problem}") from None

    def send(self, prompt: str, conversation: str, identity: Mapping[str, str], seconds: float) -> AgentReply:
        """The agent's reply; ``identity`` are the headers that name the attempt.

        Raises ``TooSlowError``, or ``OSError`` and ``HTTPException`` where no whole reply comes.
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
        """A text or a JSON value. Raises ``NoAnswerError``."""
        if not 200 <= reply.status < 300:
            shown = " ".join(_TAG.sub(" ", strip_control(reply.text)).split())[:_SHOWN]
            raise NoAnswerError(f"it answered with status {reply.status}: {shown}")
        if not self._spec.answer and "json" not in reply.content_type:
            return reply.text
        try:
            return value_at(json.loads(reply.body), self._spec.answer)
        except (ValueError, RecursionError):
            raise NoAnswerError("its reply is not JSON") from None
        except LookupError as error:
            raise NoAnswerError(f"its reply has no {error.args[0]}") from None


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """The JSON value with the words in the place of their names."""
    if isinstance(value, str):
        return _filled_text(value, words)
    if isinstance(value, dict):
        return {key: _filled(part, words) for key, part in value.items()}
    return [_filled(part, words) for part in value] if isinstance(value, list) else value


def _filled_text(text: str, words: Mapping[str, str]) -> str:
    """At once: a prompt that has ``{conversation}`` in it stays as it is."""
    parts = text.split(PROMPT)
    return words[PROMPT].join(part.replace(CONVERSATION, words[CONVERSATION]) for part in parts)


def send(method: str, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float) -> AgentReply:
    """One request on a connection of its own, past any proxy. Redirects are not followed.

    Raises ``TooSlowError``, or ``OSError`` and ``HTTPException`` where no whole reply comes.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(str(parts.hostname), parts.port, timeout=seconds)
    expired = threading.Event()
    opened: list[socket.socket] = []  # the connection does not keep it until its reply is read

    def cut() -> None:
        expired.set()
        for sock in opened:
            with suppress(OSError):  # it is closed by now
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)  # a connection's own limit begins again with each byte
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Connection": "close", **headers})
        response = connection.getresponse()
        content = response.read(_LARGEST_REPLY + 1)
    except (OSError, HTTPException) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise TooSlowError from None
        raise
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():
        raise TooSlowError
    if len(content) > _LARGEST_REPLY:
        raise HTTPException(f"its reply is larger than {_LARGEST_REPLY} bytes")
    return AgentReply(response.status, response.headers.get("Content-Type", ""), content)


_LOOK_INTERVAL_S = 0.1


def running_agent(
    spec: HttpSpec,
    surroundings: Surroundings,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> HttpAgent:
    """The agent, which may still be starting. Raises ``SettingsError`` if it takes longer than it may."""
    end = clock() + spec.ready_within
    while spec.ready_within and not is_open(spec.http):
        if clock() > end:
            bound = f"nothing listens there within {spec.ready_within:g} s (ready_within)"
            raise SettingsError(f"{surroundings.where}: subject.http: {bound}")
        sleep(_LOOK_INTERVAL_S)
    return HttpAgent(spec, spec.http, surroundings)


class HttpAgent(Subject):
    """Sends each prompt by the request of its wiring. Raises ``SettingsError`` if that cannot be made."""

    kind = "http"

    def __init__(self, spec: RequestSpec, url: str, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._request = AgentRequest(spec, url, surroundings.environ, surroundings.where)
        self.holds_conversations = holds_conversations(spec)
        self.name = f"http: {url.partition('?')[0]}"

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        conversation, headers = conversation_id(context), context.identity.headers("")

        def turn(text: str, _number: int, seconds: float) -> object:
            try:
                reply = self._request.send(text, conversation, headers, seconds)
                return self._request.answer_in(reply)
            except TooSlowError:
                raise AttemptOver(limit_reached(context.settings.attempt_time)) from None
            except NoAnswerError as error:
                raise AttemptOver(crashed("NoAnswer", self._surroundings.redact(str(error)))) from None
            except (OSError, HTTPException) as error:
                failed = f"{type(error).__name__}: {error}"
                raise AttemptOver(crashed("NoReply", f"no reply came of it: {failed}")) from None

        return converse(prompt, context, turn)


_SERVICE_LOOK_INTERVAL_S = 0.02
_SERVICE_LOOK_BOUND_S = 1.0
# between the end of a connection and the end of the process that it led to
_DYING_S = 1.0


class ServiceSubject(Subject):
    """Keeps the process up, and starts it again for the attempt after one that it failed."""

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
        self._agent = HttpAgent(spec, spec.url, surroundings)
        self._process: ProcessGroup | None = None
        self.holds_conversations = self._agent.holds_conversations
        self.notes = surroundings.tap.notes
        self.name = f"service: {' '.join(spec.service)}"

    def start(self) -> ProcessGroup:
        """Returns when it is ready. Raises ``SettingsError`` if it does not become so in time."""
        if is_open(self._spec.url):
            raise self._error("url", f"something listens there already: end it, {self._spec.url} is its own")
        process = self._process = self._started()
        end = self._clock() + self._spec.ready_within
        while not self._is_ready():
            if process.exit_code is not None:
                process.close()
                raise self._error("service", f"it {self._last_words(process)}")
            if self._clock() > end:
                bound = f"it was not ready within {self._spec.ready_within:g} s (ready_within)"
                last_words = self._surroundings.redact(process.stderr.seen().last_words())
                process.close()
                raise self._error("ready" if self._spec.ready else "url", f"{bound}: {last_words}")
            self._sleep(_SERVICE_LOOK_INTERVAL_S)
        return process

    def _started(self) -> ProcessGroup:
        with ExitStack() as closing:
            doors = [closing.enter_context(door).fileno() for door in self._doors()]
            words = self._surroundings.tap.words(self._words, doors)
            return ProcessGroup(words, self._surroundings.environ, self._folder, inherited=doors)

    def _doors(self) -> Iterator[socket.socket]:
        """Bound to where it is asked from here, if it listens in a network of its own."""
        addresses = {server_at(url): None for url in (self._spec.url, self._spec.ready) if url}
        for host, port in addresses if self._surroundings.tap.has_doors else ():
            door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                door.bind((host, port))
            except OSError as error:
                door.close()
                raise self._error("url", f"{host}:{port}: {error.strerror}") from None
            yield door

    def stop(self) -> None:
        """Ends it, with all that it started."""
        if self._process:
            self._process.close()
            self._process = None

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        files = AttemptFiles(self._surroundings, context.identity)
        try:
            process = self._process or self.start()
        except SettingsError as error:  # it could be started once: that it cannot any more is its failure
            self._process = None
            return crashed("NotReady", str(error))
        try:
            result = self._ask(process, prompt, context)
        finally:
            files.keep("stdout.txt", process.stdout.take())
            files.keep("stderr.txt", process.stderr.take())
        if process.exit_code is not None or result.ended_by == "limit":
            self.stop()  # what still works on this prompt would do so in the next attempt
        return result

    def _ask(self, process: ProcessGroup, prompt: str, context: AttemptContext) -> SubjectResult:
        if process.exit_code is not None:
            return self._ended(process, "before this attempt")
        result = self._agent(prompt, context)
        if result.error_type == "NoReply" and process.wait(_DYING_S):
            return self._ended(process, "in this attempt")
        return result

    def _ended(self, process: ProcessGroup, when: str) -> SubjectResult:
        process.wait(_DYING_S)
        return crashed("ServiceEnded", f"{when} it {self._last_words(process)}")

    def _last_words(self, process: ProcessGroup) -> str:
        printed = process.stderr.seen() if process.stderr.seen().end else process.stdout.seen()
        return f"{exit_words(process.exit_code)}: {self._surroundings.redact(printed.last_words())}"

    def _is_ready(self) -> bool:
        if not self._spec.ready:
            return is_open(self._spec.url)
        try:
            return 200 <= send("GET", self._spec.ready, {}, None, _SERVICE_LOOK_BOUND_S).status < 300
        except (OSError, HTTPException, TooSlowError):
            return False

    def _error(self, key: str, problem: str) -> SettingsError:
        return SettingsError(f"{self._surroundings.where}: subject.{key}: {problem}")


@contextmanager
def running_service(spec: ServiceSpec, surroundings: Surroundings) -> Iterator[ServiceSubject]:
    """The service, up within the block. Raises ``SettingsError`` if it does not become ready."""
    service = ServiceSubject(spec, surroundings)
    try:
        service.start()
        yield service
    finally:
        service.stop()
