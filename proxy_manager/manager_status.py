"""What a manager tells of its lane to whoever asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class ManagerStatus:
    """What ``/status`` shows.

    ``configuration`` is the number of the one that was set last, 0 where none was; ``in_force_from`` is where
    in the run in progress it came into force, if it has. ``live`` is the run that traffic outside any run
    belongs to, once it has begun.
    """

    run: str | None = None
    episode: str | None = None
    attempt: int | None = None
    configuration: int = 0
    in_force_from: str | None = None
    live: str | None = None
    desired: list[dict[str, Any]] = field(default_factory=list)
    observed: list[dict[str, Any]] | None = None
