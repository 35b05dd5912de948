"""What a subject that keeps a record says of its own calls, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from wirefault.history.usual import usually

RefusedBecause = Literal["unknown_tool", "bad_arguments", "malformed"]


@dataclass(frozen=True)
class ModelCall:
    """One HTTP try at the model. ``ordinal`` counts the attempt's model requests from 1.

    ``reply_digest``: BLAKE2b (8 bytes, hexadecimal) of the reply's body; empty where it was not read whole.
    """

    t: float
    episode: str
    attempt: int
    ordinal: int
    try_: Annotated[int, usually(1)]
    ms: float
    status: int | None
    error: Annotated[str | None, usually(None)]
    reply_digest: str = ""
    event: Literal["model_call"] = "model_call"


@dataclass(frozen=True)
class ToolTry:
    """One HTTP try of a tool call, as the caller saw it.

    ``error`` is None for a valid reply of status below 400, ``http_<status>`` for any other status, else
    read_timeout, connect_timeout, connection_refused, connection_closed, connection_reset, bad_reply.
    ``route`` is ``proxy``, or ``direct`` for the fallback past proxies and gateway. ``reply_digest``:
    BLAKE2b (8 bytes, hexadecimal) of the reply's body; empty where it did not come whole. ``refused``: how
    often its connection was refused before it got one (PROXY_WAIT); that time is in ``ms`` too.
    """

    episode: str
    attempt: int
    tool: str
    link: str
    fingerprint: str
    call: int
    try_: Annotated[int, usually(1)]
    start: float
    end: float
    ms: float
    timeout_ms: float
    status: int | None
    error: Annotated[str | None, usually(None)]
    reply_bytes: int
    write: Annotated[bool, usually(False)]
    idempotency_key: Annotated[str | None, usually(None)]
    route: Literal["proxy", "direct"] = "proxy"
    reply_digest: str = ""
    refused: int = 0
    event: Literal["tool_try"] = "tool_try"


@dataclass(frozen=True)
class ToolCalled:
    """One logical tool call and what the model was told. ``side_effect``: none, done or unknown."""

    t: float
    episode: str
    attempt: int
    reply: int
    index: int
    tool: str
    link: str
    arguments: Mapping[str, Any]
    fingerprint: str
    call: int
    tries: int
    ok: bool
    error: Annotated[str | None, usually(None)]
    side_effect: str
    result: str
    fallback_used: Annotated[bool, usually(False)]
    event: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True)
class ToolCallRefused:
    """A tool call that the model asked for and the subject refused by itself: no request was made of it.

    ``why``: there is no such tool, the arguments (or those of the report) do not fit the tool's schema, or
    they are no JSON; ``detail`` in words. ``tool`` and ``arguments`` are as the model gave them, cut off
    where they are long. ``index`` is the place in the reply, malformed calls counted after the others.
    """

    t: float
    episode: str
    attempt: int
    reply: int
    index: int
    tool: str
    arguments: str
    why: RefusedBecause
    detail: str
    event: Literal["tool_call_refused"] = "tool_call_refused"


@dataclass(frozen=True)
class Report:
    """The subject's structured report. Each value: ``{"value": number or text, "unit": text or None}``."""

    status: Literal["done", "failed", "unsure"]
    answer: str
    values: list[dict[str, Any]] = field(default_factory=list)
