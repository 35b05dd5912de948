"""Tokens, their cost and the time to the first one, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.judging.usage import ModelUsage
from wirefault.report.tables import one_line


def usage_lines(usage: ModelUsage) -> Iterator[str]:
    """None of what no reply has told."""
    if usage.told:
        untold = usage.replies - usage.told
        of_them = f" ({untold} of {usage.replies} replies told none)" if untold else ""
        tokens = f"{_count(usage.tokens_in)} in, {_count(usage.tokens_out)} out"
        yield f"model tokens: {tokens}{of_them}{_cost(usage)}"
    first = usage.first_token_ms
    if first.p50 is not None:
        # with fewer the 95th percentile is just the largest
        p95 = f"{first.p95:.1f}" if first.p95 is not None and first.n >= 20 else "-"
        yield f"first token: p50 {first.p50:.1f}, p95 {p95} ms, n = {first.n}"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def _cost(usage: ModelUsage) -> str:
    cost = "" if usage.cost_usd is None else f"   cost: {usage.cost_usd:.4g} USD"
    unpriced = f"   no price: {one_line(', '.join(usage.unpriced))}" if usage.unpriced else ""
    return cost + unpriced
