"""``service:`` subjects: agents that are started here and asked over HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from wirefault.settings.settings import SettingsError
from wirefault.state.tables import KillOrder
from wirefault.subjects.agent_request import (
    AgentReply,
    is_open,
    is_ready,
    server_at,
)
from wirefault.subjects.http_agent import HttpAgent, send_through_kills
from wirefault.subjects.process import ProcessGroup, exit_description
from wirefault.subjects.results import AttemptOver
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, crashed
from wirefault.subjects.surroundings import AttemptFiles, Surroundings, existing_folder, resolved_words
from wirefault.wiring.subject_spec import (
    ServiceSpec,
)

_POLL_S = 0.02
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
            self._sleep(_POLL_S)
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
        return send_through_kills(request, seconds, context.kills, running, resume, self._clock)

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
