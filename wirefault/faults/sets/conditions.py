"""The conditions of a fault set's entry: which requests are eligible and when they meet it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import short_repr
from wirefault.faults.counts import CountRange, within


class Window(BaseModel):
    """An outage in seconds since the run's start; the probability rises within ``ramp`` seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: float = Field(0.0, ge=0, description="seconds since the run's start")
    end: float | None = Field(None, gt=0, description="seconds since the run's start; default: the run's end")
    ramp: float = Field(0.0, ge=0, description="seconds in which the probability rises from 0")

    @model_validator(mode="after")
    def _in_order(self) -> Window:
        if self.end is not None and self.end <= self.start:
            raise ValueError("must end after it starts")
        return self

    def share(self, elapsed_s: float) -> float:
        """The share of the probability in force at that time, 0 to 1."""
        if elapsed_s < self.start or (self.end is not None and elapsed_s >= self.end):
            return 0.0
        return min(1.0, (elapsed_s - self.start) / self.ramp) if self.ramp else 1.0


class AfterWrite(BaseModel):
    """``after: {write: executed}``."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    write: Literal["executed"] = Field(description="executed: an upstream carried out a write")


def _parse_after(value: Any) -> int | AfterWrite:
    """A count of calls, or ``{write: executed}``."""
    if isinstance(value, AfterWrite):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if value == {"write": "executed"}:
        return AfterWrite(write="executed")
    raise ValueError("must be a count such as 2, or {write: executed}")


class Moment(NamedTuple):
    """A try as triggers see it. Counts are of the tries that the entry matched in the episode, over all links
    of the entry, within the turns that it selects and after the write that it waits for."""

    calls: int = 1
    """Calls from 1, including this one; all tries of a call share its number."""
    tries: int = 1
    """Tries from 1, including this one."""
    model_requests: int = 0
    """Requests to the model in the attempt so far."""
    elapsed_s: float = 0.0
    """Seconds since the run's start."""
    met: int = 0
    """Earlier tries that met the fault."""
    last_met: int = 0
    """The call of the last of these; 0 without one."""
    turn: int = 1
    """The user's turn, from 1."""
    attempt_s: float = 0.0
    """Seconds since the attempt was armed."""
    link_call: int = 1
    """Number of the call among all calls on its link in the attempt, from 1."""


class When(BaseModel):
    """All conditions must hold. Counts are of logical calls, or of tries (``of: try``)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    probability: float = Field(1.0, ge=0, le=1, description="probability, drawn for every try")
    nth: CountRange | None = Field(None, description="only the nth: 3, or a range: 2-4, 2-")
    after: Annotated[int | AfterWrite | None, BeforeValidator(_parse_after)] = Field(
        None,
        description="not the first n; or {write: executed}: only after a write was carried out in the"
        " episode, and nth, first, every and at_most count from there",
    )
    first: int | None = Field(None, ge=1, description="only the first n")
    every: int | None = Field(None, ge=1, description="every nth")
    of: Literal["call", "try"] = Field("call", description="what nth, after, first and every count")
    turn: CountRange | None = Field(None, description="only in these turns of the user, from 1: 1, 2-4, 2-")
    model_requests: CountRange | None = Field(
        None,
        validation_alias=AliasChoices("model_requests", "turns"),
        description="only in these requests to the model: 1, 2-4, 2-; formerly turns",
    )
    window: Window | None = Field(None, description="an outage by the clock: start, end, ramp")
    persistent: bool = Field(False, description="once met, always met for the rest of the episode")
    at_most: int | None = Field(None, ge=1, description="at most n times in an episode")
    cooldown: int | None = Field(
        None, ge=1, description="number of calls that pass after each time it was met"
    )

    @model_validator(mode="before")
    @classmethod
    def _has_one_name(cls, given: Any) -> Any:
        if isinstance(given, dict) and {"turns", "model_requests"} <= given.keys():
            raise ValueError("turns is the former name of model_requests: use only one of them")
        return given

    @model_validator(mode="after")
    def _can_be_met(self) -> When:
        least, most = self.nth or (1, None)
        least = max(least, self.passes + 1)
        step = self.every or 1
        ends = [end for end in (most, self.first) if end is not None]
        if ends and -(-least // step) * step > min(ends):  # the first multiple from there on
            raise ValueError("can never be met: nth, after, first and every exclude every call")
        return self

    def holds(self, moment: Moment, chance: float, dose: float = 1.0) -> bool:
        """Whether the try meets the fault. ``chance``: its keyed draw in [0, 1). ``dose``: the share of the
        probability in force by the entry's outages."""
        if self.at_most is not None and moment.met >= self.at_most:
            return False
        if self.persistent and moment.met:
            return True
        if self.cooldown and moment.met and 0 < moment.calls - moment.last_met <= self.cooldown:
            return False
        share = self.window.share(moment.elapsed_s) if self.window else 1.0
        return (
            self._counted(moment)
            and within(self.model_requests, moment.model_requests)
            and within(self.turn, moment.turn)
            and chance < self.probability * share * dose
        )

    def _counted(self, moment: Moment) -> bool:
        count = moment.calls if self.of == "call" else moment.tries
        return (
            within(self.nth, count)
            and count > self.passes
            and (self.first is None or count <= self.first)
            and (self.every is None or count % self.every == 0)
        )

    @property
    def counts(self) -> bool:
        """Whether it depends on the order in which calls arrive."""
        limits = (self.nth, self.first, self.every, self.at_most, self.cooldown)
        return self.persistent or self.after is not None or any(limit is not None for limit in limits)

    @property
    def passes(self) -> int:
        """How many of the first calls or tries pass (``after: n``)."""
        return self.after if isinstance(self.after, int) else 0

    @property
    def after_write(self) -> bool:
        """Whether it waits until a write was carried out in the episode."""
        return isinstance(self.after, AfterWrite)

    @property
    def certain(self) -> bool:
        """Whether every eligible try meets the fault, which makes it an always-on fault."""
        return self == When()


ABSENT = object()
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REPETITION = re.compile(r"\.r[0-9]+$")  # suffix of the key of a repeated prompt
_QUERY = re.compile(r"\?[\w.-]+=")  # otherwise ? is a wildcard for one character


def _as_tuple(value: Any) -> Any:
    """One text, or a list of them."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class Readable(Protocol):
    """The parts of a request that selectors read; ``wirefault.dialects.http.Request`` implements it."""

    def find_header(self, name: str) -> str | None: ...
    def json(self) -> Any: ...


TOOL_FIELD = "params.name"
"""Where an MCP tool call has the tool's name."""


class Only(BaseModel):
    """Selectors of requests; all must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    method: str | None = Field(
        None, description="the request's method; on an MCP link also the message's, such as tools/call"
    )
    path: str | None = Field(None, description="its path without the query; * matches anything")
    header: Mapping[str, str] = Field(
        default_factory=dict, description="headers that must be present; * matches any value"
    )
    json_: Mapping[str, Any] = Field(
        default_factory=dict,
        alias="json",
        description="fields of the JSON body; a.b for a nested one",
    )
    tool: str | None = Field(
        None, description="the tool's name, as the agent's model knows it; with * for functions and MCP tools"
    )
    episodes: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        (),
        description="ids of prompts, one or a list, each with all its repetitions; * matches anything",
    )

    @field_validator("method")
    @classmethod
    def _is_method(cls, method: str | None) -> str | None:
        if method is not None and not all(map(_TOKEN.fullmatch, method.split("/"))):
            raise ValueError("must be a method such as POST, or of a message such as tools/call")
        return method

    @field_validator("path")
    @classmethod
    def _is_path(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith(("/", "*", "?", "[", "http")):
            raise ValueError("must begin with / or *, as in /message or */inbox")
        if path is not None and _QUERY.search(path):
            raise ValueError("must not have a query: it is compared with the path only")
        return path

    @field_validator("header")
    @classmethod
    def _are_headers(cls, header: Mapping[str, str]) -> Mapping[str, str]:
        for name in header:
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"invalid header name {name!r}")
        return header

    @field_validator("episodes")
    @classmethod
    def _are_ids(cls, episodes: tuple[str, ...]) -> tuple[str, ...]:
        for name in episodes:
            if not name or name != name.strip():
                raise ValueError(f"invalid prompt id {name!r}")
        return episodes

    def in_episode(self, episode: str) -> bool:
        """Whether the episode is selected; without ids every episode is."""
        if not self.episodes:
            return True
        keys = (episode, _REPETITION.sub("", episode))
        return any(fnmatchcase(key, name) for key in keys for name in self.episodes)

    @property
    def by_history(self) -> bool:
        """Whether it reads only what the history records of each request."""
        return not (self.header or self.json_)

    @property
    def reads_body(self) -> bool:
        return bool(self.json_)

    def matches_head(self, method: str, path: str) -> bool:
        """Whether method and path match."""
        return (self.method is None or fnmatchcase(method, self.method.upper())) and (
            self.path is None or fnmatchcase(path, self.path)
        )

    def matches_content(self, request: Readable) -> bool:
        """Whether headers and body match. ``tool`` was replaced by other selectors in ``build_set``."""
        return all(_like(request.find_header(name), value) for name, value in self.header.items()) and (
            not self.json_ or self._json_matches(request)
        )

    def _json_matches(self, request: Readable) -> bool:
        try:
            body = request.json()
        except ValueError:
            return False
        return all(self._fits(name, nested_field(body, name), value) for name, value in self.json_.items())

    def _fits(self, name: str, value: Any, expected: Any) -> bool:
        if name == TOOL_FIELD and self.tool is not None:
            return isinstance(value, str) and fnmatchcase(value, self.tool)
        return _same(value, expected)


def nested_field(value: Any, dotted: str) -> Any:
    """The field ``a.b`` of nested objects; ``ABSENT`` without it."""
    for name in dotted.split("."):
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def _like(value: str | None, pattern: str) -> bool:
    return value is not None and fnmatchcase(value, pattern)


def _same(value: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(value, dict):
        return value.keys() == expected.keys() and all(_same(value[key], expected[key]) for key in value)
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(_same, value, expected))
    # in Python True == 1
    return bool(value == expected) and isinstance(value, bool) == isinstance(expected, bool)


_Model = TypeVar("_Model", bound=BaseModel)


class FaultSetError(InputError):
    """An invalid fault set; the message has the file, the key and a suggestion."""


def checked_mapping(value: Any, where: str, keys: Sequence[str] | None) -> dict[str, Any]:
    """A mapping with only these keys (None: any); empty for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FaultSetError(f"{where}: must be a mapping, not {short_repr(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise FaultSetError(f"{where}: unknown key {key!r}{nearest(key, keys)}")
    return value


def list_or_empty(value: Any, where: str) -> list[Any]:
    """A list; empty for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FaultSetError(f"{where}: must be a list, not {short_repr(value)}")
    return value


def text_or(default: str, value: Any, where: str) -> str:
    """The value, a non-empty text; the default for None."""
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise FaultSetError(f"{where}: must be a non-empty text, not {short_repr(value)}")
    return value


def required_name(given: Mapping[str, Any], key: str, valid: Iterable[str], where: str) -> str:
    """The name under an entry's required key; ``valid`` names are listed in the error, not checked."""
    if given.get(key) is None:
        raise FaultSetError(f"{where}: missing {key}{nearest('', valid)}")
    return text_or("", given[key], f"{where}: {key}")


def checked_model(kind: type[_Model], value: Any, where: str) -> _Model:
    """Validate the value as that model, strictly: neither ``true`` nor ``"3"`` is a number."""
    given = _known_keys(kind, value, where)
    try:
        return kind.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        if reason.startswith("Input should"):
            reason += f", not {short_repr(first['input'])}"
        raise FaultSetError(f"{where}: {key[1:] + ': ' if key else ''}{reason}") from None


def _spellings(name: str, info: FieldInfo) -> list[str]:
    """The keys of a field, including former names."""
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _known_keys(kind: type[BaseModel], value: Any, where: str) -> dict[str, Any]:
    """Check the mapping for unknown keys at every depth: pydantic does not suggest the nearest key."""
    fields = {
        key: info.annotation for name, info in kind.model_fields.items() for key in _spellings(name, info)
    }
    given = checked_mapping(value, where, tuple(fields))
    for key, annotation in fields.items():
        for inner in (annotation, *get_args(annotation)):
            held = given.get(key)
            for item in held if isinstance(held, list) else [held]:
                if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(item, dict):
                    _known_keys(inner, item, f"{where}: {key}")
    return given
