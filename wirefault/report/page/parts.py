"""The parts of a page, and the episodes on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from markupsafe import Markup

from wirefault.experiments.index import early_word
from wirefault.experiments.plan import PLAIN_RUN
from wirefault.experiments.recorded import RecordedArm, Recording
from wirefault.history.judged_events import Severity
from wirefault.judging.ending import CAN_RESUME, FINE, FOUND
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.summary import Summary
from wirefault.report.fixes import WORDS
from wirefault.report.next_command import episode_command, repeat_command, with_folder
from wirefault.report.page.episode import EpisodeCard, Node
from wirefault.report.page.figures import episode_figures

Tone = Literal["good", "bad", "risk", "open"]
VERDICT_TONES: Mapping[str, Tone] = {
    "held": "good",
    "deviated": "bad",
    "unknown": "open",
    "aborted": "open",
    FOUND["harmful"]: "bad",
    FOUND["risky"]: "risk",
    FINE: "good",
}


def early_verdict(word: str, worst: str) -> tuple[str, Tone]:
    """Return the verdict of a recording without its end: its word, and beside it the worst finding so far."""
    alone = next((each for severity, each in FOUND.items() if worst.startswith(severity)), "")
    return f"{word}; worst finding so far: {worst or 'none'}", VERDICT_TONES.get(alone, "open")


def resume_commands(recording: Recording) -> list[tuple[str, str]]:
    """Return the command that runs the rest of a recording that was interrupted or ended early."""
    saved = recording.experiment
    if saved is None or early_word(saved.logs, recording.id) not in CAN_RESUME:
        return []
    return [("resume it", with_folder(saved.resume_command, saved.logs))]


@dataclass(frozen=True)
class CostRow:
    """The cost of an episode: the faulted one, or its counterpart without faults."""

    name: str
    calls: str
    seconds: str
    tokens: str
    money: str


@dataclass(frozen=True)
class FindingCard:
    """Findings that are alike: of the same rule about the same call."""

    severity: Severity
    rule: str
    text: str
    """The evidence, in one sentence."""
    seen: str
    """How often, in words."""
    costs: Sequence[CostRow]
    """Of the example, then of the same prompt without faults."""
    helps: str
    """One sentence, empty for notes."""
    href: str
    """The event of the example that shows it."""
    command: str
    """Shows the example on the console."""
    repeat: str = ""
    """Runs the example again."""
    actor: str = ""
    """Who did it: agent, model, tool, SDK or lab."""
    who: str = ""
    """Who sent a request again, in words."""
    episode: str = ""
    """The example by number; its calls and time are the ones that the top of the page names."""
    effect: str = ""
    """The writes that were executed too often, counted."""
    headline: str = ""
    """Who did what; empty where ``text`` says it."""
    snippet: str = ""
    """Code that helps, for the client that was seen."""
    label: str = ""
    """Replaces the severity's word."""
    also: Sequence[tuple[str, str]] = ()
    """Number and link of further episodes that show it."""
    no_control: str = ""
    """Why its cost is compared with nothing."""
    example: str = ""
    """Number and prompt of the episode that shows it, and of the longest one."""
    injected: str = ""
    """The lab's part in the example."""
    replies: Sequence[str] = ()
    """Bodies of the replies to a repeated write, shortened."""
    other_side: str = ""
    """Of a comparison: what the same episode did in the other recording."""
    other_replies: Sequence[str] = ()
    """Of a comparison: bodies of the replies to a write that was repeated there, shortened."""
    where: str = ""
    """The faulted calls of the example: link and call."""
    both_sides: Sequence[Node] = ()
    """Requests of the example whose reply the lab changed: as upstream and agent saw it."""

    @property
    def word(self) -> str:
        return self.label or WORDS[self.severity]

    @property
    def title(self) -> str:
        return self.headline or self.text

    @property
    def extra(self) -> CostRow | None:
        """The difference of the costs to the control; None without a control."""
        return self.costs[-1] if len(self.costs) > 1 else None


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
    folded: bool = False
    """Whether it is shown only when opened."""
    fold_note: str = "with intervals"
    """Added to the title in the line that opens it."""


@dataclass(frozen=True)
class PageContent:
    """Everything on one page."""

    id: str
    title: str
    kind: Literal["run", "experiment", "search", "audit", "comparison", "trend", "memory"]
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
    leading: Sequence[Table] = ()
    """Tables before the matrix: what to do next."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The figures as data, as in ``--json``."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """The further part of ``--json`` that the page shows: an audit's answers."""
    opened: int = 0
    """The episode that is open at first, from 1; 0 for none."""

    @property
    def overview(self) -> Sequence[FindingCard]:
        """The cards that are more than notes, which the top of the page lists."""
        return [card for card in self.findings if card.severity != "note"]


@dataclass
class Episodes:
    """Collects the cards of all arms, numbered in their order."""

    logs: Path
    recording_id: str
    cards: list[EpisodeCard] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The figures of each card."""
    summaries: dict[str, Summary] = field(default_factory=dict)
    """By arm."""

    def add_arm(self, arm: RecordedArm, *, shown_arm: str = "") -> list[EpisodeCard]:
        """Add the last run of each episode of an arm. ``shown_arm``: the arm's name in commands."""
        latest, self.summaries[arm.name] = judged_episodes(arm)
        name = "" if arm.name == PLAIN_RUN else arm.name
        return [
            self.add(latest[key], arm=name, shown_arm=shown_arm)
            for key in filter(latest.__contains__, arm.episodes)
        ]

    def add(
        self,
        episode: JudgedEpisode,
        *,
        arm: str = "",
        shown_arm: str = "",
        recording_id: str = "",
        answer: tuple[str, str, str] | None = None,
    ) -> EpisodeCard:
        """Add one episode. ``answer``: see ``EpisodeCard``.

        ``recording_id``: where it is recorded, if not with the others.
        """
        number, key = len(self.cards) + 1, episode.judged.episode
        recording_id = recording_id or self.recording_id
        command = episode_command(recording_id, key, self.logs, arm=shown_arm)
        repeat = repeat_command(recording_id, key, self.logs, arm=shown_arm)
        row = {"number": number, "title": "", **episode_figures(arm, episode)}
        judged = episode.trace, episode.judged, episode.findings
        card = EpisodeCard(*judged, number, arm, row, command, repeat, answer)
        row["title"] = card.title
        self.cards.append(card)
        self.rows.append(row)
        return card


def judged_episodes(arm: RecordedArm) -> tuple[dict[str, JudgedEpisode], Summary]:
    """Return the last run of each episode of an arm, by its key, and the arm's summary."""
    latest: dict[str, JudgedEpisode] = {}
    for judgement in arm.judgements.values():
        latest |= judgement.by_episode
    return latest, arm.summary


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def first_to_open(cards: Sequence[FindingCard], placed: Sequence[EpisodeCard]) -> int:
    """Return the number of the episode that a reader needs first: of the worst card, else one with a fault.

    0 without episodes.
    """
    anchors = {each.anchor: each.number for each in placed}
    for card in cards:
        number = anchors.get("/".join(card.href.removeprefix("#").split("/")[:2]))
        if number:
            return number
    faulted = (each.number for each in placed if each.faults)
    return next(faulted, placed[0].number if placed else 0)
