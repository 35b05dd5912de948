"""``python -P program.py wirefault.subjects.lab_worker DESCRIPTOR``: the lab's agent in its own process.

The runner starts it when a fault may kill the agent. Over the socket at the descriptor both sides send
pickled messages, each after its size; the other end is the runner, never the agent's network.
"""

from __future__ import annotations

import pickle
import socket
import struct
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wirefault.core.identity import Identity
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.subjects.loading import LAB_SUBJECT, load_subject
from wirefault.subjects.subject import AttemptContext, LabFailed, Subject, SubjectResult, crashed

_SIZE = struct.Struct("!I")


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
        return Ended(subject(order.prompt, context))
    except LabFailed as error:
        return Ended(lab_failed=str(error))
    except Exception as error:  # noqa: BLE001 - as in the runner: any other error is the agent's crash
        return Ended(crashed(type(error).__name__, str(error)))


def main(descriptor: int) -> None:
    """Open the agent and make the attempts that the runner orders, until it closes the socket."""
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        configuration: Configuration = channel.receive()
        try:
            with load_subject(LAB_SUBJECT)(configuration) as subject:
                channel.send(Opened(subject.name))
                while True:
                    channel.send(_attempt(channel, subject, channel.receive(), configuration))
        except SettingsError as error:
            channel.send(Opened(problem=str(error)))
    except (EOFError, BrokenPipeError):
        return
    finally:
        channel.close()


if __name__ == "__main__":
    from wirefault.subjects import lab_worker  # messages name their classes by this module, not __main__

    lab_worker.main(int(sys.argv[1]))
