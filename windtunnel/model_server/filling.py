"""A form filled from its JSON schema with what the answer holds. Pure.

A value that no tool gave is never written; where the task failed, the form must have a place that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.dialects.json_values import as_list, as_object, as_text
from windtunnel.model_server.answer import Answer
from windtunnel.model_server.forms import words_of
from windtunnel.model_server.known import NOTHING, PLAIN_WORDS, find_known, keeps_limits, to_type

_STATUS = {
    "done": {*words_of("done success succeeded successful complete completed ok finished resolved")},
    "failed": {*words_of("failed failure fail error errors refusal unsuccessful incomplete aborted")},
    "unsure": {*words_of("unsure unknown uncertain partial unconfirmed")},
}
_ENDS = {word for words in _STATUS.values() for word in words}
_TOLD = words_of("answer summary response reply explanation reasoning reason conclusion comment note notes")
_TEXT = {*PLAIN_WORDS, *_TOLD, "message", "text", "content", "output", "result"}
_WHOLE = PLAIN_WORDS | {*words_of("response result results values answer answers output data items list")}
_UNREAD = {"not", "if", "prefixItems", "patternProperties", "dependentRequired", "contains", "multipleOf"}


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


def fill(schema: Mapping[str, Any], answer: Answer) -> Any:
    """The JSON value of that schema. Raises ``CannotFill``."""
    filler = _Filler(schema, answer)
    units = {value.unit for value in answer.values if value.unit}
    known = {**({"unit": min(units)} if len(units) == 1 else {}), **answer.facts}
    known |= {value.name: value.value for value in answer.values if value.name}
    try:
        made = filler.value(schema, "", _Source(known))
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


class _Filler:
    """Fills one form, and notes what it says: how the task ``ended``, anything that is ``known``."""

    def __init__(self, root: Mapping[str, Any], answer: Answer) -> None:
        self._root = root
        self._answer = answer
        self._done = answer.status == "done"
        self.says: set[str] = set()

    def value(self, schema: Any, name: str, source: _Source) -> Any:
        """The value of the part called ``name``."""
        schema, source = self._resolved(as_object(schema), source)
        if unread := _UNREAD & schema.keys():
            raise CannotFill(f"the scripted model does not read '{min(unread)}' in the schema of '{name}'")
        kind = schema.get("type")
        branches = as_list(schema.get("anyOf") or schema.get("oneOf"))
        if branches := branches or [{**schema, "type": each} for each in as_list(kind)]:
            return self._any_of([as_object(branch) for branch in branches], name, source)
        if kind == "null":
            self.says |= {"" if self._done else "ended"}
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
            for key in ref.strip("#/").split("/"):
                target = as_object(target.get(key)) if key else target
            if not target:
                raise CannotFill(f"{ref} is not in the schema")
            parts = [*parts, target]
        for part in parts:
            merged, source = self._resolved(as_object(part), source)
            properties = {**as_object(merged.get("properties")), **as_object(schema.get("properties"))}
            required = as_list(merged.get("required")) + as_list(schema.get("required"))
            both = {"properties": properties, "required": required} if properties else {}
            schema = {**merged, **schema, **both}
        return schema, source

    def _any_of(self, branches: list[dict[str, Any]], name: str, source: _Source) -> Any:
        """The first branch that says something: null last, what is named after an error only after one."""
        made, reasons = NOTHING, []

        def rank(branch: dict[str, Any]) -> tuple[bool, bool]:
            title = as_text(branch.get("title")) + as_text(branch.get("$ref"))
            return branch.get("type") == "null", tells_failure(title) == self._done

        for branch in sorted(branches, key=rank):
            said, self.says = self.says, set()
            try:
                made = self.value(branch, name, source)
            except CannotFill as error:
                self.says = said
                reasons.append(str(error))
                continue
            says, self.says = self.says, self.says | said
            if "ended" in says or (self._done and "known" in says):
                break
        if made is NOTHING:
            raise CannotFill("; ".join(dict.fromkeys(reasons)))
        return made

    def _object(self, schema: dict[str, Any], name: str, source: _Source) -> dict[str, Any]:
        own = find_known(name, source.known)
        known = {**source.known, **as_object(own)}
        properties, required = as_object(schema.get("properties")), as_list(schema.get("required"))
        if not properties:
            return self._free(own, name, schema.get("additionalProperties"))
        numbers = [
            key for key, part in properties.items() if as_object(part).get("type") in ("number", "integer")
        ]
        source = replace(source, known=known, total=numbers[0] if len(numbers) == 1 else "")
        made = {}
        for key, part in properties.items():
            try:
                made[key] = self.value(part, key, source)
            except CannotFill:
                if key in required:
                    raise
        if missing := [key for key in required if key not in made]:
            raise CannotFill(f"'{missing[0]}' is required, but the form does not describe it")
        return made

    def _free(self, own: Any, name: str, items: Any) -> dict[str, Any]:
        """An object without named properties."""
        if isinstance(items, dict) or (name and not isinstance(own, dict)):
            raise CannotFill(f"nothing that is known fits '{name}'")
        self.says |= {"known" if name else "ended"}
        return dict(own) if name else plain_form(self._answer)

    def _array(self, schema: dict[str, Any], name: str, source: _Source) -> list[Any]:
        own = find_known(name, source.known)
        lists = [own] if isinstance(own, list) else []
        if source.speaks and not lists and _WHOLE.issuperset(words_of(name)):
            values = [{**vars(value), value.name: value.value} for value in self._answer.values]
            facts = [fact for fact in source.known.values() if isinstance(fact, list)]
            lists = [values] if values or name == "values" else []
            lists += facts if len(facts) == 1 and name != "values" else []
        for parts in lists:
            known = [part if isinstance(part, dict) else {"value": part} for part in parts]
            with suppress(CannotFill):
                items = schema.get("items")
                made = [self.value(items, "value", _Source(part, speaks=False)) for part in known]
                if keeps_limits(made, schema):
                    self.says |= {"known"}
                    return made
        raise CannotFill(f"nothing that is known fits '{name}'")

    def _scalar(self, schema: dict[str, Any], name: str, source: _Source) -> Any:
        kind, allowed = schema.get("type"), as_list(schema.get("enum"))
        allowed = allowed or [schema[key] for key in schema.keys() & {"const"}]
        options, words = {str(each).lower() for each in allowed}, {*words_of(name)}
        status = options & _STATUS["done"] and (
            options & _ENDS - _STATUS["done"] or words & {"status", "outcome"}
        )
        candidates = list(self._ended(words, kind, options)) if source.speaks else []
        if not (source.speaks and status):
            candidates += self._known(name, words, options, source)
        for candidate, says in candidates:
            value = to_type(candidate, kind, allowed)
            if value is not NOTHING and keeps_limits(value, schema):
                self.says |= {says}
                return value
        raise CannotFill(f"nothing that is known fits '{name}'")

    def _ended(self, words: set[str], kind: Any, options: set[str]) -> Iterator[tuple[Any, str]]:
        """How the task ended, in the words of a part that asks for it, and what the form says by it."""
        status, text = self._answer.status, self._answer.text
        yield from ((word, "ended") for word in sorted(_STATUS[status] & options))
        if status == "unsure":
            yield from ((word, "ended") for word in sorted(_STATUS["failed"] & options))
        if kind == "boolean" and words & (_STATUS["done"] | _STATUS["failed"]):
            yield self._done == bool(words & _STATUS["done"]), "ended"
        if kind not in ("string", None) or options:
            return
        if words & _STATUS["failed"]:
            yield NOTHING if self._done else text, "ended"
        elif words == {"status"}:
            yield NOTHING if self._done else status, "ended"
        elif words <= _TEXT:
            yield text, "ended"

    def _known(
        self, name: str, words: set[str], options: set[str], source: _Source
    ) -> Iterator[tuple[Any, str]]:
        """What a tool returned, or was asked, under that name; the only value, where the name asks for it."""
        values = self._answer.values if source.speaks else ()
        yield find_known(name, source.known), "known"
        if len(values) == 1:
            unnamed = _WHOLE.issuperset(words_of(values[0].name))
            if words <= _WHOLE or (unnamed and name == source.total):
                yield values[0].value, "known"
        if source.speaks and words == {"status"}:
            yield self._answer.status, "ended"
        if len(options) == 1:
            yield min(options), ""
