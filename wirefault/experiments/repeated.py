"""An arm compared with its control: repeated writes, and findings about other differences. Pure.

The control shows how often a write is executed without faults, and how the agent answers then.

A write is repeated if it was executed at least twice in an attempt, and more often than in every control
episode of the same prompt, of which there must be at least two with the same count. That refutes
``no duplicate``. A control that does not decide leaves it unknown.
An oracle that found the world as asked is stronger evidence and decides alone.

A write that the control executes as often, with no failure before it, is usual for the agent: findings about
its repetition do not count. Nor do findings that a request was sent again if every control episode sends it
as often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from msgspec import structs

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.expression import Truth
from wirefault.experiments.facts import EpisodeFacts
from wirefault.experiments.measured import OfEpisode
from wirefault.experiments.plan import PlannedArm
from wirefault.history.judged_events import Finding, Severity
from wirefault.judging.checker import CheckResult, Observation
from wirefault.judging.findings.differences import differences
from wirefault.judging.findings.finding import headline_of, times
from wirefault.judging.findings.outcomes import DUPLICATE
from wirefault.judging.judge import ByControl, not_usual, usual_by_rule
from wirefault.judging.subject_name import YOUR_AGENT
from wirefault.judging.writes import WriteCount, sent_as_often

_REPETITION = re.compile(r"\.r\d+$")  # suffix of the key of a repeated prompt
_MIN_CONTROL = 2


@dataclass(frozen=True)
class _Repeat:
    """A write that was repeated, or may have been."""

    certain: bool
    text: str
    by_network: bool = False


def judged_by_control(arm: ArmFacts, control: ArmFacts, after: ArmFacts | None = None) -> ArmFacts:
    """The arm with its repeated writes: certain ones make an episode a ``duplicate``.

    ``after``: the control after the faults. Its episodes count where the control has only one of a prompt.
    """
    return replace(arm, episodes=[_judged(episode, control, after) for episode in arm.episodes])


def waits_for_control(arm: ArmFacts, control: ArmFacts) -> bool:
    """Whether another control episode can change an outcome of the arm."""
    return any(
        len(_of_prompt(episode, control)) < _MIN_CONTROL
        and any(write.executed + write.maybe >= 2 for write in episode.writes)
        for episode in arm.valid.episodes
        if episode.judged.world != "as_asked"
    )


def with_differences(arm: ArmFacts, controls: Iterable[ArmFacts]) -> ArmFacts:
    """The arm with findings by comparison with the control, for episodes that met a fault."""
    calm = list(controls)
    return replace(arm, episodes=[_compared(episode, calm) for episode in arm.episodes])


def by_control(arm: ArmFacts) -> Mapping[str, ByControl]:
    """For each episode of a compared arm what a listing of its run has to know."""
    return {episode.episode: episode.control for episode in arm.episodes}


def asserted_by_control(entry: AssertionEntry, episode: EpisodeFacts, place: int) -> OfEpisode:
    """The result of the assertion at that place in a compared episode, without what is usual."""
    result = episode.asserted[place]
    control = episode.control
    if not isinstance(result, CheckResult) or not (control.usual or control.usual_sent):
        return result
    usual = usual_by_rule(episode.writes, control.usual, episode.sends, control.usual_sent)
    return parse_assertion(entry).beside_control(result, usual)


def rates_of(arm: PlannedArm) -> Mapping[str, Callable[[EpisodeFacts], list[Truth]]]:
    """By ``rate(CHECK)`` of the arm's statements, whether an episode passes; empty with nothing to judge."""

    def passed(entry: AssertionEntry, place: int, episode: EpisodeFacts) -> list[Truth]:
        result = asserted_by_control(entry, episode, place)
        if not isinstance(result, CheckResult):
            return [None]
        return [result.passed] if result.applies else []

    first = len(arm.assertions)
    return {
        name: partial(passed, entry, place) for place, (name, entry) in enumerate(arm.rated.items(), first)
    }


def _compared(episode: EpisodeFacts, controls: Sequence[ArmFacts]) -> EpisodeFacts:
    if episode.judged.outcome == "invalid" or episode.conduct is None or not episode.judged.delivered():
        return episode
    calm = [other.conduct for control in controls for other in _of_prompt(episode, control) if other.conduct]
    findings = tuple(
        difference.finding(episode.conduct.agent, episode.episode)
        for difference in differences(episode.conduct, calm)
    )
    return structs.replace(episode, control=replace(episode.control, differences=findings))


def _judged(episode: EpisodeFacts, control: ArmFacts, after: ArmFacts | None) -> EpisodeFacts:
    judged = episode.judged
    if judged.outcome == "invalid":
        return episode
    calm = _of_prompt(episode, control)
    if len(calm) < _MIN_CONTROL and after is not None:
        calm += _of_prompt(episode, after)
    beside = [(write, _Beside.of(write, episode.writes, calm)) for write in episode.writes]
    usual = frozenset(write.same for write, control_counts in beside if control_counts.is_usual(write))
    often = frozenset(count.same for count in sent_as_often(episode.sends, [other.sends for other in calm]))
    usual_ids = usual_by_rule(episode.writes, usual, episode.sends, often)
    judged = structs.replace(judged, findings=tuple(not_usual(judged.findings, usual_ids)))
    certain, perhaps, by_network = "", "", False
    if judged.world != "as_asked":
        repeats = [repeat for write, counts in beside if (repeat := _repeat(write, counts)) is not None]
        by_network = all(repeat.by_network for repeat in repeats if repeat.certain)
        certain = "; ".join(repeat.text for repeat in repeats if repeat.certain)
        perhaps = "; ".join(filter(None, [episode.unseen_writes, *(repeat.text for repeat in repeats)]))
    if certain:
        severity: Severity = "note" if by_network else DUPLICATE.severity
        seen = Observation(DUPLICATE.sentence, ())
        agent = episode.conduct.agent if episode.conduct is not None else YOUR_AGENT
        headline = headline_of(DUPLICATE, seen, agent)
        broken = Finding(DUPLICATE.name, severity, seen.text, episode.episode, headline=headline)
        judged = structs.replace(judged, outcome="duplicate", by_outcome=broken)
    compared = ByControl(certain, by_network, "" if certain else perhaps, usual, often)
    return structs.replace(episode, judged=judged, control=compared)


def _of_prompt(episode: EpisodeFacts, control: ArmFacts) -> list[EpisodeFacts]:
    prompt = _REPETITION.sub("", episode.episode)
    return [e for e in control.valid.episodes if _REPETITION.sub("", e.episode) == prompt]


@dataclass(frozen=True)
class _Beside:
    """How often each control episode executed a write.

    ``open``: it may have executed it more often. ``caused``: one of them repeated it after a failure.
    """

    counts: tuple[int, ...]
    open: bool
    caused: bool

    @classmethod
    def of(cls, write: WriteCount, beside: Sequence[WriteCount], calm: Sequence[EpisodeFacts]) -> _Beside:
        writes = [_counterparts(write, beside, episode.writes) for episode in calm]
        return cls(
            tuple(max((other.executed for other in others), default=0) for others in writes),
            any(other.maybe for others in writes for other in others),
            any(other.caused for others in writes for other in others),
        )

    @property
    def agree(self) -> bool:
        return len(set(self.counts)) == 1 and not self.open

    @property
    def in_words(self) -> str:
        usual = max(self.counts)
        return f"{times(usual) if usual else 'never'} in each of {len(self.counts)} control episodes"

    def is_usual(self, write: WriteCount) -> bool:
        """Whether the control executes it as often without a failure before it: the agent does so anyway."""
        most = write.executed + write.maybe
        return 2 <= most <= min(self.counts, default=0) and not self.caused


def _counterparts(
    write: WriteCount, beside: Iterable[WriteCount], control: Sequence[WriteCount]
) -> list[WriteCount]:
    """Return the same write in a control episode, or else the writes of the same call without a counterpart.

    A control whose ids differ from episode to episode would otherwise seem never to have made it.
    """
    same = [other for other in control if other.same == write.same]
    if same:
        return same
    sames = {other.same for other in beside}
    return [other for other in control if other.call == write.call and other.same not in sames]


def _repeat(write: WriteCount, control: _Beside) -> _Repeat | None:
    usual, most = max(control.counts, default=0), write.executed + write.maybe
    if most < 2 or control.is_usual(write):
        return None
    if write.executed >= 2 and control.caused and write.executed <= usual:
        text = f"{write.call} executed {times(write.executed)}"
        text += ", and as often in the control after a failure there"
        return _Repeat(False, text)
    if write.executed < 2 or (control.agree and write.executed <= usual):
        return _perhaps_executed(write) if most > max(usual, 1) else None
    if control.agree and len(control.counts) >= _MIN_CONTROL:
        text = f"{write.call} executed {times(write.executed)}, but {control.in_words}"
        by_network = write.executed - write.copies <= max(usual, 1)
        copies = ", since the network delivered it more than once, without an Idempotency-Key"
        return _Repeat(True, text + copies * by_network, by_network)
    return _Repeat(False, "; ".join(_why_unknown(write, control.counts)))


def _perhaps_executed(write: WriteCount) -> _Repeat:
    most = write.executed + write.maybe
    text = f"{write.call} may have been executed {times(most)}"
    return _Repeat(False, text)


def _why_unknown(write: WriteCount, counts: Sequence[int]) -> Iterator[str]:
    text = f"{write.call} executed {times(write.executed)}"
    if len(counts) >= _MIN_CONTROL:
        yield f"{text}, and the control does not agree on a count ({', '.join(map(str, sorted(counts)))})"
    else:
        some = f"{len(counts)} control episode{'' if len(counts) == 1 else 's'}"
        yield f"{text}; {some} of the prompt do not decide: use repeats: {_MIN_CONTROL} or more"
