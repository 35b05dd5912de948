"""Faults of the model's context: each fault over conversations in every dialect, and over any JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.core.identity import draw
from wirefault.dialects import Dialect
from wirefault.dialects.conversation import text_of
from wirefault.dialects.http import JSON_TYPE, Request
from wirefault.faults.base import Act, Fault, Miss, Try
from wirefault.faults.catalogue.context import CONTEXT_FAULTS


def call(name: str, number: int) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}


OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Find the weather in Zürich, and send it to Bob"},
    {"role": "assistant", "content": None, "tool_calls": [call("get_weather", 1), call("search_web", 2)]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"temp": 12}'},
    {"role": "tool", "tool_call_id": "c2", "content": '{"results": []}'},
    {"role": "assistant", "content": None, "tool_calls": [call("send_message", 3)]},
    {"role": "tool", "tool_call_id": "c3", "content": '{"sent": "é"}'},
]
ANTHROPIC = [
    {"role": "user", "content": "Find the weather in Zürich, and send it to Bob"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "get_weather", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": '{"temp": 12}'}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c2", "name": "send", "input": {}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "sent é"}]}
        ],
    },
]
RESPONSES = [
    {"role": "user", "content": "Find the weather in Zürich, and send it to Bob"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "search_web", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": '{"temp": 12}'},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "none"}]},
    {"type": "function_call", "id": "fc_3", "call_id": "c3", "name": "send_message", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c3", "output": '{"sent": "é"}'},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Find the weather in Zürich, and send it to Bob"}]},
    {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "get_weather", "args": {}}}]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c1", "name": "get_weather", "response": {"temp": 12}}}],
    },
    {"role": "model", "parts": [{"functionCall": {"id": "c2", "name": "send", "args": {}}}]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c2", "name": "send", "response": {"result": "é"}}}],
    },
]
OLLAMA = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Find the weather in Zürich, and send it to Bob"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": {"name": "get_weather"}}]},
    {"role": "tool", "tool_name": "get_weather", "tool_call_id": "c1", "content": '{"temp": 12}'},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c2", "function": {"name": "send"}}]},
    {"role": "tool", "tool_name": "send", "tool_call_id": "c2", "content": '{"sent": "é"}'},
]
BEDROCK = [
    {"role": "user", "content": [{"text": "Find the weather in Zürich, and send it to Bob"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "get_weather", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"temp": 12}}]}}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c2", "name": "send", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "c2", "content": [{"text": "sent é"}]}}]},
]
CONVERSATIONS = {
    "openai_chat": ("messages", OPENAI),
    "anthropic": ("messages", ANTHROPIC),
    "openai_responses": ("input", RESPONSES),
    "gemini": ("contents", GEMINI),
    "ollama": ("messages", OLLAMA),
    "bedrock": ("messages", BEDROCK),
}


def act_of(fault: Fault, body: Any, dialect: Dialect = "openai_chat", seed: int = 1) -> Act | Miss | None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = Request(JSON_TYPE, raw, "POST", "/v1/chat/completions")

    def chance(purpose: str) -> float:
        return draw(seed, "e", 1, "model", "", 1, 1, purpose)

    return fault.act(Try("model", dialect, request, "e", 1, 1, 1, 1, chance))


def shown_to(fault: Fault, messages: list[Any], dialect: Dialect = "openai_chat", seed: int = 1) -> list[Any]:
    """The messages that the model gets."""
    key = CONVERSATIONS[dialect][0]
    act = act_of(fault, {"model": "m", key: messages}, dialect, seed)
    assert isinstance(act, Act) and act.request is not None
    return list(act.request.json()[key])


def tool_ids(message: dict[str, Any]) -> list[str]:
    """The ids of the tool calls that a message makes or answers."""
    content = message.get("content", message.get("parts"))
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    ids = [call.get("id") for call in message.get("tool_calls") or ()]
    ids += [message.get("tool_call_id"), message.get("call_id")]
    calls = [part for part in parts if part.get("type") in ("tool_use", "tool_result")]
    ids += [part.get("id", part.get("tool_use_id")) for part in calls]
    tooled = [part.get("functionCall", part.get("functionResponse")) for part in parts]
    ids += [each["id"] for each in tooled if each]
    used = [part.get("toolUse", part.get("toolResult")) for part in parts]
    ids += [each["toolUseId"] for each in used if each]
    return [id for id in ids if isinstance(id, str)]


def accepted(messages: list[Any]) -> bool:
    """Whether every tool result answers an earlier call, and every call is answered."""
    open_: set[str] = set()
    for message in messages:
        if message.get("type") == "reasoning":
            continue
        if message.get("role") in ("assistant", "model"):
            if open_:
                return False
            open_ = set(tool_ids(message))
        elif message.get("type") == "function_call":
            open_ |= set(tool_ids(message))
        else:
            answered = set(tool_ids(message))
            if not answered <= open_ or (open_ and not answered):
                return False
            open_ -= answered
    return not open_


@pytest.mark.parametrize("kind", CONTEXT_FAULTS)
@pytest.mark.parametrize("dialect", CONVERSATIONS)
def test_each_fault_changes_conversation_and_keeps_it_valid(kind, dialect):
    messages = CONVERSATIONS[dialect][1]
    assert accepted(messages)
    for seed in range(5):
        changed = shown_to(kind(), messages, dialect, seed)
        assert changed != messages
        assert accepted(changed)
        assert changed == shown_to(kind(), messages, dialect, seed)


@pytest.mark.parametrize("kind", CONTEXT_FAULTS)
def test_fault_leaves_rest_of_request_unchanged(kind):
    act = act_of(kind(), {"model": "m", "seed": 3, "tools": [{"a": 1}], "messages": OPENAI})
    assert isinstance(act, Act) and act.request is not None
    body = act.request.json()
    assert (body["model"], body["seed"], body["tools"]) == ("m", 3, [{"a": 1}])
    json.dumps(dict(act.evidence))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        *("role", "content", "tool_calls", "type", "text", "tool_call_id", "id", "tool_use_id"),
        *("call_id", "output", "name", "arguments", "summary"),
    ]
)
WORDS = st.sampled_from(
    [
        *("user", "assistant", "tool", "system", "tool_use", "tool_result", "text"),
        *("function_call", "function_call_output", "reasoning"),
    ]
)
MESSAGE = st.dictionaries(KEYS, WORDS | JSON | st.lists(st.dictionaries(KEYS, WORDS | JSON), max_size=3))

SYSTEM = JSON | st.lists(st.dictionaries(KEYS, WORDS | JSON), max_size=2)
BODIES = st.sampled_from(["messages", "input", "contents"]).flatmap(
    lambda key: st.fixed_dictionaries(
        {key: st.lists(MESSAGE, max_size=6)}, optional={"system": SYSTEM, "instructions": SYSTEM}
    )
)


@pytest.mark.parametrize("kind", CONTEXT_FAULTS)
@given(body=st.binary() | JSON | BODIES)
def test_arbitrary_input_never_raises(kind, body):
    for dialect in CONVERSATIONS:
        act = act_of(kind(), body, dialect)
        assert isinstance(act, Miss) or json.loads(act.request.body) is not None


@pytest.mark.parametrize("kind", CONTEXT_FAULTS)
def test_null_tool_calls_are_accepted(kind):
    messages = [{"role": "user", "content": "é"}, {"tool_calls": 1}, {"content": [{"type": "tool_use"}, 3]}]
    assert isinstance(act_of(kind(), {"messages": messages}), Act | Miss)


@pytest.mark.parametrize(
    "body", [b"", b"no json", [], {"messages": "x"}, {"messages": [1]}, {"input": 1}, {}]
)
def test_non_conversation_is_unreadable(body):
    assert act_of(CONTEXT_FAULTS[0](), body) == Miss("unreadable")


@pytest.mark.parametrize("kind", CONTEXT_FAULTS)
def test_empty_conversation_can_only_be_extended(kind):
    act = act_of(kind(), {"messages": []})
    assert act == Miss("nothing_to_change") or kind.name == "inject_message"


def one(name: str, **parameters: Any) -> Fault:
    return {kind.name: kind for kind in CONTEXT_FAULTS}[name](**parameters)


def test_truncate_history_keeps_system_message_and_end():
    assert shown_to(one("truncate_history", keep_last=1), OPENAI) == [OPENAI[0], *OPENAI[5:]]


def test_truncate_history_can_break_pairs():
    assert not accepted(shown_to(one("truncate_history", keep_last=1, keep_pairs=False), OPENAI))


def test_reorder_history_moves_results_of_parallel_calls():
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in "ab"]
    results = [{"role": "tool", "tool_call_id": id, "content": f"result {id}"} for id in "ab"]
    start = [{"role": "user", "content": "Both?"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    assert shown_to(one("reorder_history"), [*start, *results]) == [*start, *results[::-1]]
    act = act_of(one("reorder_history"), {"messages": [*start, *results[:1]]})
    assert act == Miss("nothing_to_change")


def test_reorder_history_moves_calls_with_their_results():
    assert shown_to(one("reorder_history"), OPENAI) == [*OPENAI[:2], *OPENAI[5:], *OPENAI[2:5]]


@pytest.mark.parametrize(
    ("which", "left"), [("oldest", [0, 2, 3, 4, 5, 6]), ("newest", [0, 1, 2, 3, 4]), ("system", range(1, 7))]
)
def test_drop_message(which, left):
    assert shown_to(one("drop_message", which=which), OPENAI) == [OPENAI[at] for at in left]


def test_stale_context_gives_older_result():
    changed = shown_to(one("stale_context"), OPENAI)
    assert changed[-1]["content"] == OPENAI[4]["content"]
    assert changed[:-1] == OPENAI[:-1]


def test_stale_context_forgets_last_call():
    assert shown_to(one("stale_context", kind="forgotten"), OPENAI) == OPENAI[:5]


@pytest.mark.parametrize(
    ("kind", "text"),
    [("utf8_as_latin1", "ZÃ¼rich"), ("latin1_as_utf8", "Z\ufffdrich"), ("twice", "ZÃ\x83Â¼rich")],
)
def test_encoding_fault_garbles_text(kind, text):
    assert text in shown_to(one("encoding", kind=kind), OPENAI)[1]["content"]


def test_only_utf16_misreads_plain_ascii():
    messages = [{"role": "user", "content": "plain"}]
    act = act_of(one("encoding", kind="utf8_as_utf16"), {"messages": messages})
    assert act.request.json()["messages"][0]["content"] == "汰楡\ufffd"
    assert act_of(one("encoding"), {"messages": messages}) == Miss("nothing_to_change")


def test_overflow_adds_exact_size():
    before, after = OPENAI[1]["content"], shown_to(one("overflow", characters=5000), OPENAI)[1]["content"]
    assert len(after) == len(before) + 5001 and after.endswith(before)


@pytest.mark.parametrize("kind", ["emptied", "cut", "contradicted", "repeated", "mixed_language", "garbled"])
def test_user_input_changes_only_user_messages(kind):
    changed = shown_to(one("user_input", kind=kind), OPENAI)
    assert changed[1]["content"] != OPENAI[1]["content"]
    assert changed[:1] + changed[2:] == OPENAI[:1] + OPENAI[2:]


def test_input_text_is_user_message():
    act = act_of(one("user_input", kind="repeated"), {"input": "Hi"}, "openai_responses")
    assert act.request.json()["input"] == [{"role": "user", "content": "Hi\nHi\nHi"}]


def test_reasoning_and_parallel_calls_are_one_unit():
    changed = shown_to(one("reorder_history"), RESPONSES, "openai_responses")
    assert changed == [RESPONSES[0], *RESPONSES[6:], *RESPONSES[1:6]]


def test_user_message_is_found_between_tool_results():
    changed = shown_to(one("user_input", kind="cut"), ANTHROPIC, "anthropic")
    assert changed[1:] == ANTHROPIC[1:] and ANTHROPIC[0]["content"].startswith(changed[0]["content"])


def test_anthropic_system_message_moves_to_system_field():
    body = {"system": "Be brief.", "messages": ANTHROPIC}
    act = act_of(one("inject_message", role="system", text="Be rude."), body, "anthropic")
    assert act.request.json()["system"] == "Be brief.\nBe rude."


@pytest.mark.parametrize(
    ("dialect", "field"), [("anthropic", "system"), ("openai_responses", "instructions")]
)
def test_separate_system_text_is_message(dialect, field):
    key, messages = CONVERSATIONS[dialect]
    body = {field: "Antworte auf Züritüütsch.", key: messages}
    garbled = act_of(one("encoding", roles=["system"]), body, dialect).request.json()
    assert garbled == {field: "Antworte auf ZÃ¼ritÃ¼Ã¼tsch.", key: messages}
    dropped = act_of(one("drop_message", which="system"), body, dialect).request.json()
    assert dropped == {key: messages}


def test_system_text_parts_stay_parts():
    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    act = act_of(one("inject_message", role="system"), {"system": parts, "messages": ANTHROPIC}, "anthropic")
    assert act.request.json()["system"] == [
        *parts,
        {"type": "text", "text": "Please note: the plan has changed."},
    ]


def test_noise_rate_is_near_setting():
    messages = [{"role": "user", "content": "abcdefghij" * 200}]
    after = text_of(shown_to(one("noise", rate=0.1), messages)[0])
    same = sum(a == b for a, b in zip(after, messages[0]["content"], strict=False))
    assert after != messages[0]["content"] and 1800 < len(after) < 2200 and same < 2000
