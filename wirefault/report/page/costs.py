"""The cost of a finding's episode: requests, seconds, tokens, money, extra writes, beside its control's."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from wirefault.history.reader import bare_id
from wirefault.judging.findings.conduct import masked
from wirefault.judging.writes import Write, writes_in
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.parts import CostRow, count_text
from wirefault.report.page.phrase import Figure, Phrase

_MEASURABLE = 0.1
"""Share of the control's seconds below which a difference is noise."""
WRITES = ("write_repeated", "extra_writes", "duplicate")
"""Rules and outcomes about writes that were executed too often."""
_NO_CONTROL = "not compared: no run of this prompt without faults is recorded here"


def cost_rows(
    example: EpisodeCard, calm: Sequence[EpisodeCard], names: tuple[str, str] = ("", "")
) -> list[CostRow]:
    """Return the cost of the example, and of the same prompt without faults. ``names``: of the rows."""
    rows = [_cost_row(names[0] or "this episode", example)]
    if twin := twin_of(example, calm):
        rows.append(_cost_row(names[1] or "the same prompt without faults", twin))
        rows.append(extra_row(example, twin))
    return rows


def extra_row(example: EpisodeCard, control: EpisodeCard, label: str = "difference") -> CostRow:
    """Return what the example cost more, or less, than its control; 0 s for a difference within the noise."""
    extra: dict[str, float | None] = {}
    for name in ("calls", "busy_s", "tokens", "usd"):
        one, other = example.row[name], control.row[name]
        extra[name] = None if one is None or other is None else round(one - other, 6)
    if abs(extra["busy_s"] or 0) < _MEASURABLE * control.row["busy_s"]:
        extra["busy_s"] = 0
    example.row["extra"] = extra

    def cell(name: str, text: str, same: str) -> Figure:
        value = extra[name]
        return example.figure("–" if value is None else text if value else same, "extra", name)

    calls, seconds = int(extra["calls"] or 0), extra["busy_s"] or 0.0
    tokens, usd = int(extra["tokens"] or 0), extra["usd"] or 0.0
    return CostRow(
        label,
        cell("calls", _signed(calls, count_text(abs(calls), "request"), "fewer"), "as many requests"),
        cell("busy_s", _signed(seconds, f"{abs(seconds):.3f} s", "less"), "no measurable difference in time"),
        cell("tokens", _signed(tokens, f"{abs(tokens)} model tokens", "fewer"), "as many tokens"),
        cell("usd", _signed(usd, f"{abs(usd):.4g} USD", "less"), "as much money"),
    )


def _signed(value: float, size: str, less: str) -> str:
    """A rise with its sign; a fall in words, since it is not a cost."""
    return f"{size} {less}" if value < 0 else f"+{size}"


def effect_text(
    rule: str, members: Sequence[tuple[EpisodeCard, Sequence[str], EpisodeCard | None]], where: str = ""
) -> Phrase:
    """Say how many writes were executed too often in how many episodes; empty for none.

    ``members``: episodes with the evidence of their findings, and their controls. Without a control each
    write is taken to be wanted once. Writes with one idempotency key count once. ``where``: added.
    """
    counts = [_extra_writes(*each) for each in members] if rule in WRITES else []
    extra, episodes = sum(counts), sum(count > 0 for count in counts)
    if not extra:
        return Phrase()
    example = members[0][0]
    rows = example.row.setdefault("extra_writes", [])
    rows.append({"writes": extra, "episodes": episodes})
    at = ("extra_writes", len(rows) - 1)
    parts: list[str] = [example.figure(count_text(extra, "extra write"), *at, "writes")]
    if episodes > 1:
        parts += [" in ", example.figure(count_text(episodes, "episode"), *at, "episodes")]
    return Phrase(*parts, where)


def _extra_writes(placed: EpisodeCard, evidence: Sequence[str], control: EpisodeCard | None) -> int:
    ids = set(map(bare_id, evidence))
    writes = [each for each in writes_in(placed.trace) if each.fate == "executed"]
    named = [each for each in writes if not ids.isdisjoint(map(bare_id, each.seen.ids))]
    if control is None:
        return max(len(_distinct(named)) - len({each.same for each in named}), 0)
    calls = {masked(each.call) for each in named}
    return max(_executed(placed, calls) - _executed(control, calls), 0)


def _executed(placed: EpisodeCard, calls: Container[str]) -> int:
    writes = [each for each in writes_in(placed.trace) if each.fate == "executed"]
    return len(_distinct(each for each in writes if masked(each.call) in calls))


def _distinct(writes: Iterable[Write]) -> set[str]:
    return {each.key or each.seen.ids[0] for each in writes}


def no_control(example: EpisodeCard, calm: Sequence[EpisodeCard]) -> str:
    return "" if twin_of(example, calm) else _NO_CONTROL


def twin_of(example: EpisodeCard, calm: Sequence[EpisodeCard]) -> EpisodeCard | None:
    """Return the first of these episodes that has the example's prompt."""
    return next((each for each in calm if each.key == example.key and each is not example), None)


def _cost_row(name: str, placed: EpisodeCard) -> CostRow:
    figures = placed.row
    tokens, usd = figures["tokens"], figures["usd"]
    no_tokens = (
        "tokens not reported"
        if any(each.of_model for each in placed.trace.requests)
        else "no model call seen"
    )
    return CostRow(
        name,
        placed.figure(count_text(figures["calls"], "request"), "calls"),
        placed.figure(f"{figures['busy_s']:.3f} s", "busy_s"),
        placed.figure(f"{tokens} model tokens" if tokens is not None else no_tokens, "tokens"),
        placed.figure(f"{usd:.4g} USD" if usd is not None else "money: no price set", "usd"),
    )
