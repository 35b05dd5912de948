"""Several tests that share one error. Pure."""

from __future__ import annotations

from collections.abc import Callable


def holm(count: int, rejects: Callable[[int, float], bool], error: float) -> tuple[dict[int, float], float]:
    """Return the rejected tests, each with the error at which it was rejected, and the error of the others.

    ``rejects(i, error)`` is test ``i`` of ``count`` at that error, which must reject at any larger error too.
    The chance that any true hypothesis is rejected is at most ``error``. S. Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979), 65-70.
    """
    rejected: dict[int, float] = {}
    while len(rejected) < count:
        share = error / (count - len(rejected))
        new = [i for i in range(count) if i not in rejected and rejects(i, share)]
        if not new:
            break
        rejected |= dict.fromkeys(new, share)
    return rejected, error / max(count - len(rejected), 1)
