"""Runs that record a model's replies, and runs that replay them."""

from __future__ import annotations

import gzip
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.gateway.lab import Lab, dial
from tests.gateway.scripted import EVENTS, ScriptedUpstream, armed, sized, stream
from tests.support import until

pytestmark = pytest.mark.usefixtures("scripted_faults")
HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cassettes"


@pytest.fixture
def lab(lab_of_service: Lab) -> Lab:
    return lab_of_service


def record(lab: Lab, service: ScriptedUpstream, folder: Path, **more: Any) -> None:
    """Begin a run that records."""
    url = service.upstream.address.url + "/base"
    lab.begin(model="record", model_base_url=url, cassettes=str(folder), **more)


def replay(lab: Lab, folder: Path, **more: Any) -> None:
    lab.begin(model="replay", cassettes=str(folder), **more)


def ask(lab: Lab, body: object = HELLO, path: str = "/v1/chat/completions?key=s3cret") -> requests.Response:
    headers = {"Authorization": "Bearer s3cret", "Accept-Encoding": "gzip"}
    return requests.post(lab.url("model", path), json=body, headers=headers, timeout=30)


def stored(folder: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_replay_answers_without_server(lab: Lab, service: ScriptedUpstream, folder: Path) -> None:
    record(lab, service, folder)
    assert ask(lab).json() == {"n": 1}
    service.upstream.close()
    for _ in range(2):
        replay(lab, folder)
        reply = ask(lab)
        assert (reply.status_code, reply.json(), reply.headers["content-type"]) == (
            200,
            {"n": 1},
            "application/json",
        )
        exchange = lab.exchange()
        assert (exchange.forwarded, exchange.reply_complete, exchange.error) == (True, True, None)


def test_repeated_requests_have_separate_answers(lab: Lab, service: ScriptedUpstream, folder: Path) -> None:
    record(lab, service, folder)
    for number in (1, 2):
        service.reply = sized(b"%d" % number)
        ask(lab)
    replay(lab, folder)
    assert [ask(lab).text for _ in range(2)] == ["1", "2"]
    assert ask(lab).status_code == 404


def test_new_recording_replaces_old_one(lab: Lab, service: ScriptedUpstream, folder: Path) -> None:
    record(lab, service, folder)
    ask(lab), ask(lab), ask(lab, {"other": 1})
    record(lab, service, folder)
    service.reply = sized(b"new")
    ask(lab)
    bodies = [[reply["body"] for reply in cassette["replies"]] for cassette in stored(folder)]
    assert sorted(bodies) == [[["new"]], [['{"n": 1}']]]


def test_unrecorded_request_is_unavailable_without_fault(
    lab: Lab, service: ScriptedUpstream, folder: Path
) -> None:
    record(lab, service, folder)
    ask(lab)
    replay(lab, folder, faults=armed("upper", links="model"))
    reply = ask(lab, {"another": "question"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_unavailable")
    exchange = lab.exchange()
    assert (exchange.unavailable, exchange.forwarded, exchange.faults[0].why_not) == (
        True,
        False,
        "upstream_failed",
    )
    assert exchange.error == "the cassettes have no answer for this request: record it (MODEL=record)"
    assert ask(lab).text == '{"N": 1}'


def test_no_key_is_in_cassettes(lab: Lab, service: ScriptedUpstream, folder: Path) -> None:
    service.reply = sized(b"{}", b"Set-Cookie: s3cret")
    record(lab, service, folder)
    ask(lab)
    [path] = folder.iterdir()
    assert "s3cret" not in path.read_text()
    assert b"s3cret" in service.requests[0]


def test_event_stream_is_replayed_as_event_stream(lab: Lab, service: ScriptedUpstream, folder: Path) -> None:
    service.reply = stream(*EVENTS)
    record(lab, service, folder)
    assert ask(lab).content == b"".join(EVENTS)
    assert stored(folder)[0]["replies"][0]["body"] == [
        "data: 0\n",
        "\n",
        "data: 1\n",
        "\n",
        "data: 2\n",
        "\n",
    ]
    replay(lab, folder, faults=armed("events", links="model"))
    reply = ask(lab)
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.content == EVENTS[0] + EVENTS[1] * 2 + EVENTS[2]


@pytest.mark.parametrize("does", ["upper", "events cut", "twice", "lose reply"])
def test_same_faults_meet_same_replies(lab: Lab, service: ScriptedUpstream, folder: Path, does: str) -> None:
    service.reply = stream(*EVENTS)
    faults = armed(does, links="model")
    record(lab, service, folder, faults=faults)
    first = outcome(lab)
    copies = 2 if does == "twice" else 1
    until(lambda: stored(folder) and len(stored(folder)[0]["replies"]) == copies)
    assert set(map(len, (reply["body"] for reply in stored(folder)[0]["replies"]))) == {6}
    replay(lab, folder, faults=faults)
    assert outcome(lab) == first


def outcome(lab: Lab) -> bytes | str:
    try:
        return ask(lab).content
    except requests.RequestException as error:
        return type(error).__name__


@pytest.mark.parametrize("reset", [False, True])
def test_abandoned_reply_is_recorded(lab: Lab, service: ScriptedUpstream, folder: Path, reset: bool) -> None:
    whole = service.reply
    service.reply = whole[:-4]
    record(lab, service, folder)
    with dial(lab.address("model")) as client:
        client.sendall(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        assert client.recv(65536)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", reset, 0))
    if reset:
        assert lab.exchange().error == "the client left before its reply was complete"
    assert stored(folder) == []
    service.connections[0].sendall(whole[-4:])
    [cassette] = until(lambda: stored(folder))
    assert cassette["replies"][0]["body"] == ['{"n": 1}']
    assert lab.exchange().status == 200


@pytest.mark.parametrize(("status", "count"), [(204, 1), (400, 1), (422, 1), (401, 0), (429, 0), (500, 0)])
def test_only_model_errors_are_recorded(
    lab: Lab, service: ScriptedUpstream, folder: Path, status: int, count: int
) -> None:
    service.reply = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status
    record(lab, service, folder)
    assert ask(lab).status_code == status
    assert len(stored(folder)) == count
    service.reply = sized(b"{}")
    ask(lab)
    assert len(stored(folder)[0]["replies"]) == count + 1


@pytest.mark.parametrize("body", [b"\xff\x00", "\N{SNOWMAN}\r\n".encode(), b""])
def test_arbitrary_bytes_round_trip(lab: Lab, service: ScriptedUpstream, folder: Path, body: bytes) -> None:
    service.reply = sized(gzip.compress(body), b"Content-Encoding: gzip")
    record(lab, service, folder)
    ask(lab)
    assert b"Accept-Encoding: identity" in service.requests[0]
    replay(lab, folder)
    assert ask(lab).content == body


def test_manager_is_notified_of_unwritable_cassette(
    lab: Lab, service: ScriptedUpstream, folder: Path
) -> None:
    folder.write_text("no folder")
    record(lab, service, folder)
    assert ask(lab).status_code == 200
    answer = lab.control("POST", "/lanes/0/settle", {"episode": "e1", "attempt": 1, "bound_s": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "recording_failed")


def test_replay_without_cassettes_is_refused(lab: Lab, folder: Path) -> None:
    answer = lab.control("PUT", "/lanes/0", lab.new_run(model="replay", cassettes=str(folder)))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "bad_cassettes")
