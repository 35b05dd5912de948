"""What all client connections of one link's listener share."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.gateway.endpoint import Endpoint
from windtunnel.gateway.lane import Lane
from windtunnel.links.catalog import MODEL_LINK


@dataclass(frozen=True)
class LinkListener:
    """One link's listener: its lane, its upstream outside any run, and its time limits (s).

    A client has ``head_timeout`` for a header block, an upstream ``connect_timeout`` for its connection.
    """

    link: str
    lane: Lane
    endpoint: Endpoint
    head_timeout: float = 10.0
    connect_timeout: float = 10.0

    @property
    def is_tool(self) -> bool:
        return self.link != MODEL_LINK.name

    def current_endpoint(self) -> Endpoint:
        """The upstream of a request that goes out now: a run chooses its own model."""
        run = None if self.is_tool else self.lane.run
        return run.model if run else self.endpoint
