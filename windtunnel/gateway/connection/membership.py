"""Which attempt a client's connection belongs to, and whether that attempt waits for its end."""

from __future__ import annotations

from windtunnel.gateway.lane import Lane, LaneAttempt


class AttemptMembership:
    """On a tool link a connection belongs to the attempt that was current when it was accepted, or else to
    that of its first request. On the model link it belongs to none: each request names its own attempt.

    An attempt waits for its connections until they ``leave``.
    """

    def __init__(self, lane: Lane, *, is_tool: bool) -> None:
        self._lane = lane
        self._is_tool = is_tool
        self._attempt: LaneAttempt | None = None

    def is_of(self, attempt: LaneAttempt) -> bool:
        return self._attempt is attempt

    @property
    def settling(self) -> LaneAttempt | None:
        """Its attempt, if that is over and waits only for what is unanswered."""
        return self._attempt if self._attempt is not None and self._attempt.settling else None

    @property
    def outlived(self) -> bool:
        """Whether it belongs to an attempt that has ended, so that its requests belong to none."""
        return self._is_tool and self._attempt is not None and self._attempt is not self._lane.attempt

    def accept(self) -> None:
        """The connection is there."""
        if self._is_tool:
            self.join(self._lane.attempt)

    def join(self, attempt: LaneAttempt | None) -> None:
        """From here on that attempt waits for the connection, unless another one does."""
        if self._attempt is None and attempt is not None:
            self._attempt = attempt
            attempt.opened()

    def of_request(self) -> LaneAttempt | None:
        """The attempt of a request that begins now, as far as the connection tells."""
        if not self._is_tool:
            return self._lane.attempt
        self.join(self._lane.attempt)
        return self._attempt

    def leave(self) -> None:
        """Nothing is left of the connection. To be called once."""
        if self._attempt is not None:
            self._attempt.closed()
