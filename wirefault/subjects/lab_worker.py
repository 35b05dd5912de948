"""``python -P program.py wirefault.subjects.lab_worker DESCRIPTOR``: the lab's agent in its own process.

The runner starts it when a fault may kill the agent or limit its memory. Over the socket at the descriptor
both sides send pickled messages, each after its size; the other end is the runner, never the agent's network.
"""

from __future__ import annotations

import pickle
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from wirefault.core.identity import Identity
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.subjects.loading import LAB_SUBJECT, lab_agent_function, load_subject
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult, crashed

_SIZE = struct.Struct("!I")
_MIB = 1 << 20
_STATM = Path("/proc/self/statm")

Variant = tuple[str, str, int]
"""An agent in conversation: its RECOVERY text, its model's name and its bound of tokens."""


@dataclass(frozen=True)
class Conversations:
    """Where conversations are stored, and the key that signs their run's requests."""

    file: Path
    key: bytes


@dataclass(frozen=True)
class Opening:
    """The agent to open; in conversation with ``conversations``."""

    configuration: Configuration
    conversations: Conversations | None = None


class Memories(Protocol):
    """The conversations' stored steps, such as ``agent.checkpoints.SessionCheckpoints``."""

    resumed: dict[str, int]


ConversationAgents = AbstractContextManager[tuple[Callable[[str, str, int], Subject], Memories]]


@dataclass(frozen=True)
class AttemptOrder:
    """One attempt to make: the parts of its ``AttemptContext`` that are data."""

    prompt: str
    identity: Identity
    settings: Settings
    turns: tuple[str, ...]
    has_make_turn: bool
    started: float
    gateway: Path
    memory_limit: int = 0
    variant: Variant = ("", "", 0)
    resumed: int = 0
    """The attempt in which a conversation's turn began that another server left unfinished; 0: none."""


@dataclass(frozen=True)
class Asked:
    """The agent calls a function of its context; it waits for the result unless it only records."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Answered:
    """The result of that call; ``lab_failed``: why the lab could not carry it out."""

    value: Any = None
    lab_failed: str = ""


@dataclass(frozen=True)
class Ended:
    """The attempt has ended; ``lab_failed``: by a failure of the lab, in words."""

    result: SubjectResult | None = None
    lab_failed: str = ""


@dataclass(frozen=True)
class Opened:
    """The agent is ready; ``problem``: why not."""

    name: str = ""
    problem: str = ""
    notes: tuple[Any, ...] = field(default_factory=tuple)


class Channel:
    """Sends and receives whole messages over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, message: object) -> None:
        """Raises ``OSError`` if the other side has ended."""
        data = pickle.dumps(message)
        self._connection.sendall(_SIZE.pack(len(data)) + data)

    def receive(self) -> Any:
        """Return the next message. Raises ``EOFError`` if the other side has ended."""
        [size] = _SIZE.unpack(self._read(_SIZE.size))
        return pickle.loads(self._read(size))  # noqa: S301 - from the process that started this one

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self._connection.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError
            data += part
        return data

    def close(self) -> None:
        self._connection.close()


def _ask(channel: Channel, name: str, *arguments: Any) -> Any:
    channel.send(Asked(name, arguments))
    answered: Answered = channel.receive()
    if answered.lab_failed:
        raise LabFailed(answered.lab_failed)
    return answered.value


def _attempt(channel: Channel, subject: Subject, order: AttemptOrder, configuration: Configuration) -> Ended:
    context = AttemptContext(
        identity=order.identity,
        settings=order.settings,
        topology=configuration.topology,
        record=lambda event: channel.send(Asked("record", (event,))),
        turns=order.turns,
        begin_turn=partial(_ask, channel, "begin_turn"),
        make_turn=partial(_ask, channel, "make_turn") if order.has_make_turn else None,
        budget_spent=partial(_ask, channel, "budget_spent"),
        started=order.started,
        gateway=order.gateway,
    )
    try:
        with memory_limited(order.memory_limit):
            result = subject(order.prompt, context)
        if order.memory_limit and result.error_type == "MemoryError":
            limit = f", which was limited to {order.memory_limit / _MIB:g} MiB more than it had before"
            result = replace(result, error=f"{result.error}{limit}")
        return Ended(result)
    except LabFailed as error:
        return Ended(lab_failed=str(error))
    except Exception as error:  # noqa: BLE001 - as in the runner: any other error is the agent's crash
        return Ended(crashed(type(error).__name__, str(error)))


@contextmanager
def memory_limited(limit: int) -> Iterator[None]:
    """Let this process take so many bytes of address space more within the block; 0: as many as it wants.

    Raises ``LabFailed`` where the system sets no such limit.
    """
    if not limit:
        yield
        return
    if not _STATM.exists():
        raise LabFailed("memory_exhaustion: only Linux limits a process's memory")
    size = int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def _opened(opening: Opening) -> Iterator[tuple[str, Callable[[AttemptOrder], Subject]]]:
    """Open the agent; yield its name and the subject for each order. Raises ``SettingsError``."""
    configuration, conversations = opening.configuration, opening.conversations
    if conversations is None:
        with load_subject(LAB_SUBJECT)(configuration) as subject:
            yield subject.name, lambda order: subject
        return
    open_conversations = lab_agent_function("open_conversations")
    agents = cast(
        ConversationAgents,
        open_conversations(configuration, conversations.file, lambda run: conversations.key),
    )
    with agents as (agent, memories):

        def subject_for(order: AttemptOrder) -> Subject:
            if order.resumed:
                memories.resumed[order.identity.episode] = order.resumed
            return agent(*order.variant)

        yield "", subject_for


def main(descriptor: int) -> None:
    """Open the agent and make the attempts that the runner orders, until it closes the socket."""
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        opening: Opening = channel.receive()
        try:
            with _opened(opening) as (name, subject_for):
                channel.send(Opened(name))
                while True:
                    order: AttemptOrder = channel.receive()
                    channel.send(_attempt(channel, subject_for(order), order, opening.configuration))
        except SettingsError as error:
            channel.send(Opened(problem=str(error)))
    except (EOFError, BrokenPipeError):
        return
    finally:
        channel.close()


if __name__ == "__main__":
    from wirefault.subjects import lab_worker  # messages name their classes by this module, not __main__

    lab_worker.main(int(sys.argv[1]))
