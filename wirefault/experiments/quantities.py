"""Durations and shares as an experiment's file has them: numbers, or texts with a unit."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from wirefault.experiments.expression import quantity_of


def _seconds(given: object) -> object:
    return quantity_of(given, "ms", "s", "min", "h") if isinstance(given, str) else given


def _share_of_all(given: object) -> object:
    return quantity_of(given, "%") if isinstance(given, str) else given


_NUMBER_OR_TEXT = WithJsonSchema({"type": ["number", "string"]})
Duration = Annotated[float, BeforeValidator(_seconds), Field(ge=0), _NUMBER_OR_TEXT]
ShareOfEpisodes = Annotated[float, BeforeValidator(_share_of_all), Field(gt=0, le=1), _NUMBER_OR_TEXT]
