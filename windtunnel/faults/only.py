"""Which requests an armed fault is aimed at. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from windtunnel.faults.message import Request

ABSENT = object()


class Only(BaseModel):
    """All conditions that are given must hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str | None = Field(None, description="the request's method")
    path: str | None = Field(None, description="its path without the query; * stands for anything")
    header: Mapping[str, str] = Field(default_factory=dict, description="headers; * stands for anything")
    json_: Mapping[str, Any] = Field(
        default_factory=dict,
        alias="json",
        description="fields of the JSON body; a.b for a nested one",
    )
    tool: str | None = Field(None, description="the tool by its name, as the agent's model knows it")

    @property
    def reads_body(self) -> bool:
        return bool(self.json_)

    def matches(self, request: Request) -> bool:
        """Whether it is aimed at that request; ``tool`` is looked up beforehand (``windtunnel.catalog``)."""
        return (
            (self.method is None or self.method.upper() == request.method)
            and (self.path is None or fnmatchcase(request.path, self.path))
            and all(fnmatchcase(request.header(name), value) for name, value in self.header.items())
            and (not self.json_ or self._json_matches(request))
        )

    def _json_matches(self, request: Request) -> bool:
        try:
            body = request.json()
        except ValueError:
            return False
        return all(_same(field(body, name), wanted) for name, wanted in self.json_.items())


def field(value: Any, dotted: str) -> Any:
    """The field ``a.b`` of nested objects; ``ABSENT`` without it."""
    for name in dotted.split("."):
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def _same(found: Any, wanted: Any) -> bool:
    # Python takes true for 1
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)
