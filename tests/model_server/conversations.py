"""Conversations with the scripted model: the lab's tools as the agent offers them, and canned results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from agent.tools import TOOLS
from wirefault.model_server.decide import Persona, decide
from wirefault.model_server.playbooks import Answer, load_playbooks

DECIDE = partial(decide, load_playbooks())
SYSTEM = "Today is Monday, 2 March 2026."
TIMEOUT_READ = {"error": {"code": "timeout", "message": "no answer in time", "side_effect": "none"}}
TIMEOUT_WRITE = {"error": {"code": "timeout", "message": "no answer in time", "side_effect": "unknown"}}
REFUSED = {"error": {"code": "not_reached", "message": "could not be reached", "side_effect": "none"}}


def tool(name: str, description: str = "", required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    """A tool in the form of chat completions; all its parameters are required, or those named."""
    schema = {"type": "object", "properties": properties, "required": list(required or properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


LAB = [
    {
        "type": "function",
        "function": {
            "name": each.name,
            "description": each.description,
            "parameters": each.arguments.model_json_schema(),
        },
    }
    for each in TOOLS
]


def converse(
    prompt: str,
    results: Sequence[Any],
    persona: Persona = Persona.DILIGENT,
    seed: int = 1,
    tools: Sequence[Any] = LAB,
    parallel: bool = True,
) -> tuple[list[tuple[str, dict[str, Any]]], Answer | None]:
    """Plays the prompt, giving the results in turn to the calls; returns the calls, and the answer if any."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": prompt},
    ]
    left, made = list(results), []
    while True:
        decision = DECIDE(messages, list(tools), persona, seed, parallel)
        if isinstance(decision, Answer) or len(left) < len(decision):
            return made, decision if isinstance(decision, Answer) else None
        calls, replies = [], []
        for call in decision:
            made.append((call.name, dict(call.arguments)))
            function = {"name": call.name, "arguments": json.dumps(call.arguments)}
            calls.append({"id": f"c{len(made)}", "type": "function", "function": function})
            content = left.pop(0)
            content = content if isinstance(content, str) else json.dumps(content)
            replies.append({"role": "tool", "tool_call_id": f"c{len(made)}", "content": content})
        messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *replies]


def answer_to(prompt: str, results: Sequence[Any], *arguments: Any, **more: Any) -> Answer:
    """The answer that a conversation ends with."""
    answer = converse(prompt, results, *arguments, **more)[1]
    assert answer is not None
    return answer
