"""Intervals and percentiles. No data gives None, never 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist


def wilson(k: int, n: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """The Wilson score interval for a share of ``k`` in ``n``; None for n = 0.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. Raises ``ValueError`` unless 0 <= k <= n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no share")
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = k / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # exact at the ends, where rounding would leave 1e-17
    low = 0.0 if k == 0 else (middle - spread) / scale
    high = 1.0 if k == n else (middle + spread) / scale
    return low, high


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The nearest-rank percentile: the least value that at least that many percent do not exceed.

    Always a value that was measured; with fewer than 100 of them p99 is the largest. None for no data.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} is no percentage")
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]
