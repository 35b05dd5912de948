"""How much of a toxic an attempt gets: on which of its links at once, and for how long. Pure."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Dose(BaseModel):
    """``together`` and ``duration`` of a fault set's toxic, as they stand in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    together: bool = Field(False, description="one draw for all its links, instead of one for each")
    duration: float = Field(
        0.0, ge=0, le=600, description="seconds since the attempt was armed; 0: the whole attempt"
    )
