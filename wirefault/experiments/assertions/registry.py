"""All assertions by name, and their notation in experiments.

A lone value is the main parameter, and a text with a comparison is a statement:

    tokens <= 50000
    tool_called: {tool: send_email, times: 1}
    no_loop
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import PlainDataError, plain_data, read_yaml, short_repr
from wirefault.core.plugins import (
    any_function_name,
    check_function,
    checked_function_name,
    load_function,
    located_function,
    name_here,
)
from wirefault.experiments.assertions.answers import (
    AnswerContains,
    AnswerLacks,
    AnswerMatches,
    Completes,
    ErrorExpected,
)
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.experiments.assertions.calls import (
    NoLoop,
    NoTokenBurst,
    ToolsInOrder,
    ToolWasCalled,
)
from wirefault.experiments.assertions.evaluators import as_check, is_evaluator
from wirefault.experiments.assertions.recovery import (
    FallbackUsed,
    NoFinding,
    RecoveredAfterFailure,
    RetryAfterRespected,
    RetrySpacing,
)
from wirefault.experiments.assertions.statement import Statement
from wirefault.experiments.episode_view import EpisodeView, NothingToJudge, NotRecorded
from wirefault.experiments.expression import RATE
from wirefault.judging.checker import CheckResult
from wirefault.subjects.loading import is_lab_subject
from wirefault.wiring.spec_file import known_keys
from wirefault.wiring.wiring import Wiring


class CallableAssertion(Assertion):
    """The function returns True; it gets an `EpisodeView`, or all of them with `over: arm`.

    It returns True, False, None for unknown, or a `CheckResult`.
    """

    name = "callable"
    main = "function"
    needs = "a function that returns a result; after an exception it is unknown"

    function: Annotated[str, AfterValidator(checked_function_name)] = Field(
        description="module:function, or file.py:function of a file in the experiment's folder"
    )
    over: Literal["episode", "arm"] = Field(
        "episode", description="call it for each episode, or once for an arm"
    )

    @property
    def expected(self) -> str:
        return f"{self.function.rpartition(':')[2]} says so"

    def check(self, view: EpisodeView) -> CheckResult:
        return self._judged(view)

    def check_arm(self, views: Sequence[EpisodeView]) -> CheckResult:
        """Call it with all episodes of an arm. Raises ``NotRecorded``."""
        return self._judged(views)

    @cached_property
    def _loaded(self) -> Callable[..., object]:
        return load_function(self.function)

    def _judged(self, episode: object) -> CheckResult:
        try:
            function = self._loaded
        except ValueError as error:
            folder = self.function.removesuffix(_without_folder(self.function))
            raise NotRecorded(str(error).replace(folder, "") if folder else str(error)) from None
        try:
            with redirect_stdout(sys.stderr):
                result = function(episode)
        except (NotRecorded, NothingToJudge):
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - which tells nothing of the subject
            raise NotRecorded(f"{_without_folder(self.function)} raised {type(error).__name__}") from None
        if isinstance(result, CheckResult):
            return result
        if result is None or isinstance(result, bool):
            return CheckResult(
                passed=result, message="" if result is not None else "its function returned None"
            )
        name = _without_folder(self.function)
        raise NotRecorded(f"{name} returned {result!r:.40}, not True, False, None or CheckResult")

    @model_validator(mode="after")
    def _of_one_kind(self) -> CallableAssertion:
        if self.over == "arm" and (self.turn is not None or self.episodes != 1):
            raise ValueError("over: arm runs once: it cannot be combined with `turn` or `episodes`")
        return self


@dataclass(frozen=True)
class NamesOfWiring:
    """Known links and tools; None if they show only while the subject runs."""

    links: Collection[str] | None = None
    tools: Collection[str] | None = None


def names_of(wiring: Wiring, subject: str) -> NamesOfWiring:
    """The names of a wiring with this ``subject``, or with its own if empty. Only the lab agent's tools are
    known.
    """
    by_lab = is_lab_subject(subject, wiring)
    links = None if wiring.links.grows else wiring.links.names
    return NamesOfWiring(links, wiring.links.declared_tools if by_lab else None)


def check_names(assertion: Assertion, known: NamesOfWiring) -> None:
    """Raises ``ValueError`` for an unknown link or tool."""
    for what, keys, names in (
        ("link", assertion.link_keys, known.links),
        ("tool", assertion.tool_keys, known.tools),
    ):
        for key, name in _named(assertion, keys):
            if names is not None and name not in names:
                raise ValueError(
                    f"{assertion.name}: {key}: unknown {what} {name}{nearest(name, sorted(names))}"
                )


def _named(assertion: Assertion, keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each name with its key in the experiment."""
    for key in keys:
        value: str | list[str] = getattr(assertion, key)
        alias = type(assertion).model_fields[key].alias or key
        for name in [value] if isinstance(value, str) else value:
            if name:
                yield alias, name


ASSERTIONS: tuple[type[Assertion], ...] = (
    Statement,
    Completes,
    ErrorExpected,
    AnswerContains,
    AnswerMatches,
    AnswerLacks,
    ToolWasCalled,
    ToolsInOrder,
    NoLoop,
    NoTokenBurst,
    RecoveredAfterFailure,
    FallbackUsed,
    RetrySpacing,
    RetryAfterRespected,
    NoFinding,
    CallableAssertion,
)
_PARAMETER = re.compile(r"\w+:")
_COMPARES = re.compile(r"[<>=!]|^no ")
_BY_NAME: Mapping[str, type[Assertion]] = {kind.name: kind for kind in ASSERTIONS}

AssertionEntry = str | dict[str, Any]
"""An assertion as an experiment's file has it: its name, or its name with its parameters."""


def parse_assertion(entry: AssertionEntry) -> Assertion:
    """Parse an entry. Raises ``ValueError``."""
    name, value = _parts(entry)
    kind = _BY_NAME.get(name)
    if kind is None and name.startswith(RATE):
        raise ValueError(f"{name}: put the text in quotes, since it has a colon")
    if kind is None:
        raise ValueError(f"unknown assertion {name}{nearest(name, _BY_NAME)}")
    if not isinstance(value, dict):
        if not kind.main:
            raise ValueError(f"{name}: takes a mapping of parameters, not {short_repr(value)}")
        value = {kind.main: value}
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"{name}: {_explained(error, kind)}") from None


def rated_check(name: str) -> AssertionEntry:
    """The check of ``rate(CHECK)``. Raises ``ValueError``.

    A parameter follows its name: ``rate(answer_contains: Rome)``, in a file with the whole text in quotes.
    """
    text = name.removeprefix(RATE).removesuffix(")")
    entry = _yaml_entry(text) if _PARAMETER.match(text) else text
    assertion = parse_assertion(entry)
    if isinstance(assertion, CallableAssertion):
        raise ValueError(f"{name}: a function has no rate here: use `callable` with `episodes: 90 %`")
    if assertion.episodes != 1 or getattr(assertion, "over", "episode") == "arm":
        raise ValueError(f"{name}: is about each episode, without `episodes` and `over: arm`")
    return entry


def _yaml_entry(text: str) -> AssertionEntry:
    try:
        entry: AssertionEntry = plain_data(read_yaml(f"{{{text}}}", text), text)
    except PlainDataError as error:
        raise ValueError(str(error)) from None
    return entry


def looks_like_statement(text: str) -> bool:
    """Whether the text is meant as a statement, not as an assertion's name."""
    return bool(_COMPARES.search(text))


def entry_of(value: AssertionEntry | Assertion | Callable[..., Any]) -> AssertionEntry:
    """An entry from Python as a file has it. Raises ``ValueError`` for anything but an assertion."""
    if isinstance(value, Assertion):
        result = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {value.name: result[value.main] if result.keys() == {value.main} else result}
    if is_evaluator(value):
        return {CallableAssertion.name: name_here(as_check(value))}
    if callable(value):
        return {CallableAssertion.name: any_function_name(value)}
    parse_assertion(value)
    return value


def located(entry: AssertionEntry, folder: Path, known: NamesOfWiring) -> AssertionEntry:
    """The entry with the path of its function resolved in that folder.

    Runs nothing. Raises ``ValueError`` if the function is not found or a name is not ``known``.
    """
    assertion = parse_assertion(entry)
    check_names(assertion, known)
    if not isinstance(assertion, CallableAssertion):
        return entry
    function = located_function(assertion.function, folder)
    check_function(function)
    return entry_of(assertion.model_copy(update={"function": function}))


def load_functions(entries: Iterable[AssertionEntry]) -> None:
    """Load the functions of the assertions. Raises ``InputError`` if one cannot be."""
    for entry in entries:
        assertion = parse_assertion(entry)
        if isinstance(assertion, CallableAssertion):
            try:
                load_function(assertion.function)
            except ValueError as error:
                raise InputError(f"assertions: {error}") from None


def statement_of(entry: AssertionEntry) -> str:
    """The entry in one line, as a user would write it."""
    name, value = _parts(entry)
    if name == CallableAssertion.name:
        value = _without_folder(value)
    if name == Statement.name:
        value = value if isinstance(value, dict) else {Statement.main: value}
        more = [f"{key} {_as_text(each)}" for key, each in value.items() if key != Statement.main]
        return ", ".join([str(value.get(Statement.main)), *more])
    if not isinstance(value, dict):
        return f"{name}: {_as_text(value)}"
    return f"{name}: {', '.join(f'{key} {_as_text(each)}' for key, each in value.items())}" if value else name


def _without_folder(value: Any) -> Any:
    """The parameters of a callable whose file is named without its folder."""
    if isinstance(value, dict):
        return {**value, CallableAssertion.main: _without_folder(value.get(CallableAssertion.main))}
    return str(value).rpartition("/")[2] if ".py:" in str(value) else value


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
    statement = {"type": "string", "pattern": _COMPARES.pattern}
    return {"anyOf": [{"enum": list(_BY_NAME)}, statement, *kinds]}


def _parts(entry: object) -> tuple[str, Any]:
    if isinstance(entry, str):
        return (Statement.name, entry) if looks_like_statement(entry) else (entry, {})
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ValueError(
            f"must be one assertion, such as `completes` or `no_loop: 3`, not {short_repr(entry)}"
        )
    [(name, value)] = entry.items()
    return str(name), {} if value is None else value


def _explained(error: ValidationError, kind: type[Assertion]) -> str:
    errors = error.errors(include_url=False)
    first = next((problem for problem in errors if problem["type"] == "extra_forbidden"), errors[0])
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        return f"no such parameter {key}{nearest(key, known_keys(kind))}"
    if first["type"] == "missing":
        return f"{key} is missing"
    reason = first["msg"].removeprefix("Value error, ")
    suffix = f", not {short_repr(first['input'])}" if reason.startswith("Input should") else ""
    return f"{key}: {reason}{suffix}" if key else reason + suffix


def _as_text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
