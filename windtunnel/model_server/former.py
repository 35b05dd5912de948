"""The former engine behind the new interface, until its rules are replaced."""

from __future__ import annotations

import json
from typing import Any

from windtunnel.model_server import decide as former
from windtunnel.model_server.answer import Answer, Decision, PlannedCall, Value
from windtunnel.model_server.personas import Persona

_TYPES: dict[str, Any] = {
    "status": {"type": "string", "enum": ["done", "failed", "unsure"]},
    "answer": {"type": "string"},
    "values": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"value": {"type": ["number", "string"]}, "unit": {"type": ["string", "null"]}},
        },
    },
}
_REPORT = {
    "type": "function",
    "function": {
        "name": "Report",
        "description": "Report to the user; ends the task.",
        "parameters": {"type": "object", "properties": _TYPES, "required": ["status", "answer"]},
    },
}


def decide_formerly(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]], persona: Persona, seed: int, parallel: bool
) -> Decision:
    """What the former engine decides, its report read as an answer."""
    body = {"messages": messages, "tools": [*tools, _REPORT], "parallel_tool_calls": parallel}
    calls = former.decide(body, persona, seed).tool_calls
    if calls and calls[0].name == "Report":
        report = json.loads(json.dumps(calls[0].arguments))
        values = tuple(Value(each["value"], each.get("unit")) for each in report.get("values", []))
        return Decision(answer=Answer(report["status"], report["answer"], values))
    return Decision(tuple(PlannedCall(call.name, call.arguments) for call in calls))
