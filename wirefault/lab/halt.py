"""A request to end what flies: after the episodes that are in the air, or at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Halt:
    """Each reason is empty until it is asked for. One thread asks, those that fly look.

    ``begin_no_other``: why no further episode is to begin; ``end_now``: why those in the air are ended, too.
    """

    begin_no_other: str = ""
    end_now: str = ""

    @property
    def asked(self) -> bool:
        """Whether either was asked for."""
        return bool(self.begin_no_other or self.end_now)
