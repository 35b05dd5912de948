"""Reads the messages of a WebSocket connection (RFC 6455) from its bytes. Pure.

The gateway removes the client's offer of extensions, so a message is never compressed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close, Frame, Opcode

from wirefault.faults.base import MessageKind, Side

MAX_MESSAGE = 16 << 20


@dataclass(frozen=True)
class Unit:
    """A whole message or a control frame, with the bytes that carried it."""

    raw: bytes
    kind: MessageKind | None
    """None for a ping or a pong, which have no part in the order of the messages."""
    data: bytes = b""


class MessageReader:
    """Reads the messages of one side, until an ``error``: then it must not be fed again."""

    def __init__(self, side: Side) -> None:
        self._masked = side == "client"
        self._buffer = bytearray()
        self._frame_raw = bytearray()
        self._parser = self._parse()
        self._raw: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._kind: MessageKind | None = None
        self.error = ""
        """Why the bytes from here on are unreadable."""

    def feed(self, data: bytes) -> list[Unit]:
        """Return what these bytes complete."""
        self._buffer += data
        units: list[Unit] = []
        while True:
            try:
                next(self._parser)
                return units
            except StopIteration as done:
                self._parser = self._parse()
                whole: Frame = done.value
            except (ProtocolError, PayloadTooBig) as error:
                self.error = str(error)
                return units
            try:
                unit = self._take(whole)
            except (ProtocolError, PayloadTooBig) as error:
                self.error = str(error)
                return units
            if unit is not None:
                units.append(unit)

    def take_rest(self) -> bytes:
        """Take out the bytes that are not a whole message."""
        rest = b"".join((*self._raw, self._frame_raw, self._buffer))
        self._raw, self._data, self._size = [], [], 0
        self._frame_raw.clear()
        self._buffer.clear()
        return rest

    def _parse(self) -> Generator[None, None, Frame]:
        return Frame.parse(self._read_exact, mask=self._masked, max_size=MAX_MESSAGE)

    def _read_exact(self, size: int) -> Generator[None, None, bytes]:
        while len(self._buffer) < size:
            yield
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._frame_raw += data
        return data

    def _take(self, frame: Frame) -> Unit | None:
        raw = bytes(self._frame_raw)
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._check(frame)
        self._frame_raw.clear()
        if frame.opcode is Opcode.CLOSE:
            return Unit(raw, "close", bytes(frame.data))
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return Unit(raw, None)
        if frame.opcode is not Opcode.CONT:
            self._kind = "text" if frame.opcode is Opcode.TEXT else "binary"
        self._size += len(frame.data)
        self._raw.append(raw)
        self._data.append(bytes(frame.data))
        if not frame.fin:
            return None
        unit = Unit(b"".join(self._raw), self._kind, b"".join(self._data))
        self._raw, self._data, self._size, self._kind = [], [], 0, None
        return unit

    def _check(self, frame: Frame) -> None:
        if (frame.opcode is Opcode.CONT) != (self._kind is not None):
            raise ProtocolError("a fragment out of order")
        if self._size + len(frame.data) > MAX_MESSAGE:
            raise PayloadTooBig(self._size + len(frame.data), MAX_MESSAGE)


def text_frame(text: bytes) -> bytes:
    """A whole text message of the server."""
    return Frame(Opcode.TEXT, text).serialize(mask=False)


def close_frame(code: int, reason: str) -> bytes:
    """The server's close frame."""
    return Frame(Opcode.CLOSE, Close(code, reason).serialize()).serialize(mask=False)


def close_code(data: bytes) -> int:
    """The code of a close frame; 1005, "no status", without one that can be read."""
    try:
        return int(Close.parse(data).code)
    except (ProtocolError, UnicodeDecodeError):
        return 1005
