"""What an oracle asks of the requests that change state, and whether the wiring knows such requests."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from windtunnel.core.spelling import nearest
from windtunnel.judging.oracle.json_match import checked_json
from windtunnel.judging.oracle.slots import OraclePart
from windtunnel.links.links import Links

Others = Literal["forbidden", "allowed"]


class ExpectedRequest(OraclePart):
    """A declared write that must be executed so often. ``*`` in its path stands for any part of it."""

    link: StrictStr
    method: Annotated[StrictStr, AfterValidator(str.upper)]
    path: Annotated[StrictStr, Field(pattern=r"^/[^?#]*$")]
    query: dict[str, Any] = Field(default_factory=dict)
    body: Annotated[Any, AfterValidator(checked_json)] = Field(None, alias="json")
    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1

    @property
    def name(self) -> str:
        return f"{self.method} {self.path} of {self.link}"


def check_requests(requests: Sequence[ExpectedRequest], links: Links) -> None:
    """Raises ``ValueError`` for one that no link of the wiring declares; it names place and nearest name."""
    for index, asked in enumerate(requests):
        where = f"expect.requests[{index}]"
        if asked.link not in links:
            raise ValueError(
                f"{where}.link: no link is called {asked.link!r}{nearest(asked.link, links.names)}"
            )
        writes = links[asked.link].writes
        if not writes:
            raise ValueError(f"{where}: the link {asked.link} declares no `writes` in the wiring")
        methods = sorted({call.partition(" ")[0] for call in writes})
        if asked.method not in methods:
            hint = nearest(asked.method, methods)
            raise ValueError(f"{where}.method: {asked.link} declares no write by {asked.method}{hint}")
        if not any(_covers(call, asked) for call in writes):
            hint = nearest(f"{asked.method} {asked.path}", writes)
            raise ValueError(
                f"{where}.path: {asked.method} {asked.path} is no declared write of {asked.link}{hint}"
            )


def _covers(declared: str, asked: ExpectedRequest) -> bool:
    """Whether what is asked for can be that write; both may have ``*`` in their paths."""
    call = f"{asked.method} {asked.path}"
    return fnmatchcase(call, declared) or fnmatchcase(declared, call)
