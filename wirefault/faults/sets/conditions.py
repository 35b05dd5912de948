"""When an eligible try meets a fault: by chance, by count, by turn, by the clock. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from pydantic import (
    AfterValidator,
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

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{0,9}))?\s*")


def _parse_range(value: Any) -> tuple[int, int | None]:
    """``3``, ``"3"``, ``"2-4"``, ``"2-"`` or ``[2, 4]``."""
    match value:
        case bool():
            pass
        case int():
            return value, value
        case str() if match := _RANGE.fullmatch(value):
            first = int(match[1])
            return first, first if "-" not in value else int(match[2]) if match[2] else None
        case [int() as first, int() | None as last] if not isinstance(first, bool):
            return first, last
    raise ValueError("must be a count such as 3, a range such as 2-4, or an open one such as 2-")


def _in_order(span: tuple[int, int | None]) -> tuple[int, int | None]:
    if span[0] < 1:
        raise ValueError("counts begin with 1")
    if span[1] is not None and span[1] < span[0]:
        raise ValueError(f"the range {span[0]}-{span[1]} is empty")
    return span


CountRange = Annotated[tuple[int, int | None], BeforeValidator(_parse_range), AfterValidator(_in_order)]


class Window(BaseModel):
    """An outage: seconds since the run's start. Within ``ramp`` seconds the chance rises fully."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: float = Field(0.0, ge=0, description="seconds since the run's start")
    end: float | None = Field(None, gt=0, description="seconds since the run's start; without it, to its end")
    ramp: float = Field(0.0, ge=0, description="seconds in which the chance rises from 0")

    @model_validator(mode="after")
    def _in_order(self) -> Window:
        if self.end is not None and self.end <= self.start:
            raise ValueError("must end after it starts")
        return self

    def share(self, elapsed_s: float) -> float:
        """How much of the chance is in force at that time: 0 to 1."""
        if elapsed_s < self.start or (self.end is not None and elapsed_s >= self.end):
            return 0.0
        return min(1.0, (elapsed_s - self.start) / self.ramp) if self.ramp else 1.0


class Moment(NamedTuple):
    """What a trigger may know of a try. Counts are of what the entry matched, per episode and link.

    ``calls`` and ``tries`` count from 1 and include this one (all tries of a call share its number);
    ``model_requests`` counts the requests to the model in the attempt so far; ``met`` counts the earlier
    tries that met the fault, and ``last_met`` is the call of the last of them, 0 without one. ``turn`` is
    the user's, from 1. ``attempt_s``: seconds since the attempt was armed; ``link_call``: the call's number
    among all of the attempt on its link, whatever the entry matched, from 1.
    """

    calls: int = 1
    tries: int = 1
    model_requests: int = 0
    elapsed_s: float = 0.0
    met: int = 0
    last_met: int = 0
    turn: int = 1
    attempt_s: float = 0.0
    link_call: int = 1


class When(BaseModel):
    """All conditions that are given must hold. Counts are of logical calls, or of tries (``of: try``)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    probability: float = Field(1.0, ge=0, le=1, description="chance, drawn anew for every try")
    nth: CountRange | None = Field(None, description="only the nth: 3, or a range: 2-4, 2-")
    after: int | None = Field(None, ge=0, description="not the first n")
    first: int | None = Field(None, ge=1, description="only the first n")
    every: int | None = Field(None, ge=1, description="every nth")
    of: Literal["call", "try"] = Field("call", description="what nth, after, first and every count")
    turn: CountRange | None = Field(
        None, description="only in these turns of the user, the first is 1: 1, 2-4, 2-"
    )
    model_requests: CountRange | None = Field(
        None,
        validation_alias=AliasChoices("model_requests", "turns"),
        description="only in these requests to the model: 1, 2-4, 2-; its old name is turns",
    )
    window: Window | None = Field(None, description="an outage by the clock: start, end, ramp")
    persistent: bool = Field(False, description="once met, it is met for the rest of the episode")
    at_most: int | None = Field(None, ge=1, description="met at most n times in an episode")
    cooldown: int | None = Field(None, ge=1, description="calls that pass each time after it was met")

    @model_validator(mode="before")
    @classmethod
    def _has_one_name(cls, given: Any) -> Any:
        if isinstance(given, dict) and {"turns", "model_requests"} <= given.keys():
            raise ValueError("turns is the old name of model_requests: give one of them")
        return given

    @model_validator(mode="after")
    def _can_be_met(self) -> When:
        least, most = self.nth or (1, None)
        least = max(least, (self.after or 0) + 1)
        step = self.every or 1
        ends = [end for end in (most, self.first) if end is not None]
        if ends and -(-least // step) * step > min(ends):  # the first multiple from there on
            raise ValueError("it could never be met: no call is left by nth, after, first and every together")
        return self

    def holds(self, moment: Moment, chance: float, dose: float = 1.0) -> bool:
        """``chance``: the keyed draw of this try, in [0, 1). ``dose``: the share of the probability that is
        in force by the entry's outages."""
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
            and (self.after is None or count > self.after)
            and (self.first is None or count <= self.first)
            and (self.every is None or count % self.every == 0)
        )

    @property
    def counts(self) -> bool:
        """Whether it depends on the order in which calls arrive."""
        limits = (self.nth, self.after, self.first, self.every, self.at_most, self.cooldown)
        return self.persistent or any(limit is not None for limit in limits)

    @property
    def certain(self) -> bool:
        """Whether every eligible try meets the fault, which makes it an always-on fault."""
        return self == When()


def within(span: tuple[int, int | None] | None, count: int) -> bool:
    """Whether the count is in the range; in none it always is."""
    return span is None or (span[0] <= count and (span[1] is None or count <= span[1]))


ABSENT = object()
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REPETITION = re.compile(r"\.r[0-9]+$")  # behind the key of an experiment's prompt that is flown again
_QUERY = re.compile(r"\?[\w.-]+=")  # else a ? stands for one character


def _as_tuple(value: Any) -> Any:
    """One text, or a list of them."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


class Readable(Protocol):
    """What a selector reads of a request; ``wirefault.dialects.http.Request`` is one."""

    def find_header(self, name: str) -> str | None: ...
    def json(self) -> Any: ...


class Only(BaseModel):
    """All conditions that are given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    method: str | None = Field(
        None, description="the request's method; on a link of MCP also the message's, as tools/call"
    )
    path: str | None = Field(None, description="its path without the query; * stands for anything")
    header: Mapping[str, str] = Field(
        default_factory=dict, description="headers, which must be there; * stands for any value"
    )
    json_: Mapping[str, Any] = Field(
        default_factory=dict,
        alias="json",
        description="fields of the JSON body; a.b for a nested one",
    )
    tool: str | None = Field(None, description="the tool by its name, as the agent's model knows it")
    episodes: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        (),
        description="the ids of prompts, one or a list, each with all its repetitions; * stands for anything",
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
            raise ValueError("is held against the path alone: leave the query out")
        return path

    @field_validator("header")
    @classmethod
    def _are_headers(cls, header: Mapping[str, str]) -> Mapping[str, str]:
        for name in header:
            if not _TOKEN.fullmatch(name):
                raise ValueError(f"{name!r} is no header's name")
        return header

    @field_validator("episodes")
    @classmethod
    def _are_ids(cls, episodes: tuple[str, ...]) -> tuple[str, ...]:
        for name in episodes:
            if not name or name != name.strip():
                raise ValueError(f"{name!r} is no prompt's id")
        return episodes

    def in_episode(self, episode: str) -> bool:
        """Whether the episode of that key is meant; all are where none is named."""
        if not self.episodes:
            return True
        keys = (episode, _REPETITION.sub("", episode))
        return any(fnmatchcase(key, name) for key in keys for name in self.episodes)

    @property
    def by_history(self) -> bool:
        """Whether it reads nothing of a request but what the history records of each."""
        return not (self.header or self.json_)

    @property
    def reads_body(self) -> bool:
        return bool(self.json_)

    def matches_head(self, method: str, path: str) -> bool:
        """Whether method and path are as asked."""
        return (self.method is None or fnmatchcase(method, self.method.upper())) and (
            self.path is None or fnmatchcase(path, self.path)
        )

    def matches_content(self, request: Readable) -> bool:
        """Whether headers and body are as asked. ``tool`` is not read: ``build_set`` made others of it."""
        return all(_like(request.find_header(name), value) for name, value in self.header.items()) and (
            not self.json_ or self._json_matches(request)
        )

    def _json_matches(self, request: Readable) -> bool:
        try:
            body = request.json()
        except ValueError:
            return False
        return all(_same(nested_field(body, name), value) for name, value in self.json_.items())


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
    # Python takes true for 1
    return bool(value == expected) and isinstance(value, bool) == isinstance(expected, bool)


_Model = TypeVar("_Model", bound=BaseModel)


class FaultSetError(InputError):
    """A fault set that cannot be used; the message says which file, which key and what would do."""


def checked_mapping(value: Any, where: str, keys: Sequence[str] | None) -> dict[str, Any]:
    """A mapping with no key but these (None: any); empty for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FaultSetError(f"{where}: must be a mapping, not {short_repr(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise FaultSetError(f"{where}: {key!r} is no key here{nearest(key, keys)}")
    return value


def list_or_empty(value: Any, where: str) -> list[Any]:
    """A list; empty for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FaultSetError(f"{where}: must be a list, not {short_repr(value)}")
    return value


def text_or(default: str, value: Any, where: str) -> str:
    """The value, a text that is not empty, or the default for None."""
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise FaultSetError(f"{where}: must be a text that is not empty, not {short_repr(value)}")
    return value


def required_name(given: Mapping[str, Any], key: str, valid: Iterable[str], where: str) -> str:
    """The name under an entry's key; ``valid`` are shown if there is none, and are not compared here."""
    if given.get(key) is None:
        raise FaultSetError(f"{where}: {key} is missing{nearest('', valid)}")
    return text_or("", given[key], f"{where}: {key}")


def checked_model(kind: type[_Model], value: Any, where: str) -> _Model:
    """The value as that model. Strict as for JSON: neither ``true`` nor ``"3"`` is a number."""
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
    """The keys under which a field may stand, its old names among them."""
    if isinstance(info.validation_alias, AliasChoices):
        return [str(choice) for choice in info.validation_alias.choices]
    return [info.alias or name]


def _known_keys(kind: type[BaseModel], value: Any, where: str) -> dict[str, Any]:
    """The mapping, checked for unknown keys at every depth: pydantic would not name the nearest key."""
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
