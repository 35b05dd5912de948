"""Counts in triggers: ``3``, ``2-4``, ``2-``. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{0,9}))?\s*")


def _parse_range(value: Any) -> tuple[int, int | None]:
    """``3``, ``"3"``, ``"2-4"``, ``"2-"`` or ``[2, 4]``."""
    match value:
        case bool():
            pass
        case int():
            return value, value
        case str() if match := _RANGE.fullmatch(value):
            first = int(match[1])
            return first, first if "-" not in value else int(match[2]) if match[2] else None
        case [int() as first, int() | None as last] if not isinstance(first, bool):
            return first, last
    raise ValueError("must be a count such as 3, a range such as 2-4, or an open one such as 2-")


def _in_order(span: tuple[int, int | None]) -> tuple[int, int | None]:
    if span[0] < 1:
        raise ValueError("counts begin with 1")
    if span[1] is not None and span[1] < span[0]:
        raise ValueError(f"the range {span[0]}-{span[1]} is empty")
    return span


CountRange = Annotated[tuple[int, int | None], BeforeValidator(_parse_range), AfterValidator(_in_order)]


def within(span: tuple[int, int | None] | None, count: int) -> bool:
    """Whether the count is in the range; always true without a range."""
    return span is None or (span[0] <= count and (span[1] is None or count <= span[1]))
