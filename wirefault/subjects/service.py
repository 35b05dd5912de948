"""``service:``, a process that stays up for the run and is asked over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException

from wirefault.settings.settings import SettingsError
from wirefault.subjects.agent_request import TooSlowError, is_open, send, server_at
from wirefault.subjects.command import existing_folder, resolved_words
from wirefault.subjects.http_agent import HttpAgent
from wirefault.subjects.process_group import ProcessGroup, exit_words
from wirefault.subjects.subject import AttemptContext, SubjectResult, crashed
from wirefault.subjects.surroundings import AttemptFiles, Surroundings
from wirefault.wiring.subject_spec import ServiceSpec

_LOOK_INTERVAL_S = 0.02
_LOOK_BOUND_S = 1.0
# between the end of a connection and the end of the process that it led to
_DYING_S = 1.0


class ServiceSubject:
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
        self.tap = surroundings.tap
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
            self._sleep(_LOOK_INTERVAL_S)
        return process

    def _started(self) -> ProcessGroup:
        with ExitStack() as closing:
            doors = [closing.enter_context(door).fileno() for door in self._doors()]
            words = self.tap.words(self._words, doors)
            return ProcessGroup(words, self._surroundings.environ, self._folder, inherited=doors)

    def _doors(self) -> Iterator[socket.socket]:
        """Bound to where it is asked from here, if it listens in a network of its own."""
        addresses = {server_at(url): None for url in (self._spec.url, self._spec.ready) if url}
        for host, port in addresses if self.tap.has_doors else ():
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
            return 200 <= send("GET", self._spec.ready, {}, None, _LOOK_BOUND_S).status < 300
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
