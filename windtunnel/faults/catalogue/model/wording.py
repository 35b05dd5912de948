"""The words of an answer: what can be turned round in it, and what is said in its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from windtunnel.dialects.json_values import items, obj, objects, text
from windtunnel.dialects.model_messages import Tool, ToolCall
from windtunnel.faults.base import Try

Edit = Callable[[str], str]
_QUOTED = 200
_FIGURE = re.compile(r"(?<![\w.,:/-])-?\d{1,12}(?:\.\d{1,6})?(?![\w:/-]|[.,]\d)")
_PAIRS = (
    ("more", "less"),
    ("higher", "lower"),
    ("warmer", "colder"),
    ("above", "below"),
    ("before", "after"),
    ("earlier", "later"),
    ("larger", "smaller"),
    ("longer", "shorter"),
    ("first", "last"),
    ("always", "never"),
    ("yes", "no"),
    ("is", "is not"),
    ("are", "are not"),
    ("was", "was not"),
    ("were", "were not"),
    ("has been", "has not been"),
    ("have been", "have not been"),
    ("can", "cannot"),
    ("will", "will not"),
)
_TURNED = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_WORDS = "|".join(sorted(_TURNED.keys() - {"yes", "no"}, key=len, reverse=True))  # "is not" before "is"
_STATEMENT = re.compile(rf"\b(?:{_WORDS})\b|\b(?:yes|no)(?=[,.;!])", re.IGNORECASE)


def figures(words: str) -> list[str]:
    """The plain figures in it, each once; those of dates and times are none."""
    return list(dict.fromkeys(_FIGURE.findall(words)))


def other_figure(figure: str, this: Try) -> str:
    """Another one of the same precision: off by 5 to 50 percent, and by at least one of the last digit."""
    decimals = len(figure.partition(".")[2])
    value, drawn = float(figure), this.chance("figure-value")
    share = 0.05 + 0.45 * drawn
    step = max(abs(value) * share, 10.0**-decimals)
    return f"{value + step if this.chance('figure-sign') < 0.5 else value - step:.{decimals}f}"


def replacing(figure: str, other: str) -> Edit:
    return lambda words: _FIGURE.sub(lambda found: other if found[0] == figure else found[0], words)


def swapping(one: str, other: str) -> Edit:
    swapped = {one: other, other: one}
    return lambda words: _FIGURE.sub(lambda found: swapped.get(found[0], found[0]), words)


def statements(words: str) -> list[int]:
    """Where its words stand that can be turned round."""
    return [found.start() for found in _STATEMENT.finditer(words)]


def turning(spoken: str, at: int) -> Edit:
    """Turns the line round in which that word of the answer stands."""
    start = spoken.rfind("\n", 0, at) + 1
    line = spoken[start:].partition("\n")[0]
    turned = line[: at - start] + _STATEMENT.sub(_opposite, line[at - start :], count=1)
    return lambda words: "\n".join(turned if one == line else one for one in words.split("\n"))


def appending(claim: str, spoken: str) -> Edit:
    """Adds a sentence to the last of the answer's."""
    last = spoken.split("\n")[-1]
    return lambda words: f"{words} {claim}" if words.split("\n")[-1] == last else words


def edited(value: Any, edit: Edit) -> Any:
    """The value with its sentences edited, and its figures where a text of them would be."""
    if isinstance(value, dict):
        return {key: edited(one, edit) for key, one in value.items()}
    if isinstance(value, list):
        return [edited(one, edit) for one in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(edit(_plain(value)), value)
    return edit(value) if isinstance(value, str) and _is_sentence(value) else value


def sentences(value: Any) -> Iterator[str]:
    """The texts in it that are more than a word."""
    if isinstance(value, str) and _is_sentence(value):
        yield value
    children = value.values() if isinstance(value, dict) else items(value)
    for child in children:
        yield from sentences(child)


def fitting(schema: Mapping[str, Any], words: str) -> Any:
    """A value that fits the JSON schema, with those words where it takes text."""
    return _fitting(schema, words, obj(schema.get("$defs")), 0)


def done(calls: Sequence[ToolCall]) -> str:
    return f"All of it is done: {_named(calls)}."


def about(tool: Tool) -> str:
    return f"Let me tell you about {tool.name}. {tool.description[:_QUOTED]}".strip()


def considering(calls: Sequence[ToolCall], user: str) -> str:
    if calls:
        return (
            f"The next step could be {_named(calls)}. Before that, let me think about whether it is right. "
            "There are several ways to look at this, and each has its merits."
        )
    return f"{_quoted(user)}Let me think about what is really asked here before I say anything."


def refusing(calls: Sequence[ToolCall], user: str, asks: bool) -> str:
    step = f"The next step would be {_named(calls)}. " if calls else _quoted(user)
    return step + ("Shall I go on?" if asks else "I am not able to go on with this.")


def _opposite(found: re.Match[str]) -> str:
    other = _TURNED[found[0].lower()]
    return other.capitalize() if found[0][0].isupper() else other


def _named(calls: Sequence[ToolCall]) -> str:
    return ", ".join(f"{call.name} {call.arguments[:_QUOTED]}" for call in calls)


def _quoted(user: str) -> str:
    return f"You asked: “{user[:_QUOTED]}”. " if user.strip() else ""


def _is_sentence(value: str) -> bool:
    return " " in value.strip()


def _plain(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else str(value)


def _number(written: str, old: int | float) -> int | float:
    if written == _plain(old):
        return old
    try:
        return int(written) if isinstance(old, int) else float(written)
    except ValueError:  # an edit that is for sentences
        return old


def _fitting(schema: Mapping[str, Any], words: str, known: Mapping[str, Any], depth: int) -> Any:
    if depth > 8:  # a schema that refers to itself
        return None
    if "$ref" in schema:
        name = text(schema["$ref"]).rpartition("/")[2]
        return _fitting(obj(known.get(name)), words, known, depth + 1)
    if "const" in schema or "default" in schema or items(schema.get("enum")):
        return schema.get("const", schema.get("default", (items(schema.get("enum")) or [None])[0]))
    choices = objects(schema.get("anyOf")) + objects(schema.get("oneOf"))
    if choices:
        return _fitting(choices[0], words, known, depth + 1)
    return _of_type(schema, words, known, depth)


def _of_type(schema: Mapping[str, Any], words: str, known: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        properties = obj(schema.get("properties"))
        required = [name for name in items(schema.get("required")) if isinstance(name, str)]
        return {name: _fitting(obj(properties.get(name)), words, known, depth + 1) for name in required}
    plain: dict[Any, Any] = {"array": [], "integer": 0, "number": 0, "boolean": True, "null": None}
    return plain.get(kind, words) if isinstance(kind, str) else words
