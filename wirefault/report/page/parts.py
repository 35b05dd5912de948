"""The parts of a page: what it has, and the findings, charts and tables that all pages share."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from wirefault._version import __version__
from wirefault.experiments.evidence import Evidence
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm
from wirefault.history.reader import read_run
from wirefault.judging.account import FaultAccount
from wirefault.judging.checker import SEVERITIES, Severity
from wirefault.judging.findings.conduct import masked
from wirefault.judging.findings.finding import Finding
from wirefault.judging.judge import EpisodeJudgement, judge_run
from wirefault.judging.layers import LAYERS, Layer, layer_of
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.requests import Request
from wirefault.judging.summary import Summary, summary_of
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import model_usage
from wirefault.report.next_command import episode_command, repeat_command
from wirefault.report.page.episode import EpisodeCard, RecordedEpisode, episode_card
from wirefault.report.page.helps import HELPS
from wirefault.report.page.svg import (
    IntervalRow,
    Share,
    StackedRow,
    intervals,
    stacked_bars,
)
from wirefault.settings.settings import Settings
from wirefault.stats.rates import Difference, percentile

Tone = Literal["good", "bad", "risk", "open"]
WORDS: Mapping[Severity, str] = {"harmful": "HARM", "risky": "RISK", "wasteful": "WASTE", "note": "note"}
VERDICT_TONES: Mapping[str, Tone] = {
    "held": "good",
    "deviated": "bad",
    "unknown": "open",
    "aborted": "open",
}
_CONFIDENCE = 0.95
_STAGES = ("eligible", "drawn", "armed", "met", "injected", "observed", "delivered")
_SEVERITY_BY_TONE: Mapping[str, Severity] = {"harmful": "harmful", "ended": "risky"}
_MAX_SETTING = 60
_MIN_MS = 0.1
"""Shorter durations are drawn as this long."""


@dataclass(frozen=True)
class FindingCard:
    """Findings in the same words, apart from numbers."""

    severity: Severity
    rule: str
    text: str
    seen: str
    """How often, in words."""
    cost: str
    """Time, requests and tokens of the example, in words."""
    helps: str
    """One sentence, empty for notes."""
    href: str
    """The event of the example that shows it."""
    command: str
    """Shows the example on the console."""
    repeat: str = ""
    """Runs the example again."""
    who: str = ""
    """Who sent a request again, in words."""
    label: str = ""
    """Replaces the severity's word."""

    @property
    def word(self) -> str:
        return self.label or WORDS[self.severity]


@dataclass(frozen=True)
class Cell:
    """One word of the matrix."""

    word: str
    tone: str
    href: str = ""


@dataclass(frozen=True)
class Matrix:
    """A table of words: a row for each question, fault or statement; a column for each call or arm."""

    title: str
    corner: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]


@dataclass(frozen=True)
class Chart:
    """A picture with its sentence."""

    title: str
    says: str
    picture: Markup


@dataclass(frozen=True)
class Table:
    """Figures as text; the first column is a name."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class PageContent:
    """Everything on one page."""

    id: str
    title: str
    kind: Literal["run", "experiment", "audit", "comparison"]
    tone: Tone
    verdict: str
    sentence: str
    facts: Sequence[tuple[str, str]]
    commands: Sequence[tuple[str, str]]
    """What each command does, and the command."""
    findings: Sequence[FindingCard]
    matrix: Matrix | None
    charts: Sequence[Chart]
    tables: Sequence[Table]
    episodes: Sequence[EpisodeCard]
    provenance: Sequence[tuple[str, str]]
    remarks: Sequence[str] = ()


@dataclass
class Episodes:
    """Collects the cards of all arms, numbered in their order."""

    logs: Path
    recording_id: str
    cards: list[EpisodeCard] = field(default_factory=list)
    summaries: dict[str, Summary] = field(default_factory=dict)
    """By arm."""

    def add_arm(self, arm: RecordedArm, *, shown_arm: str = "") -> list[Placed]:
        """Add the last run of each episode of an arm. ``shown_arm``: the arm's name in commands."""
        latest, self.summaries[arm.name] = judged_episodes(arm)
        name = "" if arm.name == PLAIN_RUN else arm.name
        return [
            self.add(latest[key], arm=name, shown_arm=shown_arm)
            for key in filter(latest.__contains__, arm.episodes)
        ]

    def add(
        self,
        episode: RecordedEpisode,
        *,
        arm: str = "",
        shown_arm: str = "",
        recording_id: str = "",
        word: str = "",
        tone: str = "",
        title: str = "",
    ) -> Placed:
        """Add one episode. ``word``, ``tone``, ``title``: in place of its outcome and prompt.

        ``recording_id``: where it is recorded, if not with the others.
        """
        number, key = len(self.cards) + 1, episode.judged.episode
        recording_id = recording_id or self.recording_id
        card = episode_card(
            number,
            episode,
            arm=arm,
            command=episode_command(recording_id, key, self.logs, arm=shown_arm),
            repeat=repeat_command(recording_id, key, self.logs, arm=shown_arm),
            word=word,
            tone=tone,
            title=title,
        )
        self.cards.append(card)
        return Placed(card, episode)


@dataclass(frozen=True)
class Placed:
    """An episode with its card."""

    card: EpisodeCard
    episode: RecordedEpisode

    @property
    def trace(self) -> EpisodeTrace:
        return self.episode.trace

    @property
    def judged(self) -> EpisodeJudgement:
        return self.episode.judged

    @property
    def findings(self) -> Sequence[Finding]:
        return self.episode.findings


def judged_episodes(arm: RecordedArm) -> tuple[dict[str, RecordedEpisode], Summary]:
    """Return the last run of each episode of an arm, by its key, and the arm's summary."""
    latest: dict[str, RecordedEpisode] = {}
    for run_id in arm.run_ids:
        judgement = judge_run(read_run(arm.logs, run_id)).by_control(arm.control)
        findings: dict[str, list[Finding]] = defaultdict(list)
        for finding in judgement.findings:
            findings[finding.episode].append(finding)
        for judged in judgement.episodes:
            key = judged.episode
            latest[key] = RecordedEpisode(run_id, judgement.traces[key], judged, findings[key])
    return latest, summary_of(judgement) if len(arm.run_ids) == 1 else arm.summary


def finding_cards(placed: Sequence[Placed], calm: Sequence[Placed] = ()) -> list[FindingCard]:
    """Group the findings by rule, severity and words apart from numbers, the worst first."""
    groups: dict[tuple[Severity, str, str], list[tuple[Placed, Finding]]] = {}
    for each in placed:
        for finding in each.findings:
            groups.setdefault((finding.severity, finding.rule, masked(finding.text)), []).append(
                (each, finding)
            )
    cards = []
    for (severity, rule, _), members in groups.items():
        example, finding = members[0]
        episodes = len({id(each) for each, _ in members})
        evidence = finding.evidence[0] if finding.evidence else ""
        cards.append(
            FindingCard(
                severity,
                rule,
                finding.text,
                f"in {episodes} of {len(placed)} episodes" if len(placed) > 1 else "in this episode",
                _cost_text(example, calm),
                HELPS.get(rule, ""),
                f"#{_finding_anchor(example.card, evidence)}",
                example.card.command,
                example.card.repeat,
                who_repeated(example, finding.evidence),
            )
        )
    return sorted([*cards, *_outcome_cards(placed, calm)], key=lambda card: SEVERITIES.index(card.severity))


def _outcome_cards(placed: Sequence[Placed], calm: Sequence[Placed]) -> Iterator[FindingCard]:
    """Yield a card for each harmful outcome of episodes that no grave finding explains."""
    unexplained = [
        each for each in placed if not any(f.severity in ("harmful", "risky") for f in each.findings)
    ]
    for outcome, row in OUTCOMES.items():
        severity = _SEVERITY_BY_TONE.get(row.tone)
        alike = [each for each in unexplained if each.judged.outcome == outcome]
        if severity is None or not alike:
            continue
        example = alike[0]
        because = f"; for example {example.judged.why}" if example.judged.why else ""
        yield FindingCard(
            severity,
            outcome,
            f"{outcome.replace('_', ' ')}: {row.meaning}{because}",
            f"in {len(alike)} of {len(placed)} episodes" if len(placed) > 1 else "in this episode",
            _cost_text(example, calm),
            HELPS.get(outcome, ""),
            f"#{example.card.anchor}",
            example.card.command,
            example.card.repeat,
        )


def _finding_anchor(card: EpisodeCard, evidence: str) -> str:
    """Return the anchor of the finding's first event, or of the episode."""
    id = evidence.rpartition("/")[2]
    links = [href for line in card.findings for name, href in line.evidence if name == id]
    return links[0].removeprefix("#") if links else card.anchor


def _cost_text(example: Placed, calm: Sequence[Placed]) -> str:
    """Say what the example episode took, and what the control took for the same prompt."""
    tokens = _tokens(example.trace)
    parts = [size_text(example)]
    parts += [f"{tokens} model tokens"] if tokens else []
    text = ", ".join(parts)
    twins = [each for each in calm if each.card.key == example.card.key]
    if not twins:
        return text
    twin = twins[0]
    return f"{text}; without faults {size_text(twin)}"


def size_text(placed: Placed) -> str:
    return f"{placed.card.seconds:.1f} s, {count_text(placed.card.requests, 'request')}"


def _tokens(trace: EpisodeTrace) -> int:
    usage = model_usage(trace.events)
    return (usage.tokens_in or 0) + (usage.tokens_out or 0)


def faults_text(rows: Sequence[FaultAccount]) -> str:
    by_links: dict[str, list[str]] = {}
    for row in rows:
        by_links.setdefault(", ".join(row.links) or "no link", []).append(row.name)
    return "; ".join(f"{', '.join(names)} on {links}" for links, names in by_links.items()) or "no faults"


def outcome_chart(by_arm: Mapping[str, Sequence[Placed]]) -> Iterator[Chart]:
    rows = []
    for name, placed in by_arm.items():
        counts = Counter(each.judged.outcome for each in placed)
        shares = [Share(outcome, counts[outcome]) for outcome in OUTCOMES if counts[outcome]]
        label = (
            f"{name}, {count_text(len(placed), 'episode')}" if name else count_text(len(placed), "episode")
        )
        rows.append(StackedRow(label, shares))
    if rows and any(row.shares for row in rows):
        yield Chart(
            "Outcomes",
            "How the episodes ended, from best to worst.",
            stacked_bars(rows, "Outcomes", "episodes"),
        )


def points_row(label: str, rise: Difference, more: str = "") -> IntervalRow:
    """Return the row of a difference of success rates, in percentage points."""
    low, high, value = (100 * share for share in (rise.low, rise.high, rise.value))
    return IntervalRow(
        label, low, high, value, f"{value:+.3g} points, n = {rise.n}{more}", "worse" if high < 0 else ""
    )


def latency_chart(placed: Sequence[Placed]) -> Iterator[Chart]:
    """Draw the duration of requests by link, with and without an injected fault."""
    rows = []
    for (link, faulted), requests in _requests_by_link(placed):
        times = [max(request.ms, _MIN_MS) for _, request in requests]
        middle = percentile(times, 50)
        assert middle is not None
        name = f"{link}, {'with a fault' if faulted else 'without faults'}"
        note, kind = f"median {_ms(middle)}, n = {len(times)}", "fault" if faulted else ""
        rows.append(IntervalRow(name, min(times), max(times), middle, note, kind))
    if rows:
        says = (
            "From the shortest to the longest request, with a dot at the median, by orders of magnitude;"
            " failed requests are included."
        )
        title = "Duration of requests by link"
        yield Chart(title, says, intervals(rows, title, "ms", logarithm=True))


def request_table(placed: Sequence[Placed]) -> Iterator[Table]:
    """One row for each link, with and without an injected fault: failures, tokens, and who sent again."""
    rows = []
    for (link, faulted), requests in _requests_by_link(placed):
        exchanges = [request.exchange for _, request in requests if request.exchange is not None]
        tokens = [
            (each.tokens_in or 0) + (each.tokens_out or 0) for each in exchanges if each.tokens_in is not None
        ]
        again = Counter(layer for each, request in requests if (layer := _repeating_layer(each, request)))
        rows.append(
            [
                link,
                "with a fault" if faulted else "without faults",
                str(len(requests)),
                str(sum(not request.succeeded for _, request in requests)),
                str(sum(tokens)) if tokens else "-",
                ", ".join(f"{layer} {again[layer]}" for layer in LAYERS if again[layer]) or "-",
            ]
        )
    if rows:
        columns = ("link", "", "requests", "failed", "model tokens", "sent again by")
        note = (
            "sent again by: the layer that repeated an equal request; the SDK marks its retries,"
            " the code repeats with no model reply in between"
        )
        yield Table("Requests by link", columns, rows, note)


def _requests_by_link(
    placed: Sequence[Placed],
) -> list[tuple[tuple[str, bool], list[tuple[Placed, Request]]]]:
    groups: dict[tuple[str, bool], list[tuple[Placed, Request]]] = defaultdict(list)
    for each in placed:
        for request in each.trace.requests:
            groups[request.link_name, bool(request.injected)].append((each, request))
    return sorted(groups.items())


_WHO: Mapping[Layer, str] = {
    "model": "the model asked for the call again",
    "framework": "the agent's framework repeated it",
    "code": "the agent's own code or HTTP client sent it again, with no model reply in between",
    "SDK": "the client's SDK sent it again",
}


def who_repeated(placed: Placed, evidence: Sequence[str]) -> str:
    """Say who sent the requests of a finding again; empty if none was repeated."""
    ids = {id.rpartition("/")[2] for id in evidence}
    requests = [
        request
        for request in placed.trace.requests
        if not ids.isdisjoint(id.rpartition("/")[2] for id in request.ids)
    ]
    layers = dict.fromkeys(layer for each in requests if (layer := _repeating_layer(placed, each)))
    return "; ".join(_WHO[layer] for layer in layers)


def _repeating_layer(placed: Placed, request: Request) -> Layer | None:
    """Return the layer that sent the request after an equal one of its attempt; None for a first one."""
    for group in placed.trace.repeated:
        if request in group[1:]:
            return layer_of(placed.trace, group[group.index(request) - 1], request)
    return None


def _ms(value: float) -> str:
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.3g} ms"


def fault_tables(rows_by_arm: Mapping[str, Sequence[FaultAccount]]) -> Iterator[Table]:
    """One row for each fault entry of each arm: how many reached each stage."""
    names = list(filter(None, rows_by_arm))
    rows = [
        [
            *([arm] if names else []),
            *(row.name, row.kind, ", ".join(row.links)),
            *("unknown" if (n := getattr(row, stage)) is None else str(n) for stage in _STAGES),
        ]
        for arm, accounts in rows_by_arm.items()
        for row in accounts
    ]
    if rows:
        yield Table("Faults", (*(["arm"] if names else []), "entry", "kind", "links", *_STAGES), rows)


def provenance(name: str, evidence: Evidence, summary: Summary) -> list[tuple[str, str]]:
    changed = {name: value for name, value in summary.settings.items() if _is_changed(name, value)}
    settings = ", ".join(f"{name} {value}" for name, value in changed.items()) or "the defaults"
    return [
        ("id", name),
        ("evidence", evidence.text),
        ("wirefault", __version__),
        ("python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
        ("run", summary.run_id),
        ("lab", summary.lab_id),
        ("settings that differ from the defaults", settings),
    ]


def _is_changed(name: str, value: object) -> bool:
    """Whether a setting differs from its default and fits on a line."""
    declared = Settings.model_fields.get(name)
    default = declared.get_default(call_default_factory=True) if declared else None
    return value != default and str(value) != str(default) and len(str(value)) <= _MAX_SETTING


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
