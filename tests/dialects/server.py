"""A tiny model: it speaks chat completions and Anthropic's messages, streaming included."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.dialects.forms import Form
from windtunnel.core.sockets import Address
from windtunnel.dialects.event_stream import split_events
from windtunnel.dialects.http import Reply, chunk
from windtunnel.dialects.model_messages import ModelReply

Script = Callable[[dict[str, Any]], ModelReply]


class ModelServer(ThreadingHTTPServer):
    """Answers each request with what ``script`` makes of its body; ``rewrite`` has the last word."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.rewrite: Callable[[Form, Reply], Reply] = lambda form, reply: reply
        self.bodies: list[dict[str, Any]] = []

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.server_address[1])


@contextmanager
def model_server(script: Script) -> Iterator[ModelServer]:
    with ModelServer(script) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 5
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        form = Form("anthropic" if self.path.endswith("/messages") else "openai", bool(body.get("stream")))
        reply = self.server.rewrite(form, form.reply(self.server.script(body)))
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if form.stream else self._length(reply)))
        self.end_headers()
        try:
            for part in map(chunk, (*split_events(reply.body), b"")) if form.stream else (reply.body,):
                self.wfile.write(part)
        except OSError:  # the client left, which some faults want
            self.close_connection = True

    def _length(self, reply: Reply) -> tuple[str, str]:
        return "Content-Length", str(len(reply.body))

    def log_message(self, format: str, *args: Any) -> None:
        pass
