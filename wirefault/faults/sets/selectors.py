"""Which requests are eligible for a fault. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

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
        return all(_same(field(body, name), value) for name, value in self.json_.items())


def field(value: Any, dotted: str) -> Any:
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
