"""Faults' view of an exchange on an MCP link, and how their changes are written back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.faults.tries import a_try, changed
from wirefault.dialects.http import Reply, Request, json_reply, split_events, value_of, write_event
from wirefault.faults.base import Act, Changed, Fault, Miss, Try
from wirefault.faults.plan import act_of
from wirefault.faults.registry import REGISTRY

WEATHER = {"city": "Zürich", "celsius": 21.5}
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}


def tool_request(method: str = "tools/call", **params: Any) -> Request:
    server_result = params or {"name": "weather", "arguments": {"city": "Zürich"}}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": server_result}
    return Request((("Content-Type", "application/json"),), json.dumps(body).encode(), "POST", "/mcp")


def result(*texts: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"jsonrpc": "2.0", "id": 7, "result": {"content": content, **fields}}


def mcp_try(request: Request | None = None, **fields: Any) -> Try:
    return a_try(dialect="mcp", request=request or tool_request(), **fields)


def act(name: str, tried: Try | None = None, **parameters: Any) -> Act:
    made = act_of(REGISTRY[name](**parameters), tried or mcp_try())
    assert isinstance(made, Act)
    return made


def after(name: str, response: Any, tried: Try | None = None, **parameters: Any) -> Any:
    """The result that the client gets of that response."""
    done = act(name, tried, **parameters)
    assert done.reply is not None
    made = done.reply(json_reply(200, response))
    assert isinstance(made, Changed) and isinstance(made.reply, Reply), made
    return made.reply.json()["result"]


def stream(*messages: Any) -> Reply:
    return Reply((("Content-Type", "text/event-stream"),), b"".join(map(write_event, messages)))


def test_structured_content_and_text_change_alike():
    server_result = result(json.dumps(WEATHER), structuredContent=WEATHER)
    got = after("wrong_value", server_result, field="celsius")
    assert got["structuredContent"]["celsius"] != 21.5
    assert json.loads(got["content"][0]["text"]) == got["structuredContent"]


def test_prose_and_structured_content_agree():
    server_result = result("It is 21.5 °C in Zürich.", structuredContent=WEATHER)
    got = after("wrong_value", server_result, field="celsius")
    assert got["content"][0]["text"] == f"It is {got['structuredContent']['celsius']} °C in Zürich."


def test_list_has_one_text_per_item():
    server_result = result("[1]", "[2]", "[3]", structuredContent={"result": [[1], [2], [3]]})
    got = after("partial_truth", server_result, severity=0)
    assert got["structuredContent"] == {"result": [[2], [3]]}
    assert [block["text"] for block in got["content"]] == ["[2]", "[3]"]


def test_text_alone_is_changed_as_text():
    got = after("contradiction", result("The shop is open until nine."), severity=1)
    assert got["content"][0]["text"].startswith("The shop is open until nine. (not ")


def test_json_of_text_is_changed_as_json():
    got = after("schema_drift", result(json.dumps(WEATHER)), field="celsius", to="temperature")
    assert json.loads(got["content"][0]["text"]) == {"city": "Zürich", "temperature": 21.5}


def test_non_text_is_unchanged():
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    server_result = result("Sunny, and warm enough for a walk.")
    server_result["result"]["content"].insert(0, image)
    got = after("contradiction", server_result)
    assert image in got["content"] and len(got["content"]) == 2


def test_tool_arguments_are_question():
    server_result = result(json.dumps({"asked": "Zürich", "found": "Bern"}))
    got = json.loads(after("contradiction", server_result)["content"][0]["text"])
    assert got["asked"] == "Zürich" and got["found"] != "Bern"


@pytest.mark.parametrize(
    "response",
    [
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "no"}},
        result("it failed", isError=True),
        result(),
        {"jsonrpc": "2.0", "id": 7, "result": {"tools": []}},
        {},
        [],
    ],
)
def test_only_successful_tool_result_is_changed(response):
    done = act("wrong_value")
    assert done.reply is not None
    assert done.reply(json_reply(200, response)) == Miss("no_tool_result_to_change")


def test_event_stream_is_changed_event_by_event():
    done = act("wrong_value", field="celsius")
    assert done.events is not None
    editor = done.events()
    assert editor.event(write_event(PROGRESS)) == (write_event(PROGRESS),)
    [event] = editor.event(b"event: message\nid: 3\n" + write_event(result(json.dumps(WEATHER))))
    assert isinstance(event, bytes) and event.startswith(b"event: message\nid: 3\ndata: ")
    assert json.loads(value_of(event)["result"]["content"][0]["text"])["celsius"] != 21.5
    assert editor.why_not is None and editor.evidence["original"] == 21.5


def test_buffered_event_stream_is_changed():
    done = act("malformed", kind="cut_json")
    assert done.reply is not None
    made = done.reply(stream(PROGRESS, result("fine")))
    assert isinstance(made, Changed) and isinstance(made.reply, Reply)
    events = list(split_events(made.reply.body))
    assert [value_of(event) is None for event in events] == [False, True]


def test_earlier_result_answers_this_request():
    earlier = stream(PROGRESS, {**result("Sunny."), "id": 3})
    got = act("stale", mcp_try(earlier=(earlier, json_reply(200, {}))))
    assert got.reply is not None
    made = got.reply(json_reply(200, result("Rain.")))
    assert isinstance(made, Changed) and isinstance(made.reply, Reply)
    assert made.reply.json() == result("Sunny.")


@pytest.mark.parametrize(("name", "status"), [("rate_limit", 429), ("server_error", 500), ("status", 500)])
def test_error_is_json_rpc_with_request_id(name, status):
    answer = act(name).answer
    assert isinstance(answer, Reply) and answer.status == status
    assert answer.json()["id"] == 7 and answer.json()["error"]["code"] == -32000
    done = act(name, executed=True)
    assert done.reply is not None
    made = done.reply(json_reply(200, result("fine")))
    assert isinstance(made, Changed) and isinstance(made.reply, Reply) and made.reply.json()["id"] == 7


def test_server_stream_is_not_changed():
    assert act_of(REGISTRY["truncate"](), mcp_try(Request())) == Miss("nothing_to_change")


def test_changed_request_updates_headers():
    class Renaming(Fault):
        name, family = "renaming", "mcp"

        def act(self, tried: Try) -> Act:
            body = tried.request.json_object()
            return Act(request=tried.request.with_json({**body, "params": {"name": "other"}}))

    headers = (("Mcp-Method", "tools/call"), ("Mcp-Name", "weather"))
    request = Request(headers, tool_request().body, "POST", "/mcp")
    made = act_of(Renaming(), mcp_try(request))
    assert isinstance(made, Act) and made.request is not None
    assert made.request.header("mcp-name") == "other"


def test_other_dialect_is_unchanged():
    made, _ = changed(REGISTRY["schema_drift"](field="celsius", to="t"), WEATHER)
    assert made.json() == {"city": "Zürich", "t": 21.5}
