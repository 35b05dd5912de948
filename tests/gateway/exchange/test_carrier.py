"""Timed reply steps while the client reads."""

from __future__ import annotations

import asyncio

from tests.gateway.exchange.sockets import eventually
from wirefault.dialects.http import Ending
from wirefault.gateway.exchange.carrier import ReplyWriter, SentReply
from wirefault.gateway.http1.heads import read_request

GET = read_request(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


class Client:
    """A writer whose client buffer may be full; waits can be shortened."""

    def __init__(self, *, hurried: bool = False) -> None:
        self.got, self.full, self.ended = b"", False, list[Ending]()
        self.sent = SentReply(GET)
        self.writer = ReplyWriter(
            self.sent, self.write, lambda: self.full, lambda: hurried, self.ended.append
        )

    def write(self, data: bytes) -> None:
        self.got += data


def test_steps_wait_for_their_time() -> None:
    async def drive() -> None:
        client = Client()
        client.writer.add([HEAD + b"o", 0.001, b"k"])
        client.writer.finish("keep")
        assert client.writer.waiting and client.got.endswith(b"o") and not client.ended
        await eventually(lambda: client.ended)
        assert client.got == HEAD + b"ok" and client.writer.waited >= 0.001
        assert client.sent.whole and client.sent.status == 200

    asyncio.run(drive())


def test_hurried_writer_does_not_wait() -> None:
    client = Client(hurried=True)
    client.writer.add([HEAD, 60.0, b"ok"])
    client.writer.finish("keep")
    assert client.got == HEAD + b"ok" and client.ended == ["keep"]


def test_no_write_while_client_buffer_is_full() -> None:
    client = Client()
    client.full = True
    client.writer.add([bytes(64 * 1024 + 1)])
    assert client.writer.behind and not client.got
    client.full = False
    client.writer.run()
    assert not client.writer.behind and len(client.got) == 64 * 1024 + 1


def test_broken_reply_is_recorded_as_lost() -> None:
    sent_reply = SentReply(GET)
    sent_reply.take(HEAD + b"o")
    sent_reply.end("reset", keep_alive=True)
    assert sent_reply.shows() == {"lost": True, "closed": True}
