"""The findings of a page: alike ones as one card, with who did it, its cost, and the cost without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wirefault.audit.groups import with_ranges
from wirefault.history.judged_events import SEVERITIES, Finding, Severity
from wirefault.history.reader import bare_id
from wirefault.judging.findings.conduct import masked
from wirefault.judging.findings.outcomes import OUTCOME_RULES
from wirefault.judging.layers import Layer
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.judging.subject_name import scripted_links
from wirefault.judging.trace import EpisodeTrace
from wirefault.report.fixes import HELPS, snippet_for
from wirefault.report.page.costs import WRITES, cost_rows, effect_text, no_control, twin_of
from wirefault.report.page.episode import EpisodeCard, Node, event_anchor
from wirefault.report.page.figures import repeating_layers
from wirefault.report.page.parts import FindingCard, count_text
from wirefault.report.page.phrase import Figure, Phrase, capitalised

_OUTCOME_RULES = frozenset(rule.name for rule in OUTCOME_RULES)
_ENDS = ("crash", "runaway")
"""Outcomes by which the agent ended without an answer."""
_EXIT = "exit code"
_MAX_ALSO = 100
"""Links to further episodes of a card."""
_WHO: Mapping[Layer, str] = {
    "model": "{model} asked for the call again",
    "step": "the agent repeated a larger step, by its own code or its framework",
    "code": "the agent's own code or HTTP client sent it again, with no model reply in between",
    "SDK": "the client's SDK sent it again",
}
_ACTOR_OF_LAYER: Mapping[Layer, str] = {
    "model": "model",
    "SDK": "agent's SDK",
    "step": "agent's repeated step",
    "code": "agent's code or HTTP client",
}
_SCRIPTED = "lab's scripted model"
_WHO_OF_ACTOR: Mapping[str, str] = {
    "agent": "the agent: its code{model}; the record does not show which",
    "model": "the model",
    _SCRIPTED: "a script of the lab, which replaces the agent's model",
    "tool's reply, faulted": "a tool's reply that the lab falsified, not the agent",
    "lab or server": "the lab or a server, not the agent",
    "lab": "the lab",
}
_OR_MODEL = (", its framework or the model", " or its framework (a script of the lab replaces its model)")
_REPETITIONS = (
    *WRITES,
    "hasty_retry",
    "retry_storm",
    "useless_retry",
    "layered_retries",
    "asked_again",
    "runaway",
)
"""Rules and outcomes about requests that were sent again, by the layer that did so."""
_MAX_REPLY, _MAX_CHANGED, _MAX_PLACES = 160, 3, 2
_ACTOR_OF_RULE: Mapping[str, str] = {
    "asked_again": "model",
    "misled": "tool's reply, faulted",
    "invalid": "lab or server",
}
"""Rules and outcomes that are not the agent's own doing."""


def finding_cards(
    placed: Sequence[EpisodeCard],
    calm: Sequence[EpisodeCard] = (),
    *,
    except_outcomes: frozenset[str] = frozenset(),
) -> list[FindingCard]:
    """Return a card for each rule and call, the worst first; then how the agent ended where none explains it.

    ``calm``: episodes without faults; what is grave in them alone has a card, too. ``except_outcomes`` have
    their cards already.
    """
    groups = _groups(placed, except_outcomes)
    numbers = {each.number for each in placed}
    others = [each for each in calm if each.number not in numbers]
    for key, members in _groups(others, except_outcomes).items():
        if key[0] in ("harmful", "risky"):
            groups.setdefault(key, members)
    cards = []
    for (severity, rule, _), members in groups.items():
        example, finding, place = members[0]
        alike = [each for each, _, _ in members]
        who = finding_layers(example.trace, finding.evidence)
        evidence = finding.evidence[0] if finding.evidence else ""
        cards.append(
            FindingCard(
                severity,
                rule,
                _text_of(members),
                _seen_text(alike, placed if example.number in numbers else [*placed, *others]),
                cost_rows(example, calm),
                HELPS.get(rule, ""),
                f"#{finding_anchor(example, evidence)}",
                example.command,
                example.repeat,
                actor := actor_of(rule, who, example.trace),
                who_text(actor, who, example),
                headline=example.figure(finding.headline, "findings", place, "headline"),
                snippet=snippet_for(finding),
                also=further(alike),
                no_control=no_control(example, calm),
                example=example_text(alike),
                injected=injected_text(example, finding.evidence),
                where=where_text(example, finding.evidence),
                replies=reply_texts(example, rule, finding.evidence),
                both_sides=changed_replies(example, finding.evidence),
                effect=effect_of(
                    rule, finding.evidence, [(each, twin_of(each, calm)) for each, _, _ in members]
                ),
                episode=episode_text(example),
            )
        )
    cards += _calm_cards(placed, calm, except_outcomes)
    return sorted(cards, key=lambda card: SEVERITIES.index(card.severity))


def _groups(
    episodes: Sequence[EpisodeCard], without: frozenset[str]
) -> dict[tuple[Severity, str, str], list[tuple[EpisodeCard, Finding, int]]]:
    """Return the findings with their episodes and places there, by severity, rule and call."""
    groups: dict[tuple[Severity, str, str], list[tuple[EpisodeCard, Finding, int]]] = {}
    for each in episodes:
        for place, finding in enumerate(each.findings):
            if finding.rule in without:
                continue
            of_outcome = finding.rule in _OUTCOME_RULES
            name = finding_call(each, finding.evidence) or ("" if of_outcome else masked(finding.text))
            groups.setdefault((finding.severity, finding.rule, name), []).append((each, finding, place))
    return groups


def _text_of(members: Sequence[tuple[EpisodeCard, Finding, int]]) -> Figure:
    """Return the findings' text as a figure of the first episode."""
    example, finding, place = members[0]
    text = in_ranges([each for _, each, _ in members])
    if text == finding.text:
        return example.figure(finding.text, "findings", place, "text")
    ranges = example.row.setdefault("ranges", [])
    ranges.append(text)
    return example.figure(text, "ranges", len(ranges) - 1)


def in_ranges(findings: Sequence[Finding]) -> str:
    """Return the first finding's text, with # and ranges where others differ in ids and durations."""
    texts = [each.text for each in findings]
    if len({masked(text) for text in texts}) > 1:
        return texts[0]
    words = zip(*(text.split() for text in texts), strict=True)
    shared = [
        [masked(each[0])] * len(texts) if "/" in each[0] and len(set(each)) > 1 else each for each in words
    ]
    return with_ranges([" ".join(each) for each in zip(*shared, strict=True)])


def _calm_cards(
    placed: Sequence[EpisodeCard], calm: Sequence[EpisodeCard], without: frozenset[str]
) -> Iterator[FindingCard]:
    """Yield a card for each way in which the agent ended without an answer or a verdict: facts, no findings.

    Only for episodes that no grave finding explains.
    """
    ended: dict[str, list[EpisodeCard]] = {}
    for each in placed:
        if not any(finding.severity in ("harmful", "risky") for finding in each.findings):
            if (outcome := each.judged.outcome) in _ENDS:
                ended.setdefault(outcome, []).append(each)
            elif each.exit_text and not each.is_judged:
                ended.setdefault(_EXIT, []).append(each)
    for name, alike in ended.items():
        if name in without:
            continue
        example = alike[0]
        fault = injected_text(example, ())
        failed = Phrase("the agent failed: ", example.figure(example.judged.why, "why"))
        yield FindingCard(
            "note",
            name,
            failed if name == _EXIT else outcome_text(name, example),
            _seen_text(alike, placed),
            cost_rows(example, calm),
            "" if name == _EXIT else HELPS[name],
            f"#{example.anchor}",
            example.command,
            example.repeat,
            "agent",
            "the agent's code ended it" + (f"; {fault}" if fault else "")
            if name == _EXIT
            else who_text("agent", (), example),
            label="failed" if name == _EXIT else name,
            also=further(alike),
            no_control=no_control(example, calm),
            example=example_text(alike),
            where=where_text(example, ()),
            episode=episode_text(example),
        )


def outcome_text(outcome: str, example: EpisodeCard | None) -> Phrase:
    """Name an outcome, its meaning and the example's reason."""
    row = OUTCOMES[outcome]  # type: ignore[index]
    parts: list[str] = [f"{outcome.replace('_', ' ')}: {row.meaning}"]
    if example is not None and example.judged.why:
        parts += ["; for example ", example.figure(example.judged.why, "why")]
    return Phrase(*parts)


def actor_of(rule: str, layers: Sequence[Layer] = (), trace: EpisodeTrace | None = None) -> str:
    """Return who did it: the layer that sent a request again, or the actor of the rule.

    ``trace``: of the episode, which shows whether a script of the lab replaced the model.
    """
    of_layer = [_ACTOR_OF_LAYER.get(layer, "agent") for layer in layers if rule in _REPETITIONS]
    actor = next(iter(of_layer), _ACTOR_OF_RULE.get(rule, "agent"))
    return _SCRIPTED if actor == "model" and trace is not None and _is_scripted(trace) else actor


def _is_scripted(trace: EpisodeTrace) -> bool:
    models = {request.link_name for request in trace.requests if request.of_model}
    return trace.run is not None and bool(models) and models <= scripted_links(trace.run)


def _seen_text(members: Sequence[EpisodeCard], placed: Sequence[EpisodeCard]) -> str:
    """Say in how many episodes it was seen, among all of the arms where it was."""
    episodes = {each.number: each for each in members}
    if len(placed) == 1:
        return "in this episode"
    arms = dict.fromkeys(each.arm for each in members)
    total = sum(each.arm in arms for each in placed)
    alike = members[0].row.setdefault("alike", [])
    at = ("alike", len(alike))
    names = ", ".join(arms)
    alike.append({"arms": names, "episodes": len(episodes), "of": total, "times": len(members)})
    example = members[0]
    parts: list[str] = ["arm ", example.figure(names, *at, "arms"), ": "] if total < len(placed) else []
    parts += ["in ", example.figure(len(episodes), *at, "episodes"), " of "]
    parts += [example.figure(count_text(total, "episode"), *at, "of")]
    if len(members) > len(episodes):
        parts += [", ", example.figure(f"{len(members)} times", *at, "times")]
    return Phrase(*parts)


def further(members: Sequence[EpisodeCard]) -> list[tuple[str, str]]:
    """Return number and link of the episodes after the first, each once."""
    episodes = list({each.number: each for each in members}.values())
    return [(each.figure(each.number, "number"), f"#{each.anchor}") for each in episodes[1 : _MAX_ALSO + 1]]


def finding_anchor(example: EpisodeCard, evidence: str) -> str:
    """Return the anchor of the finding's first event, or of the episode."""
    id = bare_id(evidence)
    links = [href for each in example.findings for name, href in example.evidence(each) if name == id]
    return links[0].removeprefix("#") if links else example.anchor


def finding_call(placed: EpisodeCard, evidence: Sequence[str]) -> str:
    """Return link and name of the first request in the evidence; empty without one."""
    request = placed.trace.first_request_in(evidence)
    return f"{request.link_name}: {masked(request.name)}" if request is not None else ""


def evidence_anchor(example: EpisodeCard, evidence: Sequence[str]) -> str:
    """Return the anchor of the first event in the evidence that is a request, or of the episode."""
    id = next((id for id in evidence if example.trace.requests_in([id])), "")
    return event_anchor(example.number, id) if id else example.anchor


def example_text(members: Sequence[EpisodeCard]) -> Phrase:
    """Name the first episode by number and prompt, and the longest one if it is another."""
    first, longest = members[0], max(members, key=lambda each: each.seconds)
    parts: list[str] = ["episode ", first.figure(first.number, "number")]
    parts += [": “", first.figure(first.title, "title"), "”"]
    if longest is not first:
        seconds = longest.figure(f"{longest.seconds:.2f} s", "seconds")
        parts += ["; the longest is episode ", longest.figure(longest.number, "number"), ", ", seconds]
    return Phrase(*parts)


def episode_text(example: EpisodeCard) -> str:
    return example.figure(f"episode {example.number}", "number")


def effect_of(
    rule: str,
    evidence: Sequence[str],
    alike: Sequence[tuple[EpisodeCard, EpisodeCard | None]],
    where: str = "",
) -> Phrase:
    """Say how many writes of the evidence's call were executed too often, in all episodes alike.

    ``alike``: each with its control; the first one has this evidence.
    """
    call = finding_call(alike[0][0], evidence)
    episodes = {each.number: (each, control) for each, control in alike}.values()
    members = [(each, _evidence(each, rule, call), control) for each, control in episodes]
    return effect_text(rule, members, where)


def _evidence(placed: EpisodeCard, rule: str, call: str) -> list[str]:
    alike = [each for each in placed.findings if each.rule == rule]
    return [id for each in alike if finding_call(placed, each.evidence) == call for id in each.evidence]


def injected_text(example: EpisodeCard, evidence: Sequence[str]) -> str:
    """Say which faults the lab injected into which calls: those of the evidence, else all; maybe empty."""
    pairs = [f"{fault} into {place}" for fault, place in _injected(example, evidence)]
    return f"the lab injected {', '.join(dict.fromkeys(pairs))}" if pairs else ""


def where_text(example: EpisodeCard, evidence: Sequence[str]) -> str:
    """Name the calls or connections that the lab faulted, else the first call of the evidence."""
    places = dict.fromkeys(place for _, place in _injected(example, evidence))
    return ", ".join(list(places)[:_MAX_PLACES]) or finding_call(example, evidence)


def _injected(example: EpisodeCard, evidence: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each injected fault and its place, of the evidence's requests if it has faulted ones."""
    faulted = [request for request in example.trace.requests if request.injected]
    for request in causing_requests(example, evidence) or faulted:
        for fault in request.injected:
            yield fault.kind, f"{request.link_name}: {masked(request.name)}"
    for record in example.judged.faults:
        if record.source == "toxic" and record.delivered:
            yield record.kind, f"the connections of {record.link}"


def culprit_text(card: FindingCard) -> list[str]:
    """Return the parts of two sentences without the last full stop: who did what, and the lab's fault."""
    return [card.title, *([". ", capitalised(card.injected)] if card.injected else [])]


def causing_requests(placed: EpisodeCard, evidence: Sequence[str]) -> list[Request]:
    """Return the faulted requests of a finding's evidence, by which the lab may have caused it.

    The last of several is what the agent did then: its fault came too late.
    """
    named = placed.trace.requests_in(evidence)
    faulted = [request for request in named if request.injected]
    return [each for each in faulted if each is not named[-1]] or faulted


def who_text(actor: str, layers: Sequence[Layer], example: EpisodeCard | None) -> str:
    """Say who acted, and who injected the fault."""
    model = _SCRIPTED if example is not None and _is_scripted(example.trace) else "model"
    is_layer = actor == _SCRIPTED or actor in _ACTOR_OF_LAYER.values()
    which = (
        " or its framework, as a script of the lab replaces its model"
        if model == _SCRIPTED
        else ", its framework or the model"
    )
    who = (repeated_text(layers, model) if is_layer else "") or _WHO_OF_ACTOR.get(actor, "").format(
        model=which
    )
    faults = ", ".join(example.faults) if example is not None else ""
    return f"{who}; the lab injected {faults}" if who and faults else who


def reply_texts(example: EpisodeCard, rule: str, evidence: Sequence[str]) -> list[str]:
    """Return what the upstream replied to each request of a repeated write, shortened; else nothing."""
    if rule not in WRITES:
        return []
    anchors = [event_anchor(example.number, id) for id in evidence]
    nodes = {node.anchor: node for node in _all_nodes(example.nodes)}
    texts = []
    for node in (nodes[anchor] for anchor in anchors if anchor in nodes):
        reply = next((child.line.text for child in node.children if child.line.kind == "got"), "")
        text = " ".join(("".join(node.sides.upstream) if node.sides else reply).split())
        if text:
            texts.append(text if len(text) <= _MAX_REPLY else f"{text[:_MAX_REPLY]} ...")
    return texts


def changed_replies(example: EpisodeCard, evidence: Sequence[str]) -> list[Node]:
    """Return the requests of the evidence whose reply the lab changed, else the first such one of all.

    Their sides are cut to the lines around the difference.
    """
    anchors = {event_anchor(example.number, id) for id in evidence}
    changed = [
        replace(node, sides=node.sides.near_difference()) for node in _all_nodes(example.nodes) if node.sides
    ]
    of_evidence = [node for node in changed if not anchors.isdisjoint((node.anchor, *node.others))]
    return of_evidence[:_MAX_CHANGED] or changed[:1]


def _all_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _all_nodes(node.children)


def finding_layers(trace: EpisodeTrace, evidence: Sequence[str]) -> list[Layer]:
    """Return the layers that sent the requests of a finding again; empty if none was repeated."""
    known = repeating_layers(trace)
    layers = (known.get(id(each)) for each in trace.requests_in(evidence))
    return list(dict.fromkeys(layer for layer in layers if layer))


def repeated_text(layers: Sequence[Layer], model: str = "model") -> str:
    """Say who sent a request again; empty if none was. ``model``: the name of the model."""
    return "; ".join(_WHO[layer].format(model=f"the {model}") for layer in layers)
