"""The base of what a wiring file's parts may say."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A mapping of the file: every key is known, and no text passes for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
