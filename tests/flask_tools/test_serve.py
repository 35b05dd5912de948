import json
import socket

import pytest

from flask_tools import app as serve
from tests.support import PATIENCE_S
from wirefault.core.sockets import Address


def exchange(url, raw):
    """The raw answer to raw bytes, until the server closes the connection."""
    address = Address.parse(url.removeprefix("http://"))
    with socket.create_connection((address.host, address.port), timeout=PATIENCE_S) as connection:
        connection.sendall(raw)
        chunks = []
        while chunk := connection.recv(65536):
            chunks.append(chunk)
    return b"".join(chunks)


def test_reply_leaves_in_one_write_without_nagle(lab, monkeypatch):
    writes = []
    send = serve._Channel.send

    def recording(channel, data, **options):
        delay = channel.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writes.append((bytes(data), bool(delay)))
        return send(channel, data, **options)

    monkeypatch.setattr(serve._Channel, "send", recording)
    answer = lab.ask("movie", "GET", "/movie?query=the&per_page=50")
    ((data, no_delay),) = writes
    assert data.startswith(b"HTTP/1.1 200 OK\r\n") and data.endswith(answer.content) and no_delay


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nWirefault-World: a\x00b\r\n\r\n", 400),
        (b"GET /weather?q=\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /calc HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nX: ".ljust(serve.MAX_HEADER_BYTES, b"a"), 431),
    ],
    ids=["no request line", "length", "NUL", "raw bytes", "huge body", "huge header"],
)
def test_server_refusals_are_json(lab, raw, status):
    head, _, body = exchange(lab.urls["weather"], raw).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.") and int(head.split()[1]) == status
    assert set(json.loads(body)["error"]) == {"code", "message"}


def test_connection_is_kept_alive(lab):
    two = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert exchange(lab.urls["weather"], two).count(b'{"status":"OK"}') == 2


def test_chunked_body_is_read_whole(lab):
    head = b"POST /calc HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
    body = b'14\r\n{"expression": "1+1"}\r\n0\r\n\r\n'.replace(b"14", b"15")
    answer = exchange(lab.urls["calculator"], head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert b'"result":2' in answer
