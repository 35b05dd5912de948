"""Every assertion is tested for held and deviated, and for unknown when its input is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.experiments.assertions.views import model_request, result, view
from tests.judging.oracle.histories import (
    armed,
    called,
    ended,
    exchange,
    fault_met,
    healed,
    latency,
    model_call,
    timeout,
    tried,
)
from tests.support import replace
from wirefault.experiments.assertions.registry import ASSERTIONS, AssertionEntry, parse_assertion
from wirefault.experiments.episode_view import EpisodeView
from wirefault.history.events import WentPastLab
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

ROME = view(ended(ended_by="text", response="It is Rome"))
REPORT = view(ended("done", answer="It is Rome"))
EMPTY = view(ended(ended_by="empty"))
NOT_ASKED = view(ended(ended_by="text", response=""))
NO_END = view(healed(invalid="disturbed"))
CRASH = view(replace(ended(ended_by="exception"), error_type="RateLimitError", error="too many requests"))
MUTE_CRASH = view(ended(ended_by="exception"))

PAST_LAB = WentPastLab(104.0, "001", 1, "10.0.0.1", 443, "tcp", "agent", 1)
LINKS = [
    Link("model", "scripted", "openai_chat"),
    Link("shop", "http://127.0.0.1:9000", "mcp"),
    Link("spare", "http://127.0.0.1:9001"),
]
WITHOUT_MODEL = LINKS[1:]


def opaque(*events: Any, links: list[Link] | None = None) -> EpisodeView:
    """An episode of a subject without a call record."""
    return view(*events, recorded=False, links=LINKS if links is None else links)


def reply(*calls: tuple[str, dict[str, Any]]) -> str:
    """A model's reply that asks for these tools."""
    tools = [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in calls
    ]
    message = {"role": "assistant", "content": None, "tool_calls": tools}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


def over_mcp(tool: str, arguments: dict[str, Any], at: float = 103.0, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = json.dumps({**message, "params": {"name": tool, "arguments": arguments}})
    fields = {"link": "shop", "dialect": "mcp", "tool": tool, "message": "tools/call", "start": at}
    return exchange(**{**fields, "request_body": body, "tool_answer": "result", **more})


def request(at: float, status: int = 200, **more: Any) -> Any:
    """A request on the spare link, answered at once."""
    return exchange(**{"link": "spare", "status": status, "ms": 0.0, "start": at, **more})


SEND = called(tool="send", arguments={"to": "bob", "text": "hi"}, fingerprint="f1")
FIND = replace(called(tool="find", arguments={"name": "bob"}, fingerprint="f2"), t=103.5)
RECORDED = view(FIND, SEND)
BY_MODEL = opaque(
    model_request(reply_body=reply(("find", {}))),
    model_request(105.0, reply_body=reply(("send", {"to": "bob"}))),
)
BY_MCP = opaque(over_mcp("find", {}), over_mcp("send", {"to": "bob"}, 105.0), links=WITHOUT_MODEL)
FUNCTIONS = [*WITHOUT_MODEL, Link("functions", "python")]


def of_function(name: str, arguments: dict[str, Any], at: float = 103.0, **more: Any) -> Any:
    """A call of a function of the subject's process."""
    fields = {"link": "functions", "dialect": "http", "method": "QUERY", "target": f"/{name}", "start": at}
    return exchange(**{**fields, "request_body": json.dumps(arguments), **more})


BY_FUNCTION = opaque(
    of_function("find", {}), of_function("send", {"to": "bob"}, 105.0, try_=1), links=FUNCTIONS
)
# the model's replies say more about functions that send requests, whose later calls are not seen
BY_BOTH = opaque(
    model_request(reply_body=reply(("send", {"to": "bob"}), ("send", {"to": "ann"}))),
    of_function("send", {"to": "bob"}, 104.0),
    links=[*LINKS, FUNCTIONS[-1]],
)
SENDS_REQUESTS = opaque(of_function("send", {}, 103.0, ms=50.0), request(103.01), links=FUNCTIONS)
OFFER = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "drop", "inputSchema": {}}]}})
OFFERED = opaque(
    request(103, link="shop", dialect="mcp", message="tools/list", reply_body=OFFER), links=WITHOUT_MODEL
)
NO_BODIES = opaque(model_request(identity="counted"))
CUT = opaque(over_mcp("send", {"to": "bob"}, request_cut=True), model_request(reply_body=reply()))

ONCE_MORE = opaque(request(103, 503), request(104, try_=2))
WAITED = opaque(request(103, 429, retry_after=2.0), request(105.5, try_=2))
HASTY = opaque(request(103, 429, retry_after=2.0), request(103.5, try_=2))
FAILED = opaque(request(103, 503), ended("failed"))
FINE = opaque(request(103), model_request())
LATE = opaque(armed(latency("spare")), request(103))
BLOCKED = opaque(armed(timeout("spare", "upstream")))
OTHER_WAY = opaque(request(103, 503), over_mcp("find", {}, 104.0))
TOKENS = opaque(model_request(), model_request(105.0, tokens_in=100, tokens_out=50))
UNTOLD = opaque(model_request(tokens_in=None, tokens_out=None))
NEVER_ANSWERED = opaque(model_request(tokens_in=None, tokens_out=None, status=None, complete=(True, False)))
REFUSED = opaque(model_request(tokens_in=None, tokens_out=None, status=500))
EMBEDDED = opaque(model_request(tokens_in=10, tokens_out=None))  # such a reply has no tokens out
REPLAYED = opaque(model_request(tokens_in=10, tokens_out=5, replay="hit"))
STRUCK = view(tried(error="server_error", status=503), exchange(status=503, fault=fault_met()))
TOXIC = opaque(armed(PlannedToxic("spare", "cut_after", "downstream", {})), request(103))

ROWS: list[tuple[AssertionEntry, EpisodeView, bool | None]] = [
    ("completes", ROME, True),
    ("completes", REPORT, True),
    ("completes", view(ended("done", answer="")), True),
    ("completes", EMPTY, False),
    ("completes", NOT_ASKED, None),
    ("completes", NO_END, None),
    ("seconds <= 5s", ROME, True),
    ("seconds <= 4999 ms", ROME, False),
    ("seconds <= 60", EMPTY, True),
    ("seconds <= 60", NO_END, None),
    ({"error_expected": "RateLimit|quota"}, CRASH, True),
    ({"error_expected": "quota"}, CRASH, False),
    ({"error_expected": "sorry"}, view(ended("failed", answer="sorry")), True),
    ({"error_expected": "."}, ROME, False),
    ({"error_expected": "."}, MUTE_CRASH, None),
    ({"answer_contains": "Rome"}, REPORT, True),
    ({"answer_contains": "rome"}, ROME, False),
    ({"answer_contains": {"text": "rome", "ignore_case": True}}, ROME, True),
    ({"answer_contains": "Rome"}, EMPTY, False),
    ({"answer_contains": "Rome"}, NOT_ASKED, None),
    ({"answer_matches": "R.me$"}, ROME, True),
    ({"answer_matches": "^R.me"}, ROME, False),
    ({"answer_matches": ".*"}, EMPTY, False),
    ({"answer_matches": ".*"}, NOT_ASKED, None),
    ({"answer_lacks": "Paris"}, ROME, True),
    ({"answer_lacks": "Rome"}, ROME, False),
    ({"answer_lacks": "Paris"}, EMPTY, None),
    ({"tool_called": "send"}, RECORDED, True),
    ({"tool_called": "send"}, BY_MODEL, True),
    ({"tool_called": "send"}, BY_MCP, True),
    ({"tool_called": {"tool": "send", "arguments": {"to": "bob"}, "times": 1}}, BY_FUNCTION, True),
    ({"tool_called": {"tool": "send", "times": 2}}, BY_FUNCTION, False),
    ({"tools_in_order": ["find", "send"]}, BY_FUNCTION, True),
    ({"tools_in_order": ["send", "find"]}, BY_FUNCTION, False),
    ({"tool_called": {"tool": "send", "times": 2}}, BY_BOTH, True),
    ({"tool_called": "send"}, SENDS_REQUESTS, True),
    ({"tool_called": {"tool": "send", "at_most": 1}}, SENDS_REQUESTS, None),
    ({"tool_called": "drop"}, RECORDED, False),
    ({"tool_called": {"tool": "send", "times": 2}}, BY_MODEL, False),
    ({"tool_called": {"tool": "send", "arguments": {"to": "bob"}}}, RECORDED, True),
    ({"tool_called": {"tool": "send", "arguments": {"to": "eve"}}}, BY_MCP, False),
    ({"tool_called": {"tool": "send", "arguments": {"to": "eve"}}}, CUT, None),
    ({"tool_called": {"tool": "send", "times": 0}}, BY_MODEL, False),
    ({"tool_called": {"tool": "send", "at_most": 3}}, NO_BODIES, None),
    ({"tool_called": "drop"}, BY_MCP, None),  # no model link in the wiring shows its other requests
    ({"tool_called": {"tool": "drop", "times": 0}}, OFFERED, True),
    ({"tools_in_order": ["find", "send"]}, RECORDED, True),
    ({"tools_in_order": ["find", "send"]}, BY_MODEL, True),
    ({"tools_in_order": ["send", "find"]}, RECORDED, False),
    ({"tools_in_order": ["find", "send"]}, NO_BODIES, None),
    ("model_calls <= 2", TOKENS, True),
    ("model_calls <= 1", TOKENS, False),
    ("model_calls <= 1", view(model_call(), model_call(2)), False),
    ("model_calls <= 2", opaque(links=WITHOUT_MODEL), None),
    ("model_calls <= 2", opaque(model_request(), PAST_LAB), None),
    ("model_calls >= 2", TOKENS, True),
    ("model_calls >= 3", TOKENS, False),
    ("model_calls >= 3", opaque(links=WITHOUT_MODEL), None),
    ("failed_calls <= 1", ONCE_MORE, True),
    ("failed_calls <= 0", ONCE_MORE, False),
    ({"statement": {"text": "failed_calls <= 0", "link": "model"}}, ONCE_MORE, True),
    ("failed_calls <= 0", opaque(over_mcp("find", {}, tool_answer="error")), False),
    ("failed_calls <= 0", LATE, None),
    ("failed_calls <= 0", BLOCKED, None),
    ("no_loop", view(*[replace(SEND, index=n) for n in range(3)]), True),
    ("no_loop", view(*[replace(SEND, index=n) for n in range(4)]), False),
    ({"no_loop": 1}, opaque(request(103), request(104)), False),
    ({"no_loop": 2}, opaque(request(103), request(104)), True),
    ({"no_loop": 1}, ONCE_MORE, None),
    ({"no_loop": 1}, opaque(request(103), request(104, 503)), None),
    ({"no_loop": 1}, opaque(*[model_request(103.0 + n, identity="counted") for n in range(2)]), None),
    ("tokens <= 165", TOKENS, True),
    ("tokens <= 164", TOKENS, False),
    ("tokens <= 10", EMBEDDED, True),
    ("tokens <= 0", REPLAYED, True),
    ("call_tokens <= 150", TOKENS, True),
    ("call_tokens <= 149", TOKENS, False),
    ("tokens <= 164", UNTOLD, None),
    ("tokens <= 164", NEVER_ANSWERED, None),
    ("tokens <= 0", REFUSED, True),
    ("tokens_in <= 110", TOKENS, True),
    ("tokens_in <= 109", TOKENS, False),
    ("tokens_in <= 109", UNTOLD, None),
    ("tokens_out <= 55", TOKENS, True),
    ("tokens_out <= 54", TOKENS, False),
    ("tokens_out <= 54", UNTOLD, None),
    ({"no_token_burst": {"count": 150, "within": "1s"}}, TOKENS, True),
    ({"no_token_burst": {"count": 150, "within": "2s"}}, TOKENS, False),
    ({"no_token_burst": {"count": 150, "within": "2s"}}, UNTOLD, None),
    ("recovered_after_failure", ONCE_MORE, True),
    ("recovered_after_failure", FAILED, False),
    ("recovered_after_failure", FINE, None),
    ("recovered_after_failure", LATE, None),
    ({"fallback_used": {"from": "spare", "to": "shop"}}, OTHER_WAY, True),
    ({"fallback_used": {"from": "spare", "to": "shop", "used": False}}, OTHER_WAY, False),
    ({"fallback_used": {"to": "shop"}}, FAILED, False),
    ({"fallback_used": True}, view(replace(SEND, fallback_used=True)), True),
    ({"fallback_used": False}, view(SEND), True),
    ({"fallback_used": False}, FAILED, None),
    ({"retry_spacing": "1s"}, ONCE_MORE, True),
    ({"retry_spacing": 1.1}, ONCE_MORE, False),
    ({"retry_spacing": {"at_most": "0.9s"}}, ONCE_MORE, False),
    (
        {"retry_spacing": {"growing": True}},
        opaque(request(103, 503), request(104, 503), request(106)),
        True,
    ),
    (
        {"retry_spacing": {"growing": True}},
        opaque(request(103, 503), request(104, 503), request(105)),
        False,
    ),
    ({"retry_spacing": "1s"}, FINE, None),
    (
        {"retry_spacing": "1s"},
        opaque(*[model_request(103.0 + n, identity="counted", status=503) for n in (0, 1)]),
        None,
    ),
    ("retry_after_respected", WAITED, True),
    ("retry_after_respected", HASTY, False),
    ("retry_after_respected", ONCE_MORE, None),
    ({"no_finding": "hasty_retry"}, WAITED, True),
    ({"no_finding": "hasty_retry"}, HASTY, False),
    ({"no_finding": "hasty_retry"}, opaque(request(103), PAST_LAB), None),
    (
        {"no_finding": "hasty_retry"},
        opaque(*[model_request(103.0 + n, identity="counted") for n in (0, 1)]),
        None,
    ),
    ("faults_delivered >= 1", STRUCK, True),
    ("faults_delivered >= 2", STRUCK, False),
    ("faults_delivered >= 1", TOXIC, None),
    ({"callable": "tests.experiments.assertions.own:speaks_of_rome"}, ROME, True),
    ({"callable": "tests.experiments.assertions.own:speaks_of_rome"}, CRASH, False),
    ({"callable": "tests.experiments.assertions.own:raises"}, ROME, None),
]


@pytest.mark.parametrize(
    ("entry", "of", "passed"), ROWS, ids=[f"{n}-{row[0]}"[:60] for n, row in enumerate(ROWS)]
)
def test_assertion_has_expected_result(entry: AssertionEntry, of: EpisodeView, passed: bool | None) -> None:
    checked = result(entry, of)
    assert checked.passed is passed, checked
    assert checked.name and checked.expected and (checked.measured or checked.message or passed is not None)
    assert passed is not None or checked.message


def test_each_assertion_has_all_three_results() -> None:
    answers = {kind.name: set[bool | None]() for kind in ASSERTIONS}
    for entry, _, passed in ROWS:
        answers[parse_assertion(entry).name].add(passed)
    assert answers == {kind.name: {True, False, None} for kind in ASSERTIONS}


@pytest.mark.parametrize("times", [0, 1])
def test_uncalled_tool_names_called_ones(times: int) -> None:
    """Even if the tool should not be called, since its name may be misspelt."""
    checked = result({"tool_called": {"tool": "sned", "times": times}}, RECORDED)
    assert checked.passed is (times == 0)
    assert checked.message.startswith("no call of sned was seen; called: ") and "send" in checked.message
