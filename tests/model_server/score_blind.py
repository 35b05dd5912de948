"""Scores the scripted model's rules: plays prompts over tool sets through ``decide``.

The folder holds ``toolset_a.json``, ``toolset_b.json``, ``toolset_c.json`` (lists of tools) and
``prompts.json``: a list of cases ``{"id", "tools", "prompt", "calls", "answer_contains"}``, each of the calls
``{"name", "arguments", "result"}``. A case passes if the calls made are the expected ones in order, none
more, and the final report contains each of ``answer_contains``.
``python -m tests.model_server.score_blind [FOLDER]`` prints the score.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simpleeval import SimpleEval

from windtunnel.model_server.decide import ToolCall, decide
from windtunnel.model_server.personas import Persona

SYSTEM = "Today is Monday, 2 March 2026."
FOLDER = Path(__file__).parent / "blind"
LIMIT = 20
REPORT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "Report",
        "description": "The final report to the user. Call it exactly once, last.",
        "parameters": {
            "type": "object",
            "properties": {
                "status": {"type": "string", "enum": ["done", "failed", "unsure"]},
                "answer": {"type": "string", "description": "one sentence to the user"},
                "values": {
                    "type": "array",
                    "description": "the values the user asked for, in the order asked, nothing else",
                    "items": {
                        "type": "object",
                        "properties": {
                            "value": {"anyOf": [{"type": "number"}, {"type": "string"}]},
                            "unit": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                        },
                        "required": ["value"],
                    },
                },
            },
            "required": ["status", "answer", "values"],
        },
    },
}


@dataclass
class Score:
    """``per_toolset`` maps a tool set to (passed, total); ``failures`` a case's id to the reason."""

    total: int = 0
    passed: int = 0
    per_toolset: dict[str, tuple[int, int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class Mismatch(Exception):
    """What differs from the expected conversation."""


def score(folder: Path) -> Score:
    """Plays every case of the folder; raises ``OSError`` or ``ValueError`` if it cannot be read."""
    cases = _read(folder / "prompts.json", "cases", "prompts")
    toolsets = {
        path.stem: [_wrapped(t) for t in _read(path, "tools")] for path in folder.glob("toolset_*.json")
    }
    found = Score()
    for case in cases:
        name = _toolset_name(str(case["tools"]), toolsets)
        passed, total = found.per_toolset.get(name, (0, 0))
        try:
            play(case, toolsets[name])
        except Mismatch as reason:
            found.failures[str(case["id"])] = str(reason)
        except Exception as error:  # noqa: BLE001 - rules that raise have failed the case, whatever they raise
            found.failures[str(case["id"])] = f"decide raised {type(error).__name__}: {error}"
        else:
            passed += 1
            found.passed += 1
        found.total += 1
        found.per_toolset[name] = passed, total + 1
    return found


def _read(path: Path, *keys: str) -> list[Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(data, dict):
        data = next(data[key] for key in keys if key in data)
    return list(data)


def _wrapped(tool: dict[str, Any]) -> dict[str, Any]:
    return tool if "function" in tool else {"type": "function", "function": tool}


def _toolset_name(name: str, toolsets: Mapping[str, Any]) -> str:
    stem = name.removesuffix(".json")
    return stem if stem in toolsets else f"toolset_{stem}"


def play(case: Mapping[str, Any], tools: Sequence[dict[str, Any]]) -> None:
    """Plays one conversation; raises ``Mismatch`` at the first difference."""
    expected = list(case.get("calls") or [])
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": case["prompt"]},
    ]
    for turn in range(LIMIT):
        request = {"messages": messages, "tools": [*tools, REPORT], "tool_choice": "required"}
        decision = decide(request, Persona.DILIGENT, 0)
        if not decision.tool_calls:
            return _check_end(expected, decision.text, case)
        if decision.tool_calls[0].name == "Report":
            report = decision.tool_calls[0].arguments
            return _check_end(expected, json.dumps(report, ensure_ascii=False), case)
        answers = _answers(decision.tool_calls, expected)
        expected = expected[len(decision.tool_calls) :]
        messages += _exchange(decision.tool_calls, answers, turn)
    raise Mismatch("it did not end")


def _check_end(expected: Sequence[Any], said: str, case: Mapping[str, Any]) -> None:
    if expected:
        raise Mismatch(f"not called: {', '.join(call['name'] for call in expected)}; it said {said}")
    for wanted in case.get("answer_contains") or []:
        if str(wanted).casefold() not in said.casefold().replace('\\"', '"'):
            raise Mismatch(f"the answer lacks {wanted!r}: {said}")


def _answers(made: Sequence[ToolCall], expected: Sequence[dict[str, Any]]) -> list[Any]:
    """The results for the calls of one reply, which may come in any order among themselves."""
    group = list(expected[: len(made)])
    answers = []
    for call in made:
        reasons = [_difference(call, other) for other in group]
        if None not in reasons:
            reason = reasons[0] if reasons else "nothing more expected"
            raise Mismatch(f"called {call.name}({dict(call.arguments)}): {reason}")
        answers.append(group.pop(reasons.index(None)).get("result"))
    return answers


def _difference(call: ToolCall, expected: Mapping[str, Any]) -> str | None:
    if call.name != expected["name"]:
        return f"expected {expected['name']}"
    for name, wanted in (expected.get("arguments") or {}).items():
        if name not in call.arguments:
            return f"{name} is absent, expected {wanted!r}"
        if not matches(call.arguments[name], wanted):
            return f"{name} is {call.arguments[name]!r}, expected {wanted!r}"
    return None


def matches(value: Any, wanted: Any) -> bool:
    """Whether an argument is what the case wants: a plain value, or one of the forms of a matcher."""
    if isinstance(wanted, dict) and len(wanted) == 1:
        (kind, content), *_ = wanted.items()
        if kind == "any_of":
            return any(matches(value, each) for each in content)
        if kind == "contains":
            parts = [content] if isinstance(content, str) else content
            return all(str(part).casefold() in str(value).casefold() for part in parts)
        if kind == "date":
            return str(value)[:10] == content
        if kind == "evaluates_to":
            return _evaluates_to(str(value), float(content))
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value == wanted or str(value).casefold() == str(wanted).casefold()
    if isinstance(wanted, int | float):
        return _number(value) is not None and math.isclose(
            _number(value) or 0.0, wanted, rel_tol=1e-9, abs_tol=1e-9
        )
    if isinstance(wanted, str):
        return (
            isinstance(value, str | int | float)
            and str(value).strip().casefold() == wanted.strip().casefold()
        )
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(matches, value, wanted))
    return bool(value == wanted)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _evaluates_to(expression: str, wanted: float) -> bool:
    names = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
    functions = {name: value for name, value in names.items() if callable(value)} | {
        "abs": abs,
        "round": round,
        "pow": pow,
        "min": min,
        "max": max,
    }
    constants = {name: value for name, value in names.items() if not callable(value)}
    try:
        found = SimpleEval(functions=functions, names=constants).eval(expression)
        return math.isclose(float(found), wanted, rel_tol=1e-6, abs_tol=1e-9)
    except Exception:  # noqa: BLE001  whatever an expression does wrong, it does not give the number
        return False


def _exchange(made: Sequence[ToolCall], answers: Sequence[Any], turn: int) -> list[dict[str, Any]]:
    calls = [
        {
            "id": f"call_{turn}_{i}",
            "type": "function",
            "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
        }
        for i, c in enumerate(made)
    ]
    said: list[dict[str, Any]] = [{"role": "assistant", "content": None, "tool_calls": calls}]
    for call, answer in zip(calls, answers, strict=True):
        content = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        said.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return said


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else FOLDER
    try:
        found = score(folder)
    except (OSError, ValueError, KeyError) as error:
        print(f"cannot score {folder}: {error!r}", file=sys.stderr)
        return 2
    for case, reason in found.failures.items():
        print(f"failed {case}: {reason}")
    for name, (passed, total) in sorted(found.per_toolset.items()):
        print(f"{name}: {passed}/{total}")
    print(f"total: {found.passed}/{found.total}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
