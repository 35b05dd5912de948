"""The findings of a page: alike ones as one card, with who did it, its cost, and the cost without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wirefault.judging.checker import SEVERITIES, Severity
from wirefault.judging.findings.conduct import masked
from wirefault.judging.findings.finding import Finding
from wirefault.judging.layers import Layer
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.report.page.episode import event_anchor
from wirefault.report.page.figures import repeating_layer
from wirefault.report.page.helps import HELPS
from wirefault.report.page.parts import CostRow, FindingCard, Placed, count_text
from wirefault.report.page.phrase import Phrase

_SEVERITY_BY_TONE: Mapping[str, Severity] = {"harmful": "harmful", "ended": "risky"}
_MAX_ALSO = 12
"""Links to further episodes of a card."""
_WHO: Mapping[Layer, str] = {
    "model": "the model asked for the call again",
    "framework": "the agent's framework repeated it",
    "code": "the agent's own code or HTTP client sent it again, with no model reply in between",
    "SDK": "the client's SDK sent it again",
}
_ACTOR_OF_LAYER: Mapping[Layer, str] = {"model": "model", "SDK": "agent's SDK"}
_ACTOR_OF_RULE: Mapping[str, str] = {
    "asked_again": "model",
    "misled": "tool's reply, faulted",
    "invalid": "lab or server",
}
"""Rules and outcomes that are not the agent's own doing."""
_NO_CONTROL = "not compared: no run of this prompt without faults is recorded here"


def finding_cards(
    placed: Sequence[Placed], calm: Sequence[Placed] = (), *, except_outcomes: frozenset[str] = frozenset()
) -> list[FindingCard]:
    """Return a card for each rule and call, the worst first; then outcomes that no grave finding explains.

    ``calm``: episodes without faults. ``except_outcomes`` have their cards already.
    """
    groups: dict[tuple[Severity, str, str], list[tuple[Placed, Finding, int]]] = {}
    for each in placed:
        for place, finding in enumerate(each.findings):
            name = finding_call(each, finding.evidence) or masked(finding.text)
            groups.setdefault((finding.severity, finding.rule, name), []).append((each, finding, place))
    cards = []
    for (severity, rule, _), members in groups.items():
        example, finding, place = members[0]
        who = repeating_layers(example, finding.evidence)
        evidence = finding.evidence[0] if finding.evidence else ""
        cards.append(
            FindingCard(
                severity,
                rule,
                example.figure(finding.text, "findings", place, "text"),
                _seen_text([each for each, _, _ in members], placed),
                cost_rows(example, calm),
                HELPS.get(rule, ""),
                f"#{finding_anchor(example, evidence)}",
                example.card.command,
                example.card.repeat,
                actor_of(rule, who),
                repeated_text(who),
                also=further([each for each, _, _ in members]),
                no_control=no_control(example, calm),
            )
        )
    cards += _outcome_cards(placed, calm, except_outcomes)
    return sorted(cards, key=lambda card: SEVERITIES.index(card.severity))


def _outcome_cards(
    placed: Sequence[Placed], calm: Sequence[Placed], without: frozenset[str]
) -> Iterator[FindingCard]:
    """Yield a card for each harmful outcome of episodes that no grave finding explains."""
    unexplained = [
        each for each in placed if not any(f.severity in ("harmful", "risky") for f in each.findings)
    ]
    for outcome, row in OUTCOMES.items():
        severity = _SEVERITY_BY_TONE.get(row.tone)
        alike = [each for each in unexplained if each.judged.outcome == outcome]
        if severity is None or not alike or outcome in without:
            continue
        example = alike[0]
        yield FindingCard(
            severity,
            outcome,
            outcome_text(outcome, example),
            _seen_text(alike, placed),
            cost_rows(example, calm),
            HELPS.get(outcome, ""),
            f"#{example.card.anchor}",
            example.card.command,
            example.card.repeat,
            actor_of(outcome),
            also=further(alike),
            no_control=no_control(example, calm),
        )


def outcome_text(outcome: str, example: Placed | None) -> Phrase:
    """Name an outcome, its meaning and the example's reason."""
    row = OUTCOMES[outcome]  # type: ignore[index]
    parts: list[str] = [f"{outcome.replace('_', ' ')}: {row.meaning}"]
    if example is not None and example.judged.why:
        parts += ["; for example ", example.figure(example.judged.why, "why")]
    return Phrase(*parts)


def actor_of(rule: str, layers: Sequence[Layer] = ()) -> str:
    """Return who did it: the layer that sent a request again, or the actor of the rule."""
    if layers:
        return _ACTOR_OF_LAYER.get(layers[0], "agent")
    return _ACTOR_OF_RULE.get(rule, "agent")


def _seen_text(members: Sequence[Placed], placed: Sequence[Placed]) -> str:
    episodes = {each.card.number: each for each in members}
    if len(placed) == 1:
        return "in this episode"
    times = "" if len(members) == len(episodes) else f", {len(members)} times"
    return f"in {len(episodes)} of {len(placed)} episodes{times}"


def further(members: Sequence[Placed]) -> list[tuple[str, str]]:
    """Return number and link of the episodes after the first, each once."""
    episodes = list({each.card.number: each for each in members}.values())
    return [
        (each.figure(each.card.number, "number"), f"#{each.card.anchor}")
        for each in episodes[1 : _MAX_ALSO + 1]
    ]


def finding_anchor(example: Placed, evidence: str) -> str:
    """Return the anchor of the finding's first event, or of the episode."""
    id = evidence.rpartition("/")[2]
    links = [href for line in example.card.findings for name, href in line.evidence if name == id]
    return links[0].removeprefix("#") if links else example.card.anchor


def finding_call(placed: Placed, evidence: Sequence[str]) -> str:
    """Return link and name of the first request in the evidence; empty without one."""
    ids = [id.rpartition("/")[2] for id in evidence]
    by_id = {id.rpartition("/")[2]: request for request in placed.trace.requests for id in request.ids}
    request = next((by_id[id] for id in ids if id in by_id), None)
    return f"{request.link_name}: {masked(request.name)}" if request is not None else ""


def evidence_anchor(example: Placed, evidence: Sequence[str]) -> str:
    """Return the anchor of the first event in the evidence that is a request, or of the episode."""
    ids = {id.rpartition("/")[2] for request in example.trace.requests for id in request.ids}
    bare = next((id.rpartition("/")[2] for id in evidence if id.rpartition("/")[2] in ids), "")
    return event_anchor(example.card.number, bare) if bare else example.card.anchor


def cost_rows(example: Placed, calm: Sequence[Placed], names: tuple[str, str] = ("", "")) -> list[CostRow]:
    """Return the cost of the example, and of the same prompt without faults. ``names``: of the rows."""
    twins = [each for each in calm if each.card.key == example.card.key and each is not example]
    rows = [_cost_row(names[0] or "this episode", example)]
    return rows + [_cost_row(names[1] or "the same prompt without faults", each) for each in twins[:1]]


def no_control(example: Placed, calm: Sequence[Placed]) -> str:
    has_twin = any(each.card.key == example.card.key and each is not example for each in calm)
    return "" if has_twin else _NO_CONTROL


def _cost_row(name: str, placed: Placed) -> CostRow:
    figures = placed.row
    tokens, usd = figures["tokens"], figures["usd"]
    return CostRow(
        name,
        placed.figure(count_text(figures["calls"], "call"), "calls"),
        placed.figure(f"{figures['seconds']:.2f} s", "seconds"),
        placed.figure(f"{tokens} model tokens" if tokens is not None else "tokens not reported", "tokens"),
        placed.figure(f"{usd:.4g} USD" if usd is not None else "money: no price set", "usd"),
    )


def repeating_layers(placed: Placed, evidence: Sequence[str]) -> list[Layer]:
    """Return the layers that sent the requests of a finding again; empty if none was repeated."""
    ids = {id.rpartition("/")[2] for id in evidence}
    requests: list[Request] = [
        request
        for request in placed.trace.requests
        if not ids.isdisjoint(id.rpartition("/")[2] for id in request.ids)
    ]
    layers = (repeating_layer(placed.trace, each) for each in requests)
    return list(dict.fromkeys(layer for layer in layers if layer))


def repeated_text(layers: Sequence[Layer]) -> str:
    """Say who sent a request again; empty if none was."""
    return "; ".join(_WHO[layer] for layer in layers)
