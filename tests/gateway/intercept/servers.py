"""One server for the tests of the ingress; it chooses the protocol by the first bytes of a connection."""

from __future__ import annotations

import hashlib
import socket

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.upstream import requests_of

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
    protocol = ServerProtocol()
    while data := connection.recv(65536):
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                protocol.send_response(protocol.accept(event))
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                protocol.send_text(bytes(event.data))
        connection.sendall(b"".join(protocol.data_to_send()))
