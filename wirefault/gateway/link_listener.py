"""A link's listener in a lane: its upstream outside any run, its dialect and its time limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from wirefault.dialects.mcp import MCP
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.lane import Lane
from wirefault.gateway.run import Run
from wirefault.wiring.link import Link


@dataclass(frozen=True)
class LinkListener:
    """One link's listener: its lane, its upstream outside any run, and its time limits (s).

    A client has ``head_timeout`` for a header block, an upstream ``connect_timeout`` for its connection.
    ``redact`` takes the keys that the lab knows out of what is recorded.
    """

    link: Link
    lane: Lane
    endpoint: Endpoint
    head_timeout: float = 10.0
    connect_timeout: float = 10.0
    redact: Callable[[str], str] = str

    @cached_property
    def name(self) -> str:
        return self.link.name

    @cached_property
    def is_model(self) -> bool:
        return self.link.is_model

    @cached_property
    def of_lines(self) -> bool:
        """Whether its messages are lines, shown as HTTP inside the gateway only."""
        return self.link.is_stdio

    @cached_property
    def no_message(self) -> str | None:
        """The ``message`` of a request before it is read: empty where MCP is spoken, else None."""
        return "" if self.link.dialect == MCP.name else None

    @cached_property
    def dialect_by_request(self) -> bool:
        """Whether a request itself must tell if it is one of MCP."""
        return self.link.dialect_by_request

    @cached_property
    def dialect_field(self) -> str:
        """What each of its exchanges says of it in the record, as JSON after a comma, unless it was of MCP
        and nobody had declared that."""
        return f',"dialect":"{self.link.dialect}"'

    def endpoint_in(self, run: Run | None) -> Endpoint:
        """The upstream of a request of that run, which may choose another model, or of none."""
        if self.link.takes_model and run is not None and run.model is not None:
            return run.model
        return self.endpoint
