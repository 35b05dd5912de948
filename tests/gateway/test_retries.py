"""Unmarked retries of a failed request are tries of the same call."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3
from urllib3.util import Retry

from tests.faults.catalogue.clients.upstream import answering
from tests.gateway.lab import Lab, gateway
from tests.support import PATIENCE_S
from tests.upstream import Upstream, requests_of
from wirefault.dialects.http import json_reply
from wirefault.history.events import Exchange
from wirefault.wiring.links import Link, Links

ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "All good"}}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def messages(text: str = "Hello") -> list[Any]:
    return [{"role": "user", "content": text}]


@contextmanager
def lab_of(folder: Path, *faults: dict[str, Any]) -> Iterator[Lab]:
    with answering(json_reply(200, ANSWER)) as upstream:
        url = upstream.address.url
        links = Links([Link("shop", upstream=url), Link("model", upstream=url, dialect="openai_chat")])
        with gateway(folder, links=links) as lab:
            lab.begin(faults={"faults": list(faults)})
            yield lab


def statuses(lab: Lab, count: int) -> list[int | None]:
    return [each.status for each in lab.exchanges(count) if isinstance(each, Exchange)]


def test_quota_is_not_bypassed_by_retries_of_openai(tmp_path: Path) -> None:
    import openai  # takes a second, which each worker would pay when it collects tests

    with lab_of(tmp_path, {"fault": "quota", "links": "model", "when": {"nth": 2}}) as lab:
        client = openai.OpenAI(base_url=lab.url("model", "/v1"), api_key="k", max_retries=2)
        client.chat.completions.create(model="m", messages=messages("one"))
        with pytest.raises(openai.RateLimitError, match="exceeded your current quota"):
            client.chat.completions.create(model="m", messages=messages("two"))
        client.chat.completions.create(model="m", messages=messages("three"))
        assert statuses(lab, 5) == [200, 429, 429, 429, 200]


@pytest.mark.parametrize("link", ["shop", "model"])
def test_nth_is_not_bypassed_by_retries_of_urllib3(tmp_path: Path, link: str) -> None:
    faults = {"fault": "status", "with": {"status": 503}, "links": link, "when": {"nth": 2}}
    with lab_of(tmp_path, faults) as lab, urllib3.PoolManager() as pool:
        policy = Retry(2, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
        got = [
            pool.request("POST", lab.url(link, "/v1/x"), body=body, retries=policy, timeout=PATIENCE_S).status
            for body in ("one", "two", "three")
        ]
        assert (got, statuses(lab, 5)) == ([200, 503, 200], [200, 503, 503, 503, 200])


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", "reset"])
def test_nth_is_not_bypassed_by_retries_after_lost_replies(tmp_path: Path, fault: str) -> None:
    with lab_of(tmp_path, {"fault": fault, "links": "shop", "when": {"nth": 1}}) as lab:
        with urllib3.PoolManager() as pool, pytest.raises(urllib3.exceptions.MaxRetryError):
            policy = Retry(2, allowed_methods=None)
            pool.request("POST", lab.url("shop"), body="one", retries=policy, timeout=PATIENCE_S)
        assert [bool(each.faults) for each in lab.exchanges(3)] == [True] * 3


def test_retry_after_client_timeout_is_same_call(tmp_path: Path) -> None:
    with lab_of(tmp_path, {"fault": "hang", "links": "shop", "when": {"nth": 1}}) as lab:
        with httpx.Client() as client:
            for _ in range(2):
                with pytest.raises(httpx.ReadTimeout):
                    client.post(lab.url("shop"), json={"n": 1}, timeout=0.2)
            assert client.post(lab.url("shop"), json={"n": 2}, timeout=PATIENCE_S).status_code == 200
        assert sorted(bool(each.faults) for each in lab.exchanges(3)) == [False, True, True]


def test_call_repeated_by_model_is_new_call(tmp_path: Path) -> None:
    faults = {"fault": "server_error", "links": "shop", "when": {"nth": 1}}
    with lab_of(tmp_path, faults) as lab, httpx.Client(timeout=PATIENCE_S) as client:
        first = client.post(lab.url("shop"), json={}).status_code
        client.post(lab.url("model", "/v1/chat/completions"), json={"model": "m", "messages": messages()})
        assert [first, client.post(lab.url("shop"), json={}).status_code] == [500, 200]


TOOL_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {}}}
MCP_ANSWER = b'data: {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}\n\n'
MODEL_ANSWER = (
    b'data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices":'
    b' [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.mark.parametrize(
    ("dialect", "answer", "path", "request_body"),
    [
        ("mcp", MCP_ANSWER, "/mcp", TOOL_CALL),
        ("openai_chat", MODEL_ANSWER, "/v1/chat/completions", {"model": "m", "messages": [], "stream": True}),
    ],
    ids=["mcp", "openai_chat"],
)
@pytest.mark.parametrize("sent_whole", [True, False])
def test_client_leaving_after_answer_has_not_failed(
    tmp_path: Path, dialect: Any, answer: bytes, path: str, request_body: Any, sent_whole: bool
) -> None:
    """A client needs no more of a stream than its answer: the same request later is a new call."""

    both_sent = threading.Event()

    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            part = answer if sent_whole else answer[: len(answer) // 2]
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + part)
            both_sent.wait(PATIENCE_S)  # the server ignores the client's exit

    faults = {"faults": [{"fault": "server_error", "links": "shop", "when": {"nth": 2, "of": "call"}}]}
    with Upstream(serve) as upstream:
        links = Links([Link("shop", upstream=upstream.address.url, dialect=dialect)])
        with gateway(tmp_path, links=links) as lab:
            lab.begin(faults=faults)
            for _ in range(2):
                with httpx.stream(
                    "POST", lab.url("shop", path), json=request_body, timeout=PATIENCE_S
                ) as reply:
                    next(reply.iter_raw())
            both_sent.set()
            assert (500 in statuses(lab, 2)) is sent_whole


def test_server_close_after_client_close_is_not_failure(tmp_path: Path) -> None:
    """The server ends the stream since the client left: that is the reason why the fault did not act."""

    def serve(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
            connection.sendall(head + b"%x\r\n%b\r\n" % (len(MCP_ANSWER), MCP_ANSWER))
            connection.recv(1)

    faults = {"faults": [{"fault": "lost_interim_result", "links": "shop"}]}
    with Upstream(serve) as upstream:
        links = Links([Link("shop", upstream=upstream.address.url, dialect="mcp")])
        with gateway(tmp_path, links=links) as lab:
            lab.begin(faults=faults)
            with httpx.stream("POST", lab.url("shop", "/mcp"), json=TOOL_CALL, timeout=PATIENCE_S) as reply:
                next(reply.iter_raw())
            [fault] = lab.exchange().faults
            assert (fault.injected, fault.why_not, lab.exchange().unavailable) == (False, "cut_short", False)


@pytest.mark.parametrize(("counts", "expected"), [({"of": "call"}, [503] * 3), ({"of": "try"}, [503, 200])])
def test_triggers_can_count_tries_instead(tmp_path: Path, counts: Any, expected: list[int]) -> None:
    faults = {"fault": "unavailable", "links": "shop", "when": {"first": 1, **counts}}
    with lab_of(tmp_path, faults) as lab, urllib3.PoolManager() as pool:
        policy = Retry(2, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
        pool.request("POST", lab.url("shop"), body=json.dumps({}), retries=policy, timeout=PATIENCE_S)
        assert statuses(lab, len(expected)) == expected
