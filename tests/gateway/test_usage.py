"""Token usage of a model's reply and time to the first token, as recorded."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests

from tests.dialects.forms import CALL, FORMS, STREAMS, TEXT, USAGE, Form
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S, replace
from tests.upstream import Upstream, requests_of, whole
from wirefault.dialects.base import reply_body, with_reply_body
from wirefault.dialects.http import Reply, chunk, head_bytes, json_reply
from wirefault.history.events import Exchange

FORM = pytest.mark.parametrize("form", FORMS, ids=str)
STREAM = (("Content-Type", "text/event-stream"),)
FAULT = '{"faults": [{"fault": "%s", "with": {%s}}]}'


class Model:
    """Gives ``reply`` to each request, an event stream event by event.

    With ``acknowledged`` it sends the next event when the client has had the last one. ``asked_at`` and
    ``times`` (of the events) are on the clock of ``perf_counter``.
    """

    def __init__(self) -> None:
        self.reply = Reply()
        self.acknowledged: threading.Semaphore | None = None
        self.asked_at = 0.0
        self.times: list[float] = []

    def serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in requests_of(connection):
            self.asked_at, self.times = time.perf_counter(), []
            if self.reply.stream_form is None:
                connection.sendall(b"".join(whole(self.reply)))
                continue
            connection.sendall(head_bytes(self.reply, None))
            for event in self.reply.events():
                self.times.append(time.perf_counter())
                connection.sendall(chunk(event))
                if self.acknowledged:
                    self.acknowledged.acquire(timeout=PATIENCE_S)
            connection.sendall(chunk(b""))


@dataclass
class Gate:
    lab: Lab
    model: Model

    def exchange_of(self, form: Form, reply: Reply, **settings: Any) -> Exchange:
        """Return the record of a request in that form with that reply."""
        self.model.reply = reply
        self.model.acknowledged = None
        self.lab.begin(**settings)
        assert self.send(form).content is not None
        return self.lab.exchange()

    def send(self, form: Form, *, stream: bool = False) -> requests.Response:
        request = form.request()
        url = self.lab.url("model", request.target)
        headers = {**dict(request.headers), "Connection": "close"}
        return requests.post(url, data=request.body, headers=headers, stream=stream, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Iterator[Gate]:
    model = Model()
    upstream = Upstream(model.serve)
    with upstream, gateway(tmp_path_factory.mktemp("usage"), model=upstream.address) as lab:
        yield Gate(lab, model)


@FORM
def test_reply_tokens_equal_its_usage(gate, form):
    seen = gate.exchange_of(form, form.reply(CALL))
    assert (seen.model, seen.tokens_in, seen.tokens_out) == ("m", 9, 7)
    assert (seen.first_token_ms is not None) == form.stream


@FORM
@pytest.mark.parametrize("fault", ["refusing_progress", "tool_use_failed"])
def test_faulted_reply_keeps_upstream_tokens(gate, form, fault):
    seen = gate.exchange_of(form, form.reply(CALL), faults=FAULT % (fault, ""))
    assert seen.faults[0].injected and (seen.tokens_in, seen.tokens_out) == (9, 7)


def test_tokens_are_read_in_compressed_reply(gate):
    plain = FORMS[0].reply(TEXT)
    packed = replace(plain, body=gzip.compress(plain.body))
    packed = replace(packed, headers=(*plain.headers, ("Content-Encoding", "gzip")))
    assert gate.exchange_of(FORMS[0], packed).tokens_out == USAGE["completion_tokens"]


def test_compressed_stream_is_read_too(gate):
    plain = FORMS[1].reply(TEXT)
    packed = Reply((*plain.headers, ("Content-Encoding", "gzip")), gzip.compress(plain.body))
    seen = gate.exchange_of(FORMS[1], packed)
    assert seen.tokens_out == USAGE["completion_tokens"] and seen.first_token_ms is not None


@pytest.mark.parametrize(
    "reply",
    [
        json_reply(200, {"choices": []}),
        json_reply(500, {"usage": {"prompt_tokens": 3}}),
        json_reply(200, {"usage": {"prompt_tokens": -1, "completion_tokens": True}}),
        Reply((), b'{"usage": {', 200),
        Reply((), b"[" * 100_000 + b'"usage": {', 200),
        Reply((("Content-Encoding", "br"),), b'{"usage": {}}', 200),
        Reply((), b"", 204),
        Reply((*STREAM, ("Content-Encoding", "gzip")), gzip.compress(bytes(20 << 20))),
    ],
    ids=["none", "error", "nonsense", "cut", "deep", "unknown encoding", "empty", "too large"],
)
def test_reply_without_usage_leaves_tokens_unknown(gate, reply):
    seen = gate.exchange_of(FORMS[0], reply)
    assert (seen.tokens_in, seen.tokens_out, seen.first_token_ms) == (None, None, None)


@pytest.mark.parametrize("form", FORMS[:2], ids=str)
def test_model_is_named_without_usage(gate, form):
    reply = form.reply(TEXT)
    seen = gate.exchange_of(form, replace(reply, body=reply.body.replace(b'"usage"', b'"spent"')))
    assert (seen.model, seen.tokens_in) == ("m", None)


def test_cached_input_tokens_are_counted(gate):
    form = FORMS[2]
    body = reply_body(form.model_dialect, form.reply(TEXT))
    body["usage"] |= {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    seen = gate.exchange_of(form, with_reply_body(form.model_dialect, form.reply(TEXT), body))
    assert (seen.tokens_in, seen.tokens_out) == (129, 7)


@pytest.mark.parametrize("form", STREAMS, ids=str)
def test_first_token_is_first_event_with_text(gate, form):
    """Both ends' clocks bound the gateway's: the next event leaves only when the client has the last."""
    model = gate.model
    model.reply, model.acknowledged = form.reply(TEXT), threading.Semaphore(0)
    kinds = [form.model_dialect.kind_of(event) for event in model.reply.events()]
    text_at = kinds.index("text")
    gate.lab.begin()
    begun, got = time.perf_counter(), []
    with gate.send(form, stream=True) as answer:
        for _ in answer.iter_content(None):
            got.append(time.perf_counter())
            model.acknowledged.release()
    assert len(got) == len(kinds)
    seconds = gate.lab.exchange().first_token_ms / 1000
    assert model.times[text_at] - model.asked_at <= seconds <= got[text_at] - begun


def test_delayed_first_token_is_late(gate):
    form = FORMS[1]
    seen = gate.exchange_of(form, form.reply(TEXT), faults=FAULT % ("slow_first_token", '"ms": 50'))
    assert seen.first_token_ms is not None and seen.first_token_ms >= 50
