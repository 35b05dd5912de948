"""Tool calls in a fixed order as an experiment's subject: what tools do under faults, without an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import PlainDataError, plain_data
from wirefault.experiments.episode_view import EpisodeView
from wirefault.judging.checker import CheckResult
from wirefault.subjects.functions.marking import marked
from wirefault.subjects.functions.values import json_text

_KEYS = ("tool", "args", "kwargs", "expected")
_NOT_EXPECTED = object()


@dataclass(frozen=True)
class Operation:
    """One tool call; ``call`` makes it. Without ``expected`` any result will do."""

    tool: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = _NOT_EXPECTED


def call(tool: str, *args: Any, **kwargs: Any) -> Operation:
    """Return the call of that tool. ``expected=VALUE``: the result that it must have."""
    expected = kwargs.pop("expected", _NOT_EXPECTED)
    return Operation(tool, args, kwargs, expected)


class Operations:
    """Calls tools in a fixed order, each once, and goes on after a call that fails.

    ``tools`` are functions by name, which the lab breaks as tools; those that write are named in ``writes``.
    As an experiment's subject it answers with a JSON object: ``status`` and the ``operations`` with their
    results. ``as_expected`` is a check for that experiment. Raises ``InputError`` for an unknown tool.
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]],
        operations: Sequence[Operation],
        *,
        writes: Sequence[str] = (),
    ) -> None:
        for name in (*(operation.tool for operation in operations), *writes):
            if name not in tools:
                raise InputError(f"operations: unknown tool {name!r}{nearest(name, tools)}")
        self._tools = {name: marked(each, name, writes=name in writes) for name, each in tools.items()}
        self._operations = tuple(operations)

    @classmethod
    def load(
        cls, source: Path | str, tools: Mapping[str, Callable[..., Any]], *, writes: Sequence[str] = ()
    ) -> Operations:
        """Read the calls from a file of JSON, which may have other keys beside them.

        ``{"operations": [{"tool": ..., "args": [...], "kwargs": {...}, "expected": ...}]}``. A list
        ``expected_results`` has the results of all operations, in their order; a mapping those of some tools.
        Raises ``InputError``, also if the file cannot be read.
        """
        try:
            data = json.loads(read_input(Path(source)))
            plain_data(data, str(source))
        except (OSError, ValueError, PlainDataError) as error:
            raise InputError(f"{source}: {error}") from None
        entries = data.get("operations") if isinstance(data, dict) else None
        if not isinstance(entries, list) or not entries:
            raise InputError(f"{source}: operations: must be a list of tool calls")
        operations = [_read(source, at, entry) for at, entry in enumerate(entries)]
        return cls(tools, _expecting(source, operations, data.get("expected_results")), writes=writes)

    def __call__(self, prompt: str) -> dict[str, Any]:
        """Call the tools; the prompt does not matter."""
        results = [self._result(operation) for operation in self._operations]
        good = all(result["as_expected"] for result in results)
        return {"response": json.dumps({"status": "done" if good else "failed", "operations": results})}

    def _result(self, operation: Operation) -> dict[str, Any]:
        try:
            value = self._tools[operation.tool](*operation.args, **operation.kwargs)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and so may a fault
            message = f"{type(error).__name__}: {error}"
            return {"tool": operation.tool, "error": message[:500], "as_expected": False}
        try:
            result = json.loads(json_text(value))
        except (TypeError, ValueError, RecursionError):
            result = repr(value)[:500]
        fits = operation.expected is _NOT_EXPECTED or operation.expected in (value, result)
        return {"tool": operation.tool, "result": result, "as_expected": fits}

    @staticmethod
    def as_expected(view: EpisodeView) -> CheckResult:
        """Check that every operation returned, and returned what was expected."""
        try:
            results = json.loads(view.answer or "")["operations"]
        except (ValueError, KeyError, TypeError):
            return CheckResult(passed=None, message="the episode has no operations", name="as_expected")
        wrong = [each for each in results if not each["as_expected"]]
        if not wrong:
            return CheckResult(
                passed=True, message=f"{len(results)} operations as expected", name="as_expected"
            )
        first = wrong[0]
        how = first.get("error") or f"returned {json.dumps(first.get('result'), ensure_ascii=False)[:200]}"
        message = f"{len(wrong)} of {len(results)} operations not as expected: {first['tool']}: {how}"
        return CheckResult(passed=False, message=message, name="as_expected")


def _expecting(source: object, operations: Sequence[Operation], results: object) -> list[Operation]:
    """Add ``expected_results`` to operations that expect nothing themselves."""
    place = f"{source}: expected_results"
    if results is None:
        return list(operations)
    if isinstance(results, list) and len(results) == len(operations):
        expected = results
    elif isinstance(results, dict):
        if unknown := set(results) - {each.tool for each in operations}:
            raise InputError(f"{place}: no operation calls {min(unknown)!r}")
        expected = [results.get(each.tool, _NOT_EXPECTED) for each in operations]
    else:
        raise InputError(f"{place}: must be a list of {len(operations)} results, or a mapping by tool")
    return [
        replace(each, expected=value) if each.expected is _NOT_EXPECTED else each
        for each, value in zip(operations, expected, strict=True)
    ]


def _read(source: object, at: int, entry: object) -> Operation:
    place = f"{source}: operations[{at}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("tool"), str):
        raise InputError(f"{place}: must be an object with a tool's name under tool")
    for name in entry:
        if name not in _KEYS:
            raise InputError(f"{place}: unknown key {name!r}{nearest(name, _KEYS)}")
    args, kwargs = entry.get("args", []), entry.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise InputError(f"{place}: args must be a list and kwargs an object")
    return Operation(entry["tool"], tuple(args), kwargs, entry.get("expected", _NOT_EXPECTED))
