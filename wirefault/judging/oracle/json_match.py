"""Whether a JSON value is what an oracle asks for: by the fields that it names, however deep. Pure.

An object is matched by the fields given, a list one by one, and anything else as a field of a side effect is:
a plain value, or ``{"contains": ...}``, ``{"number": x, "tolerance": t}``, ``{"any_of": [...]}`` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from wirefault.judging.oracle.field import field_matches
from wirefault.judging.oracle.slots import Matcher

_ESCAPE = 'an object that has such fields itself is asked for by {"equals": {...}}'
_MATCHER_KEYS = frozenset(Matcher.model_fields)


def checked_json(given: Any) -> Any:
    """The same, once every matcher in it can be read. Raises ``ValueError``."""
    if isinstance(given, dict):
        if _may_be_matcher(given):
            try:
                Matcher.model_validate(given)
            except ValidationError as error:
                reason = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
                raise ValueError(f"{', '.join(given)}: {reason}; {_ESCAPE}") from None
        else:
            for value in given.values():
                checked_json(value)
    elif isinstance(given, list):
        for value in given:
            checked_json(value)
    return given


def json_matches(asked: Any, there: Any) -> bool:
    """Whether it holds all that is asked for."""
    if isinstance(asked, Mapping):
        if isinstance(there, Mapping):  # an object may have fields that are called as a matcher's
            if asked.keys() == {"equals"} and "equals" not in there:
                return json_matches(asked["equals"], there)
            return all(name in there and json_matches(asked[name], there[name]) for name in asked)
        return _may_be_matcher(asked) and _fits_matcher(asked, there)
    if isinstance(asked, list):
        same_length = isinstance(there, list) and len(there) == len(asked)
        return same_length and all(map(json_matches, asked, there))
    return not isinstance(there, Mapping | list) and field_matches(Matcher(equals=asked), there)


def _fits_matcher(asked: Mapping[str, Any], there: Any) -> bool:
    try:
        return field_matches(Matcher.model_validate(dict(asked)), there)
    except ValidationError:
        return False


def _may_be_matcher(asked: Mapping[str, Any]) -> bool:
    return bool(asked) and asked.keys() <= _MATCHER_KEYS
