"""Write ``wirefault/faults/build.py``, a typed function for each fault of the catalogue."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from wirefault.faults.base import Fault
from wirefault.faults.catalogue import FAULTS

_HEAD = '''"""Builders of faults: ``faults.rate_limit(link="model", nth=1)`` is an entry of a fault set.

made by `make docs`; do not edit. Parameters after ``probability`` say when and at which requests it acts, as
``when`` and ``only`` of a fault set do; ``after_calls`` is ``when: {after: ...}``; ``during`` and
``together`` are keys of the entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

Link = str | Sequence[str]
Entry = dict[str, Any]
Range = int | str


class Conditions(TypedDict, total=False):
    """When it acts, and at which requests."""

    probability: float
    nth: Range
    after_calls: int
    first_calls: int
    every: int
    of: Literal["call", "try"]
    turn: Range
    model_requests: Range
    persistent: bool
    at_most: int
    cooldown: int
    tool: str
    only_method: str
    only_path: str
    only_header: Mapping[str, str]
    only_json: Mapping[str, Any]
    episodes: Sequence[str]
    during: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    together: bool


_WHEN = {
    "probability": "probability",
    "nth": "nth",
    "after_calls": "after",
    "first_calls": "first",
    "every": "every",
    "of": "of",
    "turn": "turn",
    "model_requests": "model_requests",
    "persistent": "persistent",
    "at_most": "at_most",
    "cooldown": "cooldown",
}
_ONLY = {
    "tool": "tool",
    "only_method": "method",
    "only_path": "path",
    "only_header": "header",
    "only_json": "json",
    "episodes": "episodes",
}
_DOSE = ("during", "together")


def _entry(fault: str, link: Link, parameters: Mapping[str, Any], conditions: Mapping[str, Any]) -> Entry:
    entry: Entry = {"fault": fault, "links": link if isinstance(link, str) else list(link)}
    chosen = {name: value for name, value in parameters.items() if value is not None}
    when = {_WHEN[name]: value for name, value in conditions.items() if name in _WHEN}
    only = {_ONLY[name]: _plain(value) for name, value in conditions.items() if name in _ONLY}
    known = [*_WHEN, *_ONLY, *_DOSE]
    if unknown := conditions.keys() - set(known):
        raise TypeError(f"{fault}: unknown condition {min(unknown)}; known: {', '.join(known)}")
    for key, part in (("with", chosen), ("when", when), ("only", only)):
        if part:
            entry[key] = part
    return entry | {name: _plain(conditions[name]) for name in _DOSE if name in conditions}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
'''


_CONDITIONS = frozenset(
    [
        "probability",
        "nth",
        "after_calls",
        "first_calls",
        "every",
        "of",
        "turn",
        "model_requests",
        "persistent",
        "at_most",
        "cooldown",
        "tool",
        "only_method",
        "only_path",
        "only_header",
        "only_json",
        "episodes",
        "during",
        "together",
    ]
)
_MAX_DOC, _MAX_LINE = 94, 110


def builders_module() -> str:
    """Return the module."""
    names = [f'    "{fault.name}",' for fault in sorted(FAULTS, key=lambda fault: fault.name)]
    functions = [line for fault in FAULTS for line in _function(fault)]
    return "\n".join([f"{_HEAD}\n", "__all__ = [", *names, "]", *functions]) + "\n"


def _function(fault: type[Fault]) -> Iterator[str]:
    fields = fault.model_fields
    yield f"\n\ndef {fault.name}("
    yield '    link: Link = "all",'
    if fields:
        yield "    *,"
    for name, info in fields.items():
        line = f"    {name}: {_text(info.annotation)} | None = None,"
        yield line if len(line) <= _MAX_LINE else f"    {name}: str | None = None,"
    # a parameter of the fault may have the name of a condition, which it then replaces
    kind = "Any" if _CONDITIONS & fields.keys() else "Unpack[Conditions]"
    yield f"    **conditions: {kind},"
    yield ") -> Entry:"
    doc = " ".join((fault.__doc__ or "").partition("\n\n")[0].split())
    short = doc if len(doc) < _MAX_DOC else f"{doc[:_MAX_DOC].rpartition(' ')[0].rstrip(',;:')} ..."
    yield f'    """{short}"""'
    if not fields:
        yield f'    return _entry("{fault.name}", link, {{}}, conditions)'
        return
    yield "    parameters = {"
    for name, info in fields.items():
        yield f'        "{info.alias or name}": {name},'
    yield "    }"
    yield f'    return _entry("{fault.name}", link, parameters, conditions)'


def _text(kind: Any) -> str:
    """The annotation in the module's words."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in (int, float, str, bool):
        return "float" if kind is float else str(kind.__name__)
    if origin is Annotated:
        return _text(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, arguments))}]"
    if origin in (Union, types.UnionType):
        parts = [_text(part) for part in arguments if part is not type(None)]
        return " | ".join(dict.fromkeys(parts))
    return "Any"
