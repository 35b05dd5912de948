"""Files of cassettes, and errors about broken or missing ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.core.hostile import TRAPS, victim_of
from wirefault.dialects.http import Reply, Request
from wirefault.gateway.cassettes import (
    CassettePlayer,
    CassetteRecorder,
    canonical_request,
    check_cassettes,
    request_key,
)
from wirefault.settings.settings import Settings, SettingsError

ASKED = Request((), b'{"a": 1}', "POST", "/chat")
REPLY = Reply((("Content-Type", "text/plain"),), b"hello")
STORED: dict[str, Any] = {"status": 200, "content_type": "text/plain", "body": ["hello"]}


def write(folder: Path, content: object) -> Path:
    path = folder / "one.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_replies_are_in_order_of_requests(tmp_path: Path) -> None:
    recorder = CassetteRecorder(tmp_path)
    keeps = [recorder.ask(ASKED) for _ in range(3)]
    keeps[2](REPLY.with_body(b"3"))
    keeps[0](REPLY.with_body(b"1"))
    player = CassettePlayer(tmp_path)
    replies = [player.next_reply(ASKED) for _ in range(3)]
    assert [reply and reply.body for reply in replies] == [b"1", b"3", None]
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_file_may_be_renamed_and_edited(tmp_path: Path) -> None:
    CassetteRecorder(tmp_path).ask(ASKED)(REPLY)
    [path] = tmp_path.iterdir()
    path.rename(tmp_path / "hello.json")
    (tmp_path / "hello.json").write_text((tmp_path / "hello.json").read_text().replace("hello", "bye"))
    reply = CassettePlayer(tmp_path).next_reply(ASKED)
    assert reply is not None and reply.body == b"bye"


def test_missing_cassettes_error_explains_recording(tmp_path: Path) -> None:
    settings = Settings(seed=1, model="replay", cassettes=str(tmp_path / "none"))
    with pytest.raises(SettingsError, match=r"none \(CASSETTES\) has no cassettes: .* MODEL=record"):
        check_cassettes(settings)
    check_cassettes(settings.model_copy(update={"model": "scripted"}))


def test_recording_needs_folder(tmp_path: Path) -> None:
    settings = Settings(seed=1, model="record", cassettes=str(tmp_path / "a" / "b"))
    check_cassettes(settings)
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"CASSETTES=.*file: cannot record into this folder: File exists"):
        check_cassettes(settings.model_copy(update={"cassettes": str(tmp_path / "file")}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"request": {},\n "replies": [}', "one.json:2: not JSON"),
        ('{"request": {}, "request": {}, "replies": []}', "duplicate key request"),
        ({"replies": []}, "'request' is missing"),
        ({"request": {}, "replies": [{}]}, "'body' is missing"),
        ({"request": {}, "replies": [STORED | {"status": 1000}]}, "1000 is not a valid HTTPStatus"),
        ({"request": {}, "replies": [STORED | {"body": [1]}]}, "not a cassette: sequence item 0"),
        ({"request": {}, "replies": 1}, "not a cassette"),
        ([], "not a cassette"),
        ("[" * 100_000, "not a cassette"),
        (
            f'{{"request": {{"a": {"[" * 900}{"]" * 900}}}, "replies": [{"[" * 900}{"]" * 900}]}}',
            "not a cassette",
        ),
    ],
)
def test_broken_file_is_named(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SettingsError) as caught:
        CassettePlayer(tmp_path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


def test_two_files_for_one_request_are_refused(tmp_path: Path) -> None:
    CassetteRecorder(tmp_path).ask(ASKED)(REPLY)
    [path] = tmp_path.iterdir()
    write(tmp_path, path.read_text())
    with pytest.raises(SettingsError, match=r"one.json: another file .* the same request"):
        CassettePlayer(tmp_path)


def key(body: Any, target: str = "/chat/completions", method: str = "POST") -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request_key(canonical_request(Request((("Authorization", "x"),), data, method, target)))


def chat(*ids: str, answered: str = "") -> dict[str, Any]:
    """A conversation in the OpenAI dialect with these tool calls, one of them answered."""
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in ids]
    answer = {"role": "tool", "tool_call_id": answered or ids[0], "content": "1"}
    return {"messages": [{"role": "assistant", "tool_calls": calls}, answer]}


def anthropic(id_: str, argument: str = "a") -> dict[str, Any]:
    use = {"type": "tool_use", "id": id_, "name": "f", "input": {"id": argument}}
    return {"messages": [{"content": [use]}, {"content": [{"type": "tool_result", "tool_use_id": id_}]}]}


def responses(id_: str, previous: str = "resp_1") -> dict[str, Any]:
    call = {"type": "function_call", "call_id": id_, "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": id_, "output": "1"}
    return {"previous_response_id": previous, "input": [call, output]}


def gemini(id_: str, argument: str = "a") -> dict[str, Any]:
    call = {"functionCall": {"id": id_, "name": "f", "args": {"id": argument}}}
    return {"contents": [{"parts": [call]}, {"parts": [{"functionResponse": {"id": id_, "name": "f"}}]}]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({"model": "m", "seed": 1}, {"model": "m", "seed": 2}),
        ({"model": "m", "seed": 1}, {"model": "m"}),
        (chat("call_x", "call_y"), chat("call_2", "call_1")),
        (anthropic("toolu_x"), anthropic("toolu_y")),
        (responses("call_x", "resp_x"), responses("call_y", "resp_y")),
        (gemini("x"), gemini("y")),
    ],
)
def test_ids_seed_and_key_order_are_ignored(first: Any, second: Any) -> None:
    assert key(first) == key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"model": "m"}, {"model": "n"}),
        ({"stream": True}, {"stream": False}),
        (chat("x", "y", answered="x"), chat("x", "y", answered="y")),
        (anthropic("x", "event 1"), anthropic("x", "event 2")),
        (gemini("x", "event 1"), gemini("x", "event 2")),
        (b"a", b"b"),
    ],
)
def test_different_requests_differ(first: Any, second: Any) -> None:
    assert key(first) != key(second)


def test_path_and_method_count_and_query_does_not() -> None:
    assert key({}, "/a?key=secret") == key({}, "/a")
    assert len({key({}, "/a"), key({}, "/b"), key({}, "/a", "PUT")}) == 3


def test_too_deep_request_is_compared_by_bytes() -> None:
    deep = [b"[" * depth + b"]" * depth for depth in (500, 501, 100_000)]
    assert len({key(body) for body in deep}) == 3


def test_canonical_request_survives_json() -> None:
    body = json.dumps({"a": 1.0, "b": "\ud800", "c": float("nan")}).encode()
    canonical = canonical_request(Request((), body, "POST", "/"))
    assert request_key(json.loads(json.dumps(canonical))) == request_key(canonical)


def test_recorded_null_fields_match_requests_without_them(tmp_path: Path) -> None:
    old = Request(
        (), b'{"messages": [{"content": null}], "stop": null, "service_tier": "on_demand"}', "POST", "/chat"
    )
    CassetteRecorder(tmp_path).ask(old)(REPLY)
    new = Request((), b'{"messages": [{}]}', "POST", "/chat")
    assert CassettePlayer(tmp_path).next_reply(new) is not None


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_cassette_must_be_regular_file(tmp_path: Path, trap: Callable[[Path, Path], None]) -> None:
    path = tmp_path / "cassettes" / "one.json"
    path.parent.mkdir()
    trap(path, victim_of(path))
    with pytest.raises(SettingsError, match=r"one\.json.*refusing to use it"):
        CassettePlayer(path.parent)
