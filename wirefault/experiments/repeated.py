"""An arm beside its control: repeated writes, and findings about other differences. Pure.

The control shows how often a write is executed without faults, and how the agent answers then.

A write is repeated if it was executed at least twice in an attempt, and more often than in every control
episode of the same prompt, of which there must be at least two with the same count. That refutes
``no duplicate`` for declared writes. A probable write, or a control that does not decide, leaves it unknown.
An oracle that found the world as asked is stronger evidence and decides alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.facts import EpisodeFacts
from wirefault.judging.findings.differences import differences
from wirefault.judging.findings.finding import Finding, times
from wirefault.judging.writes import WriteCount

_REPETITION = re.compile(r"\.r\d+$")  # suffix of the key of a repeated prompt
_MIN_CONTROL = 2


@dataclass(frozen=True)
class _Repeat:
    """A write that was repeated, or may have been."""

    certain: bool
    text: str


def judged_by_control(arm: ArmFacts, control: ArmFacts, after: ArmFacts | None = None) -> ArmFacts:
    """The arm with its repeated writes: certain ones make an episode a ``duplicate``.

    ``after``: the control after the faults. Its episodes count where the control has only one of a prompt.
    """
    return replace(arm, episodes=[_judged(episode, control, after) for episode in arm.episodes])


def with_differences(arm: ArmFacts, controls: Iterable[ArmFacts]) -> ArmFacts:
    """The arm with findings by comparison with the control, for episodes that met a fault."""
    calm = list(controls)
    return replace(arm, episodes=[_compared(episode, calm) for episode in arm.episodes])


def _compared(episode: EpisodeFacts, controls: Sequence[ArmFacts]) -> EpisodeFacts:
    if episode.outcome == "invalid" or episode.conduct is None or not episode.delivered:
        return episode
    calm = [other.conduct for control in controls for other in _of_prompt(episode, control) if other.conduct]
    findings = tuple(
        Finding(
            difference.rule.name,
            difference.observation.severity or difference.rule.severity,
            difference.observation.text,
            episode.episode,
            difference.observation.evidence,
        )
        for difference in differences(episode.conduct, calm)
    )
    return replace(episode, differences=findings, findings=episode.findings + len(findings))


def _judged(episode: EpisodeFacts, control: ArmFacts, after: ArmFacts | None) -> EpisodeFacts:
    if episode.outcome == "invalid" or episode.world == "as_asked":
        return episode
    calm = _of_prompt(episode, control)
    if len(calm) < _MIN_CONTROL and after is not None:
        calm += _of_prompt(episode, after)
    repeats = [repeat for write in episode.writes if (repeat := _repeat(write, calm)) is not None]
    certain = [repeat.text for repeat in repeats if repeat.certain]
    if certain:
        return replace(episode, outcome="duplicate", repeated="; ".join(certain))
    if repeats:
        return replace(episode, perhaps_repeated="; ".join(repeat.text for repeat in repeats))
    if len(calm) < _MIN_CONTROL:
        return episode
    # the control writes as often: whatever failed, nothing was repeated
    outcome = episode.outcome_by_oracle or episode.outcome
    findings = episode.findings - episode.repeat_findings
    return replace(episode, outcome=outcome, findings=findings, repeat_findings=0)


def _of_prompt(episode: EpisodeFacts, control: ArmFacts) -> list[EpisodeFacts]:
    prompt = _REPETITION.sub("", episode.episode)
    return [e for e in control.valid.episodes if _REPETITION.sub("", e.episode) == prompt]


def _repeat(write: WriteCount, control: Sequence[EpisodeFacts]) -> _Repeat | None:
    counts = [_count_in(write, episode) for episode in control]
    usual = max(counts, default=0)
    if write.executed + write.maybe < 2:
        return None
    agree = len(set(counts)) == 1 and not any(_is_open(write, episode) for episode in control)
    if write.executed < 2 or (agree and write.executed <= usual):
        return _perhaps_executed(write) if write.executed + write.maybe > max(usual, 1) else None
    if agree and len(counts) >= _MIN_CONTROL:
        every = f"{times(usual) if usual else 'never'} in each of {len(counts)} control episodes"
        text = f"{write.call} executed {times(write.executed)}, {every}"
        return _Repeat(write.declared, text if write.declared else f"{text}; {_undeclared(write)}")
    if write.executed <= min(counts, default=0):
        return None
    return _Repeat(False, "; ".join(_why_unknown(write, counts)))


def _perhaps_executed(write: WriteCount) -> _Repeat:
    most = write.executed + write.maybe
    return _Repeat(False, f"{write.call} may have been executed {times(most)}")


def _why_unknown(write: WriteCount, counts: Sequence[int]) -> Iterator[str]:
    text = f"{write.call} executed {times(write.executed)}"
    if len(counts) >= _MIN_CONTROL:
        yield f"{text}, and the control does not agree on a count ({', '.join(map(str, sorted(counts)))})"
    else:
        some = f"{len(counts)} control episode{'' if len(counts) == 1 else 's'}"
        yield f"{text}; {some} of the prompt do not decide: use repeats: {_MIN_CONTROL} or more"
    if not write.declared:
        yield _undeclared(write)


def _undeclared(write: WriteCount) -> str:
    call, _, link = write.call.rpartition(" of ")
    return (
        f"the wiring does not say whether it is a write: declare it under links: {link} with"
        f" `writes: [{call}]`, or with `writes: []` if it changes nothing"
    )


def _count_in(write: WriteCount, episode: EpisodeFacts) -> int:
    """How often the control executed it; without the same write, the highest count of the same call.

    A control whose ids differ from episode to episode would otherwise seem never to have made it.
    """
    same = [other.executed for other in episode.writes if other.same == write.same]
    return max(same or _of_call(write, episode.writes), default=0)


def _of_call(write: WriteCount, others: Iterable[WriteCount]) -> list[int]:
    return [other.executed for other in others if other.call == write.call]


def _is_open(write: WriteCount, episode: EpisodeFacts) -> bool:
    return any(other.maybe for other in episode.writes if other.call == write.call)
