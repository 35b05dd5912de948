"""Helpers: requests over the development tool sets, and canned conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.model_server.score_blind import REPORT, SYSTEM
from windtunnel.model_server.decide import Decision, decide
from windtunnel.model_server.personas import Persona

DEV = Path(__file__).parent / "dev"
LAB: list[dict[str, Any]] = [
    tool if "function" in tool else {"type": "function", "function": tool}
    for tool in json.loads((DEV / "toolset_a.json").read_text(encoding="utf-8"))
]
TIMEOUT_READ = {"error": {"code": "timeout", "message": "the tool timed out", "side_effect": "none"}}
TIMEOUT_WRITE = {"error": {"code": "timeout", "message": "the tool timed out", "side_effect": "unknown"}}
REFUSED = {"error": {"code": "refused", "message": "connection refused", "side_effect": "none"}}


def request_of(prompt: str, tools: Sequence[Mapping[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    return {"messages": messages, "tools": [*LAB, REPORT] if tools is None else list(tools), **more}


def converse(
    prompt: str, answers: Sequence[Any], persona: Persona = Persona.DILIGENT, seed: int = 1, **more: Any
) -> tuple[list[tuple[str, dict[str, Any]]], Decision]:
    """Plays the prompt, giving the answers in turn to the calls; returns the calls and the last decision."""
    request = request_of(prompt, **more)
    left = list(answers)
    made: list[tuple[str, dict[str, Any]]] = []
    while True:
        decision = decide(request, persona, seed)
        if not decision.tool_calls or decision.tool_calls[0].name == "Report" or not left:
            return made, decision
        calls, results = [], []
        for index, call in enumerate(decision.tool_calls):
            made.append((call.name, dict(call.arguments)))
            identity = f"c{len(made)}_{index}"
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            calls.append({"id": identity, "type": "function", "function": function})
            answer = left.pop(0)
            content = answer if isinstance(answer, str) else json.dumps(answer)
            results.append({"role": "tool", "tool_call_id": identity, "content": content})
        request["messages"] += [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def report_of(decision: Decision) -> dict[str, Any]:
    assert decision.tool_calls[0].name == "Report"
    return dict(decision.tool_calls[0].arguments)
