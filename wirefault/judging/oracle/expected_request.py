"""What an oracle asks of the requests that change state, and whether the wiring knows such requests."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictInt, StrictStr, model_validator

from wirefault.core.spelling import nearest
from wirefault.dialects.mcp import MCP
from wirefault.judging.oracle.json_match import checked_json
from wirefault.judging.oracle.slots import OraclePart
from wirefault.wiring.link import Link
from wirefault.wiring.links import Links

Others = Literal["forbidden", "allowed"]


class ExpectedRequest(OraclePart):
    """A declared write that must be executed so often: a method and a path, or a ``tool`` of MCP, whose
    arguments are its body. ``*`` in a path or in a tool's name stands for any part of it."""

    link: StrictStr
    method: Annotated[StrictStr, AfterValidator(str.upper)] = ""
    path: Annotated[StrictStr, Field(pattern=r"^/[^?#]*$")] = ""
    tool: StrictStr = ""
    query: dict[str, Any] = Field(default_factory=dict)
    body: Annotated[Any, AfterValidator(checked_json)] = Field(None, alias="json")
    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1

    @model_validator(mode="after")
    def _names_a_call(self) -> Self:
        if self.tool and (self.method or self.path or self.query):
            raise ValueError("has a tool, and with it neither method nor path nor query")
        if not self.tool and not (self.method and self.path):
            raise ValueError("needs method and path, or on a link of MCP a tool")
        return self

    @property
    def call(self) -> str:
        """As a link's ``writes`` declare it."""
        return self.tool or f"{self.method} {self.path}"

    @property
    def name(self) -> str:
        return f"{self.call} of {self.link}"


def check_requests(requests: Sequence[ExpectedRequest], links: Links) -> None:
    """Raises ``ValueError`` for one that no link of the wiring declares; it names place and nearest name."""
    for index, asked in enumerate(requests):
        where = f"expect.requests[{index}]"
        if asked.link not in links:
            raise ValueError(
                f"{where}.link: no link is called {asked.link!r}{nearest(asked.link, links.names)}"
            )
        link = links[asked.link]
        if not link.writes:
            raise ValueError(f"{where}: the link {asked.link} declares no `writes` in the wiring")
        _check_call(asked, link, where)


def _check_call(asked: ExpectedRequest, link: Link, where: str) -> None:
    of_mcp = link.dialect == MCP.name
    if of_mcp != bool(asked.tool):
        wanted = "speaks MCP: name a tool" if of_mcp else "does not speak MCP: name method and path"
        raise ValueError(f"{where}: the link {asked.link} {wanted}")
    methods = sorted({call.partition(" ")[0] for call in link.writes})
    if not of_mcp and asked.method not in methods:
        hint = nearest(asked.method, methods)
        raise ValueError(f"{where}.method: {asked.link} declares no write by {asked.method}{hint}")
    if not any(_covers(call, asked) for call in link.writes):
        field, hint = "tool" if of_mcp else "path", nearest(asked.call, link.writes)
        raise ValueError(f"{where}.{field}: {asked.call} is no declared write of {asked.link}{hint}")


def _covers(declared: str, asked: ExpectedRequest) -> bool:
    """Whether what is asked for can be that write; both may have ``*`` in their names."""
    return fnmatchcase(asked.call, declared) or fnmatchcase(declared, asked.call)
