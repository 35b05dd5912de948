"""Every assertion by the name that an experiment has for it, and how an experiment writes them.

A lone value stands for the main parameter:

    completes_within: 30s
    tool_called: {tool: send_email, times: 1}
    no_loop
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wirefault.core.spelling import nearest
from wirefault.core.strict_yaml import short_repr
from wirefault.core.user_functions import load_function, located_function, name_of_function
from wirefault.experiments.assertions.answers import AnswerContains, AnswerLacks, AnswerMatches
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.assertions.callables import CallableAssertion
from wirefault.experiments.assertions.completion import Completes, CompletesWithin, ErrorExpected
from wirefault.experiments.assertions.delivery import FaultsDelivered
from wirefault.experiments.assertions.names import NamesOfWiring, check_names
from wirefault.experiments.assertions.recovery import (
    FallbackUsed,
    RecoveredAfterFailure,
    RetryAfterRespected,
    RetrySpacing,
)
from wirefault.experiments.assertions.request_counts import (
    MaxFailedCalls,
    MaxModelCalls,
    MinModelCalls,
    NoLoop,
)
from wirefault.experiments.assertions.tokens import MaxTokens, MaxTokensIn, MaxTokensOut, NoTokenBurst
from wirefault.experiments.assertions.tool_calls import ToolsInOrder, ToolWasCalled
from wirefault.wiring.spec_file import known_keys

ASSERTIONS: tuple[type[Assertion], ...] = (
    Completes,
    CompletesWithin,
    ErrorExpected,
    AnswerContains,
    AnswerMatches,
    AnswerLacks,
    ToolWasCalled,
    ToolsInOrder,
    MaxModelCalls,
    MinModelCalls,
    MaxFailedCalls,
    NoLoop,
    MaxTokens,
    MaxTokensIn,
    MaxTokensOut,
    NoTokenBurst,
    RecoveredAfterFailure,
    FallbackUsed,
    RetrySpacing,
    RetryAfterRespected,
    FaultsDelivered,
    CallableAssertion,
)
_BY_NAME: Mapping[str, type[Assertion]] = {kind.name: kind for kind in ASSERTIONS}

AssertionEntry = str | dict[str, Any]
"""An assertion as an experiment's file has it: its name, or its name with its parameters."""


def parse_assertion(entry: AssertionEntry) -> Assertion:
    """Raises ``ValueError`` that says what is wrong with it."""
    name, given = _parts(entry)
    kind = _BY_NAME.get(name)
    if kind is None:
        raise ValueError(f"{name} is no assertion{nearest(name, _BY_NAME)}")
    if not isinstance(given, dict):
        if not kind.main:
            raise ValueError(f"{name}: takes a mapping of parameters, not {short_repr(given)}")
        given = {kind.main: given}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise ValueError(f"{name}: {_explained(error, kind)}") from None


def entry_of(given: AssertionEntry | Assertion | Callable[..., Any]) -> AssertionEntry:
    """What Python gives, as a file has it. Raises ``ValueError`` for what is no assertion."""
    if isinstance(given, Assertion):
        said = given.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {given.name: said[given.main] if said.keys() == {given.main} else said}
    if callable(given):
        return {CallableAssertion.name: name_of_function(given)}
    parse_assertion(given)
    return given


def located(entry: AssertionEntry, folder: Path, known: NamesOfWiring) -> AssertionEntry:
    """The same, a function's file looked for in that folder. Raises ``ValueError`` if it cannot be loaded, or
    names a link or tool that is not among the ``known`` ones."""
    assertion = parse_assertion(entry)
    check_names(assertion, known)
    if not isinstance(assertion, CallableAssertion):
        return entry
    function = located_function(assertion.function, folder)
    load_function(function)
    return entry_of(assertion.model_copy(update={"function": function}))


def statement_of(entry: AssertionEntry) -> str:
    """In one line, as a person would write it."""
    name, given = _parts(entry)
    if not isinstance(given, dict):
        return f"{name}: {_shown(given)}"
    return f"{name}: {', '.join(f'{key} {_shown(value)}' for key, value in given.items())}" if given else name


def entry_schema() -> dict[str, Any]:
    """The JSON Schema of an entry, for editors."""
    kinds = [
        {
            "type": "object",
            "description": (kind.__doc__ or "").partition("\n\n")[0],
            "properties": {kind.name: {} if kind.main else kind.model_json_schema()},
            "required": [kind.name],
            "additionalProperties": False,
        }
        for kind in ASSERTIONS
    ]
    return {"anyOf": [{"enum": list(_BY_NAME)}, *kinds]}


def _parts(entry: object) -> tuple[str, Any]:
    if isinstance(entry, str):
        return entry, {}
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ValueError(f"must be one assertion, such as `completes_within: 30s`, not {short_repr(entry)}")
    [(name, given)] = entry.items()
    return str(name), {} if given is None else given


def _explained(error: ValidationError, kind: type[Assertion]) -> str:
    errors = error.errors(include_url=False)
    first = next((found for found in errors if found["type"] == "extra_forbidden"), errors[0])
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return f"no such parameter {key}{nearest(key, known_keys(kind))}"
    if first["type"] == "missing":
        return f"{key} is missing"
    reason = first["msg"].removeprefix("Value error, ")
    shown = f", not {short_repr(first['input'])}" if reason.startswith("Input should") else ""
    return f"{key}: {reason}{shown}" if key else reason + shown


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
