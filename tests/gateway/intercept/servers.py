"""One server for the tests of the front: it answers each connection by what its first bytes ask for."""

from __future__ import annotations

import base64
import hashlib
import socket

from tests.upstream import read_head, requests_of

WEBSOCKET_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
EVENTS = [b"data: %d\n\n" % number for number in range(20)]


def serve_anything(connection: socket.socket) -> None:
    start = connection.recv(1, socket.MSG_PEEK)
    if not start:
        return
    if start == b"\x00":  # speaks no HTTP
        while data := connection.recv(65536):
            connection.sendall(data[::-1])
        return
    if connection.recv(16, socket.MSG_PEEK).startswith(b"GET /ws"):
        _echo_frames(connection)
        return
    for request in requests_of(connection):
        _reply(connection, request.target, request.raw, request.body)


def _reply(connection: socket.socket, target: str, raw: bytes, body: bytes) -> None:
    if target == "/events":
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in EVENTS:
            connection.sendall(event)
        connection.shutdown(socket.SHUT_WR)
        return
    answer = hashlib.sha256(body).hexdigest().encode() if target == "/digest" else raw
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)


def _echo_frames(connection: socket.socket) -> None:
    head, _ = read_head(connection)
    lines = (line.partition(b": ") for line in head.split(b"\r\n"))
    key = next(value for name, _, value in lines if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_KEY).digest())
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
    while frame := connection.recv(65536):
        connection.sendall(frame[::-1])
