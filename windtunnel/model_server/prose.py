"""Short natural sentences about what was found and what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.model_server.findings import META, Finding, Value, leaves, main_list, objects
from windtunnel.model_server.lexicon import NOUN_VERBS, STOPWORDS, operations, words
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.toolspec import Tool

_DONE = {"create": "added", "delete": "deleted", "send": "sent", "update": "updated"}
_REFERENCES = {"reference", "confirmation", "code", "number", "ref", "pnr", "ticket", "tracking", "id", "key"}


def sentence_of(tool: Tool, arguments: Mapping[str, Any], data: Any, values: Sequence[Value]) -> str:
    """One sentence with the values, or on what the call did."""
    if tool.writes:
        return _deed(tool, arguments, data)
    if not values:
        subject = _subject(tool, arguments)
        return f"Nothing was found{f' for {subject}' if subject else ''}."
    shown = ", ".join(value.text for value in values)
    return _told(tool, arguments, values, shown)


def _told(tool: Tool, arguments: Mapping[str, Any], values: Sequence[Value], shown: str) -> str:
    roles = {role_of(param, tool).kind: arguments.get(param.name) for param in tool.params}
    if roles.get("expression"):
        return f"The result of {roles['expression']} is {shown}."
    subject = _subject(tool, arguments)
    labels = {value.label for value in values}
    if roles.get("language") or len(shown) > 60 or not subject:
        return shown if shown.endswith((".", "!", "?")) else f"{_opening(tool, values)}{shown}."
    joint = (
        "in" if roles.get("place") else "on" if roles.get("date") and subject == roles.get("date") else "for"
    )
    if len(values) > 1 and len(labels) == len(values) and all(labels):
        parts = " and ".join(f"{value.label} {value.text}" for value in values)
        return f"{subject}: {parts}."
    if len(labels) == 1 and (label := values[0].label) and len(values) == 1:
        return f"The {label} {joint} {subject} is {shown}."
    if roles.get("query") and not any(labels):
        return f"{subject[0].upper()}{subject[1:]}: {shown}."
    return f"{_noun(tool).capitalize() or 'Found'} {joint} {subject}: {shown}."


def _opening(tool: Tool, values: Sequence[Value]) -> str:
    if len(values) == 1 and values[0].label and values[0].is_number:
        return f"The {values[0].label} is "
    return ""


def _subject(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What the call was about: its first free argument."""
    for param in tool.params:
        value = arguments.get(param.name)
        if isinstance(value, str) and value and not param.enum and len(value) <= 60:
            return value
    return next((str(value) for value in arguments.values() if not isinstance(value, dict | list | bool)), "")


def _noun(tool: Tool) -> str:
    named = words(tool.name)
    named = named[: named.index("by")] if "by" in named[1:] else named
    return " ".join(
        word
        for position, word in enumerate(named)
        if word not in STOPWORDS and not (operations(word) and (position == 0 or word not in NOUN_VERBS))
    )


def _deed(tool: Tool, arguments: Mapping[str, Any], data: Any) -> str:
    noun = _noun(tool) or next((w for w in words(tool.name) if w not in STOPWORDS), "request")
    verb = _DONE.get(tool.operation, "done")
    told = ", ".join(
        str(v) for v in arguments.values() if isinstance(v, str | int | float) and len(str(v)) <= 80
    )
    references = _confirmation(data, arguments)
    details = f" ({told})" if told else ""
    return f"The {noun} is {verb}{details}{f', reference {references}' if references else ''}."


def _confirmation(data: Any, arguments: Mapping[str, Any]) -> str:
    """What identifies the new thing, a total and its state, if the answer says so."""
    found = []
    for each in objects(data)[:5]:
        for key, value in each.items():
            listed = set(words(key))
            telling = listed & (
                _REFERENCES | {"total", "price", "eta", "cost", "amount", "deleted", "removed", "balance"}
            )
            if telling and isinstance(value, str | int | float) and value not in arguments.values():
                found.append(str(value))
    return ", ".join(found[:4])


def details_of(finding: Finding) -> str:
    """Up to five further facts of a result that was asked for as a whole; empty if there are none."""
    if main_list(finding.data) is not None:
        return ""
    told = {str(value.value) for value in finding.values} | {str(v) for v in finding.arguments.values()}
    found = []
    for leaf in leaves(finding.data):
        if leaf.key in META or str(leaf.value) in told or leaf.key in ("unit", "units", "currency"):
            continue
        if isinstance(leaf.value, str | int | float) and len(str(leaf.value)) <= 60:
            label = " ".join(token for token in leaf.tokens if token != "main")
            found.append(
                str(leaf.value)
                if isinstance(leaf.value, str) and len(leaf.path) > 1
                else f"{label} {leaf.value}"
            )
    return ", ".join(found[:5])
