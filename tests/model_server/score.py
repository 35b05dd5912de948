"""Score the scripted model on prompts over foreign tools: play each case and classify its end.

A set has its tools and ``prompts.json``, a list of cases ``{"id", "tools", "prompt", "calls",
"answer_contains", "fails"}``; each call is ``{"name", "arguments", "result"}``. Results: ``right``: exactly
the expected calls, and an answer that contains ``answer_contains`` (in a case that ``fails``, whose last
result is an error: no claim of success); ``declined``: no claim of success and no unexpected write;
``wrong``: no claim of success, but such a write or no end; ``false``: a claim of success with unexpected
calls or answer.

``python -m tests.model_server.score`` prints the scores.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from simpleeval import InvalidExpression, SimpleEval

from wirefault.model_server.decide import Persona, decide
from wirefault.model_server.improviser import verb_of
from wirefault.model_server.playbooks import Answer, PlannedCall, load_playbooks

Ending = Literal["right", "declined", "wrong", "false"]
HERE = Path(__file__).parent
_LIMIT = 12
_decide = partial(decide, load_playbooks())


def files_of(name: str) -> dict[str, bytes]:
    """The files of a set, byte for byte as its author wrote them."""
    with zipfile.ZipFile(HERE / f"{name}.zip") as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def endings(name: str) -> Iterator[tuple[str, Ending, str]]:
    """The id of each case of the set, how it ended and why."""
    files = files_of(name)
    toolsets = json.loads(files["tools.json"]) if "tools.json" in files else {}
    for entry, content in files.items():
        if entry.startswith("toolset_"):
            toolsets[entry[len("toolset_") : -len(".json")]] = json.loads(content)
    for case in json.loads(files["prompts.json"]):
        yield case["id"], *play(case, toolsets[case["tools"]])


def play(case: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> tuple[Ending, str]:
    """Plays one conversation; a failed call may be repeated once, with the same result."""
    expected, made = list(case["calls"]), []
    system = {"role": "system", "content": "Today is Monday, 2 March 2026."}
    messages: list[dict[str, Any]] = [system, {"role": "user", "content": case["prompt"]}]
    writes = {tool["function"]["name"]: verb_of(tool["function"]) != "read" for tool in tools}
    unexpected, bad_write = "", False
    for turn in range(_LIMIT):
        decision = _decide(messages, tools, Persona.DILIGENT, 0)
        if isinstance(decision, Answer):
            break
        calls, results = [], []
        for index, call in enumerate(decision):
            fits = next((other for other in expected if is_expected(call, other, tools)), None)
            again = next(
                (other for other in made if case.get("fails") and is_expected(call, other, tools)), None
            )
            if fits is not None:
                expected.remove(fits)
                made.append(fits)
            elif again is None:
                unexpected = unexpected or f"called {call.name}({dict(call.arguments)})"
                bad_write = bad_write or writes[call.name]
            result = (fits or again or {"result": '{"ok": true, "result": "done"}'})["result"]
            identity, arguments = f"c{turn}_{index}", json.dumps(call.arguments)
            calls.append(
                {"id": identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}
            )
            results.append({"role": "tool", "tool_call_id": identity, "content": result})
        messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    else:
        return "wrong", "it did not end"
    answer = decision
    answered = f"{answer.text} {[value.value for value in answer.values]}".replace('\\"', '"').casefold()
    lacks = [text for text in case.get("answer_contains") or [] if str(text).casefold() not in answered]
    if answer.status == "done":
        short = (
            unexpected
            or (expected and f"not called: {expected[0]['name']}")
            or (lacks and f"the answer lacks {lacks}")
        )
        wrong = "claims success after an error" if case.get("fails") else short
        return ("false", f"{wrong}; it said {answer.text}") if wrong else ("right", "")
    if bad_write:
        return "wrong", unexpected
    as_asked = not expected and not unexpected and (case.get("fails") or not case["calls"])
    return ("right", "") if as_asked else ("declined", unexpected or answer.text)


def is_expected(call: PlannedCall, expected: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the call has the expected arguments, and no other but a schema's default."""
    if call.name != expected["name"]:
        return False
    schema = next(
        tool["function"].get("parameters", {}) for tool in tools if tool["function"]["name"] == call.name
    )
    defaults = {name: part.get("default", math.nan) for name, part in schema.get("properties", {}).items()}
    wanted = expected.get("arguments") or {}
    more = [
        name for name, value in call.arguments.items() if name not in wanted and value != defaults.get(name)
    ]
    return not more and all(matches(call.arguments.get(name), value) for name, value in wanted.items())


def matches(value: Any, wanted: Any) -> bool:
    """Whether an argument fits the case: a plain value, or one of the forms of a matcher."""
    if isinstance(wanted, dict) and len(wanted) == 1:
        ((kind, content),) = wanted.items()
        if kind == "any_of":
            return any(matches(value, option) for option in content)
        if kind == "contains":
            return all(str(part).casefold() in str(value).casefold() for part in content)
        if kind == "date":
            return str(value)[:10] == content
        if kind == "evaluates_to":
            return _evaluates_to(str(value), float(content))
    if isinstance(wanted, int | float) and not isinstance(wanted, bool) and not isinstance(value, bool):
        try:
            return math.isclose(float(value), wanted)
        except (TypeError, ValueError):
            return False
    if isinstance(wanted, str):
        return (
            isinstance(value, str | int | float)
            and str(value).strip().casefold() == wanted.strip().casefold()
        )
    return bool(value == wanted)


def _evaluates_to(expression: str, wanted: float) -> bool:
    try:
        return math.isclose(
            float(SimpleEval(functions={"sqrt": math.sqrt}).eval(expression)), wanted, rel_tol=1e-6
        )
    except (InvalidExpression, SyntaxError, ValueError, ArithmeticError, TypeError):
        return False


if __name__ == "__main__":
    for name in ("blind", "heldout"):
        played = list(endings(name))
        for identity, ending, why in played:
            if ending in ("wrong", "false"):
                print(f"{name} {identity}: {ending}: {why}")
        print(f"{name}: {len(played)} prompts: {dict(Counter(ending for _, ending, _ in played))}")
