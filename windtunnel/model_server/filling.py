"""A form filled from its JSON schema with what the answer holds. Pure.

A value that no tool gave is never written; where the task failed, the form must have a place that says so.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.dialects.json_values import as_list, as_object, as_text
from windtunnel.model_server.answer import Answer
from windtunnel.model_server.words import WORDS, listed, words_of

_STATUS = {status: frozenset(words.split()) for status, words in WORDS["ends"].items()}
_FAILED = (_STATUS["failed"] | _STATUS["unsure"]) - _STATUS["done"]
_PLAIN, _UNITS = listed("plain"), listed("units")
_TEXT, _WHOLE = _PLAIN | listed("told"), _PLAIN | listed("whole")
_UNREAD = {"not", "if", "prefixItems", "patternProperties", "dependentRequired", "contains", "multipleOf"}
_LIMITS = {"minimum": operator.ge, "maximum": operator.le, "minLength": operator.ge, "maxLength": operator.le}
_LIMITS |= {"exclusiveMinimum": operator.gt, "exclusiveMaximum": operator.lt}
_LIMITS |= {"minItems": operator.ge, "maxItems": operator.le}
_NOTHING: Any = object()


class CannotFill(Exception):
    """The form asks for what the answer does not have; the message names the field."""


def fill(schema: Mapping[str, Any], answer: Answer) -> Any:
    """The JSON value of that schema. Raises ``CannotFill``."""
    filler = _Filler(answer)
    units = {value.unit for value in answer.values if value.unit}
    known = {**({"unit": min(units)} if len(units) == 1 else {}), **answer.facts}
    known |= {value.name: value.value for value in answer.values if value.name}
    try:
        made = filler.value(_Part(as_object(_inlined(schema, schema)), "", known))
    except RecursionError:
        raise CannotFill("it is nested too deep") from None
    if "ended" not in filler.says and (answer.status != "done" or "known" not in filler.says):
        raise CannotFill("it has no place to say so")
    return made


def plain_form(answer: Answer) -> dict[str, Any]:
    """The answer as a JSON object, where no schema is asked for."""
    values = [{"value": value.value, "unit": value.unit} for value in answer.values]
    return {"status": answer.status, "answer": answer.text, "values": values}


def tells_failure(name: str) -> bool:
    """Whether a form, or a part of one, of that name is for a task that failed."""
    return not _STATUS["failed"].isdisjoint(words_of(name))


# types that all refer to each other are inlined in every order
_MOST_REFERENCES = 5


def _inlined(schema: Any, root: Mapping[str, Any], refs: tuple[str, ...] = ()) -> Any:
    """The schema with its references followed and ``allOf`` merged; ``not`` stands for what has no end."""
    if isinstance(schema, list):
        return [_inlined(part, root, refs) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = as_list(schema.get("allOf"))
    if ref := as_text(schema.get("$ref")):
        target: Any = root
        for key in ref.strip("#/").split("/"):
            target = as_object(target).get(key) if key else target
        if ref in refs or target is None or len(refs) == _MOST_REFERENCES:
            return {"not": f"{ref} contains itself, is not there, or lies too deep"}
        parts, refs = [*parts, target], (*refs, ref)
    inner = {key: _inlined(part, root, refs) for key, part in schema.items() if key not in ("allOf", "$defs")}
    for part in parts:
        merged = as_object(_inlined(part, root, refs))
        properties = {**as_object(merged.get("properties")), **as_object(inner.get("properties"))}
        required = as_list(merged.get("required")) + as_list(inner.get("required"))
        inner = {
            **merged,
            **inner,
            **({"properties": properties, "required": required} if properties else {}),
        }
    return inner


@dataclass(frozen=True)
class _Part:
    """A part of the form, and what is known for it; ``speaks``: it may say how the task ended."""

    schema: dict[str, Any]
    name: str
    known: Mapping[str, Any]
    speaks: bool = True

    @property
    def own(self) -> Any:
        """What is known under its name."""
        return _find_known(self.name, self.known)


class _Filler:
    """Fills one form, and notes what it says: how the task ``ended``, anything that is ``known``."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._done = answer.status == "done"
        self.says: set[str] = set()

    def value(self, part: _Part) -> Any:
        """The value of a part. Raises ``CannotFill``."""
        schema, kind = part.schema, part.schema.get("type")
        if unread := _UNREAD & schema.keys():
            raise CannotFill(
                f"the scripted model does not read '{min(unread)}' in the schema of '{part.name}'"
            )
        branches = as_list(schema.get("anyOf") or schema.get("oneOf"))
        if branches := branches or [{**schema, "type": each} for each in as_list(kind)]:
            return self._any_of([replace(part, schema=as_object(branch)) for branch in branches])
        if kind == "null":
            self.says |= {"" if self._done else "ended"}
            return None
        if kind == "object" or "properties" in schema:
            made = self._object(part) if as_object(schema.get("properties")) else self._free_object(part)
        else:
            made = self._array(part) if kind == "array" else self._scalar(part)
        if made is _NOTHING:
            raise CannotFill(f"nothing that is known fits '{part.name}'")
        return made

    def _any_of(self, branches: list[_Part]) -> Any:
        """The first branch that says something: null last, what is named after an error only after one."""
        made, reasons = _NOTHING, []

        def rank(branch: _Part) -> tuple[bool, bool]:
            title = as_text(branch.schema.get("title")) + as_text(branch.schema.get("$ref"))
            return branch.schema.get("type") == "null", tells_failure(title) == self._done

        for branch in sorted(branches, key=rank):
            attempt = _Filler(self._answer)
            try:
                made = attempt.value(branch)
            except CannotFill as error:
                reasons.append(str(error))
                continue
            self.says |= attempt.says
            if "ended" in attempt.says or (self._done and "known" in attempt.says):
                break
        if made is _NOTHING:
            raise CannotFill("; ".join(dict.fromkeys(reasons)))
        return made

    def _free_object(self, part: _Part) -> Any:
        """An object without named properties."""
        typed = isinstance(part.schema.get("additionalProperties"), dict)
        if typed or (part.name and not isinstance(part.own, dict)):
            return _NOTHING
        self.says |= {"known" if part.name else "ended"}
        return part.own if part.name else plain_form(self._answer)

    def _object(self, part: _Part) -> dict[str, Any]:
        required, made = as_list(part.schema.get("required")), {}
        known = {**part.known, **as_object(part.own)}
        for key, schema in part.schema["properties"].items():
            try:
                made[key] = self.value(_Part(as_object(schema), key, known, part.speaks))
            except CannotFill:
                if key in required:
                    raise
        if missing := [key for key in required if key not in made]:
            raise CannotFill(f"'{missing[0]}' is required, but the form does not describe it")
        return made

    def _array(self, part: _Part) -> Any:
        lists = [part.own] if isinstance(part.own, list) else []
        if part.speaks and not lists and _WHOLE.issuperset(words_of(part.name)):
            values = [{**vars(value), value.name: value.value} for value in self._answer.values]
            facts = [fact for fact in part.known.values() if isinstance(fact, list)]
            lists = [values] if values or part.name == "values" else []
            lists += facts if len(facts) == 1 and part.name != "values" else []
        items = as_object(part.schema.get("items"))
        for held in lists:
            rows = [row if isinstance(row, dict) else {"value": row} for row in held]
            with suppress(CannotFill):
                made = [self.value(_Part(items, "value", row, speaks=False)) for row in rows]
                if _keeps_limits(made, part.schema):
                    self.says |= {"known"}
                    return made
        return _NOTHING

    def _scalar(self, part: _Part) -> Any:
        kind, allowed = part.schema.get("type"), as_list(part.schema.get("enum"))
        allowed = allowed or [part.schema[key] for key in part.schema.keys() & {"const"}]
        for candidate, says in self._candidates(part, kind, {str(each).lower() for each in allowed}):
            value = _to_type(candidate, kind, allowed)
            if value is not _NOTHING and _keeps_limits(value, part.schema):
                self.says |= {says}
                return value
        return _NOTHING

    def _candidates(self, part: _Part, kind: Any, options: set[str]) -> Iterator[tuple[Any, str]]:
        """Values for a part that takes one of these options, or any; and what the form says by each."""
        words, speaks = {*words_of(part.name)}, part.speaks
        if speaks:
            yield from ((value, "ended") for value in self._endings(words, kind, options))
        if speaks and options & _STATUS["done"] and (options & _FAILED or words & {"status", "outcome"}):
            return  # it asks how the task ended, and has no word for that
        yield part.own, "known"
        if speaks and len(self._answer.values) == 1 and words <= _WHOLE:
            yield self._answer.values[0].value, "known"
        if speaks and words == {"status"}:
            yield self._answer.status, "ended"
        if len(options) == 1:
            yield min(options), ""

    def _endings(self, words: set[str], kind: Any, options: set[str]) -> Iterator[Any]:
        """How the task ended, in the words of a part that asks for it."""
        status, text = self._answer.status, self._answer.text
        yield from sorted(_STATUS[status] & options)
        yield from sorted(_STATUS["failed"] & options) if status == "unsure" else ()
        if kind == "boolean" and words & (_STATUS["done"] | _STATUS["failed"]):
            yield self._done == bool(words & _STATUS["done"])
        if kind not in ("string", None) or options:
            return
        if words & _STATUS["failed"] or words == {"status"}:
            yield _NOTHING if self._done else status if words == {"status"} else text
        elif words <= _TEXT:
            yield text


def _find_known(name: str, known: Mapping[str, Any]) -> Any:
    """What is known under that name; words that change no meaning (name, value, the unit) do not count."""
    plain = _PLAIN | _key_of(as_text(known.get("unit")))
    asked, near = _key_of(name), []
    for key, value in known.items():
        held = _key_of(key)
        if held and held == asked and value is not None:
            return value
        # a result's key may name its unit where the form does not; the other way round it would be a claim
        if asked - held <= plain and held - asked <= plain | _UNITS and held & asked - plain:
            near.append(value)
    return near[0] if near and all(value == near[0] for value in near) else _NOTHING


def _key_of(name: str) -> set[str]:
    """The words of a name, without plurals and in one of the words that mean the same."""
    return {WORDS["same"].get(word, re.sub(r"(?<![us])s$", "", word)) for word in words_of(name)}


def _to_type(value: Any, kind: Any, allowed: list[Any]) -> Any:
    """The value in that JSON type; ``_NOTHING`` if it cannot be had without a change of meaning."""
    if value is _NOTHING or value is None or isinstance(value, dict | list):
        return _NOTHING
    if allowed:
        return next((each for each in allowed if str(each).lower() == str(value).lower()), _NOTHING)
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if kind in ("number", "integer"):
        if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value):
            value = json.loads(value)
        if isinstance(value, bool) or not isinstance(value, float | int):
            return _NOTHING
        return value if kind == "number" else int(value) if value % 1 == 0 else _NOTHING
    return value if kind is None or (kind == "boolean" and isinstance(value, bool)) else _NOTHING


def _keeps_limits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value keeps the schema's limits: its own as a number, else those of its length."""
    size = value if isinstance(value, int | float) else len(value)
    form = WORDS["formats"].get(schema.get("format")) if isinstance(value, str) else None
    try:
        within = all(keeps(size, schema[key]) for key, keeps in _LIMITS.items() if key in schema)
        fits = re.search(schema.get("pattern", ""), str(value)) and re.fullmatch(
            form or "(?s:.*)", str(value)
        )
        return within and fits is not None
    except (TypeError, re.error):  # a limit of another type than the value's
        return False
