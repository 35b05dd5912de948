"""A form filled from its JSON schema with what the answer holds. Pure.

A value that no tool gave is never written; where the task failed, the form must have a place that says so.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.dialects.json_values import as_list, as_object, as_text
from windtunnel.model_server.answer import Answer
from windtunnel.model_server.forms import words_of

_STATUS: Mapping[str, frozenset[str]] = {
    "done": frozenset(words_of("done success succeeded successful complete completed ok finished resolved")),
    "failed": frozenset(words_of("failed failure fail error errors refusal unsuccessful incomplete aborted")),
    "unsure": frozenset(words_of("unsure unknown uncertain partial unconfirmed")),
}
_PLAIN = frozenset(words_of("name value current final short brief the of in"))
_QUOTED = frozenset(words_of("message text content output result"))  # a tool may return these as well
_TOLD = words_of("answer summary response reply explanation reasoning reason conclusion comment note notes")
_TEXT = _PLAIN | _QUOTED | {*_TOLD}
_WHOLE = _PLAIN | {*words_of("response result results values answer answers output data items list")}
_SAME = {"temp": "temperature", "desc": "description", "qty": "quantity", "location": "city", "place": "city"}
_UNREAD = {"not", "if", "prefixItems", "patternProperties", "dependentRequired", "contains"}
_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"
_FORMATS = {"date": _DATE, "time": _TIME, "date-time": f"{_DATE}[T ]{_TIME}"}
_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda value, step: value % step == 0,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
    "format": lambda value, form: re.fullmatch(_FORMATS.get(form, "(?s:.*)"), value) is not None,
}
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_NOTHING: Any = object()


class CannotFill(Exception):
    """The form asks for what the answer does not have; the message names the field."""


@dataclass(frozen=True)
class _Source:
    """What a part of the form is filled from. ``speaks``: it may say how the task ended; ``total``: the only
    number of its object; ``refs``: the schema's references that led to it."""

    known: Mapping[str, Any]
    speaks: bool = True
    total: str = ""
    refs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Candidate:
    """A value for a part, and what the form says with it: how the task ended, or something that is known."""

    value: Any
    says_so: bool = False
    places: bool = False


def fill(schema: Mapping[str, Any], answer: Answer) -> Any:
    """The JSON value of that schema. Raises ``CannotFill``."""
    filler = _Filler(schema, answer)
    units = {value.unit for value in answer.values if value.unit}
    known = {**({"unit": min(units)} if len(units) == 1 else {}), **answer.facts}
    made = filler.value(schema, "", _Source(known | {v.name: v.value for v in answer.values if v.name}))
    if not filler.says_so and (answer.status != "done" or not filler.placed):
        lack = f"no place to say that the task is {answer.status}" if filler.placed else "no place for"
        raise CannotFill(f"it has {lack}: {answer.text}")
    return made


def plain_form(answer: Answer) -> dict[str, Any]:
    """The answer as a JSON object, where no schema is asked for."""
    values = [{"value": value.value, "unit": value.unit} for value in answer.values]
    return {"status": answer.status, "answer": answer.text, "values": values}


class _Filler:
    """Fills one form, and notes whether it says how the task ended or holds anything that is known."""

    def __init__(self, root: Mapping[str, Any], answer: Answer) -> None:
        self._root = root
        self._answer = answer
        self._done = answer.status == "done"
        self.says_so = False
        self.placed = False

    def value(self, schema: Any, name: str, source: _Source) -> Any:
        """The value of the part called ``name``."""
        schema, source = self._resolved(as_object(schema), source)
        if unread := _UNREAD & schema.keys():
            raise CannotFill(f"the scripted model does not read '{min(unread)}' in the schema of '{name}'")
        kind = schema.get("type")
        branches = as_list(schema.get("anyOf") or schema.get("oneOf"))
        branches = branches or [{**schema, "type": each} for each in as_list(kind)]
        if branches:
            return self._any_of(branches, name, source)
        if kind == "null":
            self.says_so = self.says_so or not self._done
            return None
        if kind == "object" or "properties" in schema:
            return self._object(schema, name, source)
        return (self._array if kind == "array" else self._scalar)(schema, name, source)

    def _resolved(self, schema: dict[str, Any], source: _Source) -> tuple[dict[str, Any], _Source]:
        """The schema with its reference followed and its ``allOf`` merged."""
        parts = as_list(schema.get("allOf"))
        if isinstance(ref := schema.get("$ref"), str):
            if ref in source.refs:
                raise CannotFill(f"{ref} contains itself")
            source, target = replace(source, refs=(*source.refs, ref)), self._root
            for key in ref.removeprefix("#").strip("/").split("/"):
                target = as_object(target.get(key)) if key else target
            parts = [*parts, target]
        for part in parts:
            merged, source = self._resolved(as_object(part), source)
            both = {
                "properties": {**as_object(merged.get("properties")), **as_object(schema.get("properties"))},
                "required": as_list(merged.get("required")) + as_list(schema.get("required")),
            }
            schema = {**merged, **schema, **(both if both["properties"] else {})}
        return schema, source

    def _any_of(self, branches: list[Any], name: str, source: _Source) -> Any:
        """The first branch that can be filled: null last; what is named after an error is for failures."""
        made, reasons = _NOTHING, []

        def rank(branch: Any) -> tuple[bool, bool]:
            title = as_text(as_object(branch).get("title")) + as_text(as_object(branch).get("$ref"))
            no_error = self._done and bool(_STATUS["failed"] & {*words_of(name)})
            is_null = as_object(branch).get("type") == "null"
            return is_null != no_error, bool(_STATUS["failed"] & {*words_of(title)}) == self._done

        for branch in sorted(branches, key=rank):
            noted = self.says_so, self.placed
            try:
                made = self.value(branch, name, source)
            except CannotFill as error:
                self.says_so, self.placed = noted
                reasons.append(str(error))
                continue
            if self.says_so or (self._done and self.placed):
                break
        if made is _NOTHING:
            raise CannotFill("; ".join(dict.fromkeys(reasons)))
        return made

    def _object(self, schema: dict[str, Any], name: str, source: _Source) -> dict[str, Any]:
        own = _find(name, source.known)
        known = {**source.known, **own} if isinstance(own, dict) else source.known
        properties, required = as_object(schema.get("properties")), as_list(schema.get("required"))
        if not properties and (isinstance(own, dict) or not name):
            self.says_so = self.placed = True
            return own if isinstance(own, dict) else plain_form(self._answer)
        numbers = [key for key in properties if properties[key].get("type") in ("number", "integer")]
        source = replace(source, known=known, total=numbers[0] if len(numbers) == 1 else "")
        made = {}
        for key, part in properties.items():
            others = properties.keys() - {key, "status"}
            quotes = key in _QUOTED and any(_find(other, known) is not _NOTHING for other in others)
            try:
                made[key] = self.value(part, key, replace(source, speaks=source.speaks and not quotes))
            except CannotFill:
                if key in required:
                    raise
        if missing := [key for key in required if key not in made]:
            raise CannotFill(f"'{missing[0]}' is required, but the form does not describe it")
        return made

    def _array(self, schema: dict[str, Any], name: str, source: _Source) -> list[Any]:
        own = _find(name, source.known)
        lists = [own] if isinstance(own, list) else []
        if source.speaks and not lists and {*words_of(name)} <= _WHOLE:
            values = [{**vars(value), value.name: value.value} for value in self._answer.values]
            known = [fact for fact in source.known.values() if isinstance(fact, list)]
            lists = [values] if values or name == "values" else []
            lists += known if len(known) == 1 and name != "values" else []
        for parts in lists:
            with suppress(CannotFill):
                return self._items(schema, parts)
        raise CannotFill(f"nothing that is known fits '{name}'")

    def _items(self, schema: dict[str, Any], parts: list[Any]) -> list[Any]:
        known = [part if isinstance(part, dict) else {"value": part} for part in parts]
        made = [self.value(schema.get("items"), "value", _Source(part, speaks=False)) for part in known]
        if not _fits(made, schema):
            raise CannotFill("too few or too many items")
        self.placed = True
        return made

    def _scalar(self, schema: dict[str, Any], name: str, source: _Source) -> Any:
        kind, allowed = schema.get("type"), as_list(schema.get("enum"))
        allowed = allowed or [schema[key] for key in schema.keys() & {"const"}]
        options = frozenset(str(each).lower() for each in allowed)
        for candidate in (*self._ended(name, kind, options, source), *self._known(name, options, source)):
            value = _typed(candidate.value, kind, allowed)
            if value is not _NOTHING and _fits(value, schema):
                self.says_so = self.says_so or candidate.says_so
                self.placed = self.placed or candidate.places
                return value
        raise CannotFill(f"nothing that is known fits '{name}'")

    def _ended(self, name: str, kind: Any, options: frozenset[str], source: _Source) -> Iterator[_Candidate]:
        """How the task ended, in the words of a part that asks for it."""
        words, status, text = {*words_of(name)}, self._answer.status, self._answer.text
        if not source.speaks:
            return
        if _is_status(words, options):
            told = _STATUS[status] & options or (_STATUS["failed"] & options if status == "unsure" else ())
            yield from (_Candidate(word, says_so=True) for word in told)
        elif kind == "boolean" and words & (_STATUS["done"] | _STATUS["failed"]):
            yield _Candidate(self._done == bool(words & _STATUS["done"]), says_so=True)
        elif kind in ("string", None) and not options:
            if words & _STATUS["failed"]:
                yield _Candidate("" if self._done else text, says_so=not self._done)
            elif words == {"status"} and not self._done:
                yield _Candidate(status, says_so=True)
            elif words <= _TEXT:
                yield _Candidate(text, says_so=True)

    def _known(self, name: str, options: frozenset[str], source: _Source) -> Iterator[_Candidate]:
        """What a tool returned, or was asked, under that name; the only value, where the name asks for it."""
        words, values = {*words_of(name)}, self._answer.values
        if source.speaks and _is_status(words, options):
            return
        yield _Candidate(_find(name, source.known), places=True)
        if source.speaks and len(values) == 1:
            unnamed = {*words_of(values[0].name)} <= _WHOLE
            if words <= _WHOLE or (unnamed and name == source.total):
                yield _Candidate(values[0].value, places=True)
        if source.speaks and words == {"status"}:
            yield _Candidate(self._answer.status, says_so=True)
        if len(options) == 1:
            yield _Candidate(min(options))


def _is_status(words: set[str], options: frozenset[str]) -> bool:
    """Whether these options, under a name of these words, are the ways in which a task ends."""
    bad = _STATUS["failed"] | _STATUS["unsure"]
    return bool(options & _STATUS["done"] and (options & bad or words & {"status", "outcome"}))


def _find(name: str, known: Mapping[str, Any]) -> Any:
    """What is known under that name; words that change no meaning (name, value, the unit) do not count."""
    plain = _PLAIN | _key_of(str(known.get("unit")))
    asked, near = _key_of(name), []
    for key, value in known.items():
        held = _key_of(key)
        if value is None or not asked:
            continue
        if held == asked:
            return value
        if (held <= asked or asked <= held) and held ^ asked <= plain and (held & asked) - plain:
            near.append(value)
    return near[0] if near and all(value == near[0] for value in near) else _NOTHING


def _key_of(name: str) -> frozenset[str]:
    return frozenset(_SAME.get(word, word.removesuffix("s")) for word in words_of(name))


def _typed(value: Any, kind: Any, allowed: list[Any]) -> Any:
    """The value in that JSON type; ``_NOTHING`` if it cannot be had without a change of meaning."""
    if value is _NOTHING or isinstance(value, dict | list):
        return _NOTHING
    if allowed:
        same = (each for each in allowed if str(each).lower() == str(value).lower())
        return next(same, _NOTHING)
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else _NOTHING
    if kind in ("number", "integer"):
        number = json.loads(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
        fits = isinstance(number, float | int) and not isinstance(number, bool)
        whole = fits and (kind == "number" or number % 1 == 0)
        return (int(number) if kind == "integer" else number) if whole else _NOTHING
    return value if kind is None else _NOTHING


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value keeps the schema's limits."""
    try:
        return all(keeps(value, schema[key]) for key, keeps in _LIMITS.items() if key in schema)
    except (TypeError, re.error):  # a limit of another type than the value's
        return False
