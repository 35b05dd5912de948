"""Which attempt a client's connection belongs to, and whether that attempt waits for its end."""

from __future__ import annotations

from wirefault.gateway.lane import Lane
from wirefault.gateway.lane_attempt import LaneAttempt


class AttemptMembership:
    """On a tool link a connection belongs to the attempt that was current when it was accepted, or else to
    that of its first request. On the model link it belongs to none: each request names its own attempt.

    ``attempt`` is the one that waits for the connection until it does ``leave``, None while none does.
    """

    def __init__(self, lane: Lane, *, is_tool: bool) -> None:
        self._lane = lane
        self._is_tool = is_tool
        self.attempt: LaneAttempt | None = None

    @property
    def outlived(self) -> bool:
        """Whether it belongs to an attempt that has ended, so that its requests belong to none."""
        return self._is_tool and self.attempt is not None and self.attempt is not self._lane.attempt

    def accept(self) -> None:
        """The connection is there."""
        if self._is_tool:
            self.join(self._lane.attempt)

    def join(self, attempt: LaneAttempt | None) -> None:
        """From here on that attempt waits for the connection, unless another one does."""
        if self.attempt is None and attempt is not None:
            self.attempt = attempt
            attempt.opened()

    def of_request(self) -> LaneAttempt | None:
        """The attempt of a request that begins now, as far as the connection tells."""
        if not self._is_tool:
            return self._lane.attempt
        if self.attempt is None:
            self.join(self._lane.attempt)
        return self.attempt

    def leave(self) -> None:
        """Nothing is left of the connection. To be called once."""
        if self.attempt is not None:
            self.attempt.closed()
