"""Find the tools that take the final answer, and fill such a form from its JSON schema. Pure.

Only values from tools are written; for a failed task, the form must have a place to report the failure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import ge, gt, le, lt
from typing import Any

from wirefault.dialects.json_values import as_list, as_object, as_text
from wirefault.model_server.language import PATTERNS, WORDS, listed, words_of
from wirefault.model_server.playbooks import Answer

_STATUS = {status: frozenset(words.split()) for status, words in WORDS["ends"].items()}
_FAILED = (_STATUS["failed"] | _STATUS["unsure"]) - _STATUS["done"]
_PLAIN, _UNITS = listed("plain"), listed("units")
_TEXT, _WHOLE = _PLAIN | listed("answer_fields"), _PLAIN | listed("whole")
_UNREAD, _NOTES = listed("schema_unread"), listed("schema_notes")
_LIMITS = {"minimum": ge, "minLength": ge, "minItems": ge, "exclusiveMinimum": gt}
_LIMITS |= {"maximum": le, "maxLength": le, "maxItems": le, "exclusiveMaximum": lt}
_VERB = PATTERNS["tool_verb"]
_MAX_REFERENCES = 5  # types that all refer to each other are followed in every order
_NOTHING: Any = object()


def split_tools(
    tools: Sequence[dict[str, Any]], tool_choice: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split the tools into those that work and those that take the final answer (several are alternatives).

    ``tool_choice`` is ``none``, ``auto``, ``required``, or the name of the only tool to use.
    """
    named = [tool for tool in tools if tool["function"]["name"] == tool_choice]
    offered = [] if tool_choice == "none" else named or list(tools)
    forms = [tool for tool in offered if _is_form(tool["function"], bool(named), tool_choice != "auto")]
    return [tool for tool in offered if tool not in forms], forms


def _is_form(function: Mapping[str, Any], named: bool, required: bool) -> bool:
    name, description = function["name"], as_text(function.get("description"))
    # a data class looks like any tool, but neither its name nor its description begins with a verb
    first, *rest = words_of(name) or [""]
    leading = [*words_of(description)[:1], *([first] if rest else [])]
    is_class = PATTERNS["class_name"].fullmatch(name) and not any(map(_VERB.fullmatch, leading))
    says_so = PATTERNS["form_name"].fullmatch(name) or PATTERNS["form_description"].search(description)
    return bool(says_so or (named and PATTERNS["extracts"].match(name)) or (required and is_class))


class CannotFill(Exception):
    """The form asks for data that the answer does not have; the message names the field."""


def fill(schema: Mapping[str, Any], answer: Answer) -> Any:
    """Make the JSON value of a schema. Raises ``CannotFill``."""
    filler = _Filler(schema, answer)
    units = {value.unit for value in answer.values if value.unit}
    named = {value.name: value.value for value in answer.values if value.name}
    unit = {"unit": min(units)} if len(units) == 1 else {}
    try:
        made = filler.value(_Part({**schema}, "", {**unit, **answer.facts, **named}))
    except RecursionError:
        raise CannotFill("it is nested too deep") from None
    if "ended" not in filler.reports and (answer.status != "done" or "known" not in filler.reports):
        raise CannotFill("it has no place to say so")
    return made


def plain_form(answer: Answer) -> dict[str, Any]:
    """Return the answer as a JSON object, for requests without a schema."""
    values = [{"value": value.value, "unit": value.unit} for value in answer.values]
    return {"status": answer.status, "answer": answer.text, "values": values}


def is_failure_form(name: str) -> bool:
    """Return whether a form, or a part of one, has a name for failed tasks."""
    return not _STATUS["failed"].isdisjoint(words_of(name))


@dataclass(frozen=True)
class _Part:
    """A part of the form."""

    schema: dict[str, Any]
    name: str
    known: Mapping[str, Any]  # data for it, by key
    reports_end: bool = True  # it may report how the task ended
    refs: tuple[str, ...] = ()

    def followed(self, root: Mapping[str, Any]) -> _Part:
        """Resolve the part's reference or its one ``allOf``. Raises ``CannotFill``."""
        targets, refs = as_list(self.schema.get("allOf")), self.refs
        if ref := as_text(self.schema.get("$ref")):
            target: Any = root
            for key in filter(None, ref.strip("#/").split("/")):
                target = as_object(target).get(key)
            targets, refs = [*targets, target], (*refs, ref)
        if not targets:
            return self
        endless = ref in self.refs or len(refs) > _MAX_REFERENCES
        if endless or len(targets) > 1 or not isinstance(targets[0], dict) or self.schema.keys() - _NOTES:
            raise CannotFill(
                f"'{self.name}' contains itself, lies too deep, or is not described in one place"
            )
        return replace(self, schema=targets[0], refs=refs).followed(root)


class _Filler:
    """Fills one form; ``reports``: whether it has how the task ``ended``, anything that is ``known``."""

    def __init__(self, root: Mapping[str, Any], answer: Answer) -> None:
        self._root, self._answer, self._done = root, answer, answer.status == "done"
        self.reports: set[str] = set()

    def value(self, part: _Part) -> Any:
        """Make the value of a part. Raises ``CannotFill``."""
        part = part.followed(self._root)
        schema, kind = part.schema, part.schema.get("type")
        if unread := _UNREAD & schema.keys():
            raise CannotFill(f"unsupported keyword '{min(unread)}' in the schema of '{part.name}'")
        branches = as_list(schema.get("anyOf") or schema.get("oneOf"))
        if branches := branches or [{**schema, "type": each} for each in as_list(kind)]:
            made = self._any_of([replace(part, schema=as_object(branch)) for branch in branches])
        elif kind == "null":
            self.reports |= {"" if self._done else "ended"}
            return None
        elif kind == "object" or "properties" in schema:
            made = self._object(part)
        else:
            made = self._array(part) if kind == "array" else self._scalar(part)
        if made is _NOTHING:
            raise CannotFill(f"no known value fits '{part.name}'")
        return made

    def _any_of(self, branches: list[_Part]) -> Any:
        """Fill the first branch that reports anything: null last, failure forms only after a failure."""
        made, reasons = _NOTHING, []

        def rank(branch: _Part) -> tuple[bool, bool]:
            title = as_text(branch.schema.get("title")) + as_text(branch.schema.get("$ref"))
            return branch.schema.get("type") == "null", is_failure_form(title) == self._done

        for branch in sorted(branches, key=rank):
            attempt = _Filler(self._root, self._answer)
            try:
                made = attempt.value(branch)
            except CannotFill as error:
                reasons.append(str(error))
                continue
            self.reports |= attempt.reports
            if "ended" in attempt.reports or (self._done and "known" in attempt.reports):
                break
        if made is _NOTHING:
            raise CannotFill("; ".join(dict.fromkeys(reasons)))
        return made

    def _object(self, part: _Part) -> Any:
        properties, required = as_object(part.schema.get("properties")), as_list(part.schema.get("required"))
        own = _find_known(part.name, part.known)
        if not properties:  # an object of any keys
            typed = isinstance(part.schema.get("additionalProperties"), dict)
            if typed or (part.name and not isinstance(own, dict)):
                return _NOTHING
            self.reports |= {"known" if part.name else "ended"}
            return own if part.name else plain_form(self._answer)
        made, known = {}, {**part.known, **as_object(own)}
        for key in dict.fromkeys([*properties, *required]):
            schema = as_object(properties.get(key, {"not": {}}))
            try:
                made[key] = self.value(replace(part, schema=schema, name=key, known=known))
            except CannotFill:
                if key in required:
                    raise
        return made

    def _array(self, part: _Part) -> Any:
        own, answer = _find_known(part.name, part.known), self._answer
        lists = [own] if isinstance(own, list) else []
        if part.reports_end and not lists and _WHOLE.issuperset(words_of(part.name)):
            facts = [fact for fact in part.known.values() if isinstance(fact, list)]
            if answer.values or part.name == "values":
                lists.append([{**vars(value), value.name: value.value} for value in answer.values])
            lists += facts if len(facts) == 1 and part.name != "values" else []
        item = replace(part, schema=as_object(part.schema.get("items")), name="value", reports_end=False)
        for rows_or_values in lists:
            rows = [row if isinstance(row, dict) else {"value": row} for row in rows_or_values]
            with suppress(CannotFill):
                made = [self.value(replace(item, known=row)) for row in rows]
                if _keeps_limits(made, part.schema):
                    self.reports |= {"known"}
                    return made
        return _NOTHING

    def _scalar(self, part: _Part) -> Any:
        kind, allowed = part.schema.get("type"), as_list(part.schema.get("enum"))
        allowed = allowed or [part.schema[key] for key in part.schema.keys() & {"const"}]
        for candidate, content in self._candidates(part, kind, {str(each).lower() for each in allowed}):
            value = _to_type(candidate, kind, allowed)
            if value is not _NOTHING and _keeps_limits(value, part.schema):
                self.reports |= {content}
                return value
        return _NOTHING

    def _candidates(self, part: _Part, kind: Any, options: set[str]) -> Iterator[tuple[Any, str]]:
        """Yield values for a part with these options (none: any value), and what the form reports by each."""
        words, answer = {*words_of(part.name)}, self._answer
        asks_status, asks_failure = words == {"status"}, bool(words & _STATUS["failed"])
        if part.reports_end:
            for status in [answer.status, *(["failed"] if answer.status == "unsure" else [])]:
                yield from ((option, "ended") for option in sorted(_STATUS[status] & options))
            if kind == "boolean" and (asks_failure or words & _STATUS["done"]):
                yield self._done == bool(words & _STATUS["done"]), "ended"
            if options & _STATUS["done"] and (options & _FAILED or words & {"status", "outcome"}):
                return  # it asks how the task ended, and has no option for this end
            if kind in ("string", None) and not options:
                if not self._done and (asks_status or asks_failure):
                    yield answer.status if asks_status else answer.text, "ended"
                elif not asks_failure and words <= _TEXT:
                    yield answer.text, "ended"
        yield _find_known(part.name, part.known), "known"
        if part.reports_end and len(answer.values) == 1 and words <= _WHOLE:
            yield answer.values[0].value, "known"
        if part.reports_end and asks_status:
            yield answer.status, "ended"
        if len(options) == 1:
            yield min(options), ""


def _find_known(name: str, known: Mapping[str, Any]) -> Any:
    """Find the known value of that name; words that change no meaning (name, value, the unit) are ignored."""
    plain = _PLAIN | _key_words(as_text(known.get("unit")))
    wanted = _key_words(name)
    keys = [(_key_words(key), value) for key, value in known.items() if value is not None]
    same = [value for key, value in keys if key and key == wanted]
    # a result's key may name a unit that the form does not; the reverse would be a claim
    fits = [(key, value) for key, value in keys if wanted - key <= plain and key - wanted <= plain | _UNITS]
    near = [value for key, value in fits if key & wanted - plain]
    return same[0] if same else near[0] if near and all(value == near[0] for value in near) else _NOTHING


def _key_words(name: str) -> set[str]:
    """Return the words of a name, singular, synonyms replaced by one of them."""
    return {WORDS["same"].get(word, re.sub(r"(?<![us])s$", "", word)) for word in words_of(name)}


def _to_type(value: Any, kind: Any, allowed: list[Any]) -> Any:
    """Convert to a JSON type; ``_NOTHING`` if that would change the meaning."""
    if value is _NOTHING or value is None or isinstance(value, dict | list):
        return _NOTHING
    if allowed:
        return next((each for each in allowed if str(each).lower() == str(value).lower()), _NOTHING)
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if kind in ("number", "integer"):
        if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value):
            value = json.loads(value)
        fits = not isinstance(value, bool | str) and (kind == "number" or value % 1 == 0)
        return _NOTHING if not fits else int(value) if kind == "integer" else value
    return value if kind is None or (kind == "boolean" and isinstance(value, bool)) else _NOTHING


def _keeps_limits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether the value is within the schema's limits: the number itself, else the length."""
    size = value if isinstance(value, int | float) else len(value)
    form = WORDS["formats"].get(schema.get("format"), ".*") if isinstance(value, str) else ".*"
    limits = [(keeps, schema[key]) for key, keeps in _LIMITS.items() if key in schema]
    try:
        fits = re.search(schema.get("pattern", ""), str(value)) and re.fullmatch(f"(?s:{form})", str(value))
        return bool(fits) and all(keeps(size, limit) for keeps, limit in limits)
    except (TypeError, re.error):  # a limit of another type than the value
        return False
