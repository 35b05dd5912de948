"""The preset ``recovery-lab`` as text: true rates, and its two decision diagrams."""

from __future__ import annotations

from wirefault.conversation.modes import (
    COOLDOWN_S,
    LOOP,
    LOOP_AFTER,
    Odds,
    Situation,
    decision_diagrams,
    modes,
)
from wirefault.faults.catalogue.model.provider import ApiTimeout

_COLUMNS = ("mode", "stated", f"messages 1-{LOOP_AFTER}", "later", "after itself")


def preset_text(multiplier: float) -> str:
    """Return a table of the rates at this FAILURE_RATE_MULTIPLIER, notes, and the diagrams in Mermaid."""
    odds = Odds(multiplier)
    first, later = odds.rates(Situation(1)), odds.rates(Situation(LOOP_AFTER + 1))
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for name, mode in modes().items():
        repeated = odds.rates(Situation(LOOP_AFTER + 1, name, odds.cooldown_s))
        rates = (rates.get(name, 0.0) for rates in (first, later, repeated))
        rows.append((name, f"{mode.probability:.2f}", *(f"{rate:.3f}" for rate in rates)))
    rows.append(("any", "", f"{sum(first.values()):.3f}", f"{sum(later.values()):.3f}", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    table = "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    notes = (
        f"True rates per message at FAILURE_RATE_MULTIPLIER={multiplier:g}, outside the {COOLDOWN_S:g} s\n"
        "after a session's last failure. Each mode is drawn independently, and one of those\n"
        f"drawn is chosen. {LOOP} needs {LOOP_AFTER} messages before it. After itself: the mode of the\n"
        "session's last failure, once the pause is over."
    )
    timeout = modes()["api_timeout"].faults.faults[0].fault
    if isinstance(timeout, ApiTimeout) and timeout.at_least is not None:
        notes += (
            f"\n\napi_timeout: a request gets no reply, and its connection is closed after a time that is"
            f"\ndrawn between {timeout.at_least:g} and {timeout.limit:g} s. The agent's client makes three"
            "\nrequests with short pauses, so that a turn waits 5 to 30 s."
        )
    diagrams = "\n\n".join(f"```mermaid\n{diagram}\n```" for diagram in decision_diagrams(odds))
    return f"{table}\n\n{notes}\n\n{diagrams}"
