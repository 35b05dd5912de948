"""A share as a text in percent that does not round what is nearly all to all."""

from __future__ import annotations

import math


def percent(share: float, *, decimals: int | None = None) -> str:
    """``share`` of 1 with three significant digits, or with so many ``decimals``.

    It has more of them where a share would else read as 0 % or 100 % and is neither: 999 of 1000 with no
    decimals are 99.9 %.
    """
    kind, digits = ("g", 3) if decimals is None else ("f", decimals)
    text = f"{100 * share:.{digits}{kind}}"
    while float(text) in (0, 100) and not math.isclose(100 * share, float(text), abs_tol=1e-9):
        digits += 1
        text = f"{100 * share:.{digits}{kind}}"
    return f"{text} %"
