"""What a reader of a summary must be told in words: all that is not as it should be. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from wirefault.history.events import RunFinished
from wirefault.judging.judge import RunJudgement
from wirefault.judging.oracle.outcome import OUTCOMES


def remarks(judgement: RunJudgement, torn: int, refused: Mapping[str, int]) -> Iterator[str]:
    """One sentence each; none for a run that is whole, judged and explained."""
    yield from _end(judgement.finished)
    started, episodes = judgement.started, judgement.episodes
    planned, skipped = started.prompts, started.skipped_prompts
    if len(episodes) < planned:
        yield f"{planned - len(episodes)} of {planned} prompts not run"
    if skipped:
        yield f"{counted(skipped, 'bad entry', 'bad entries')} of the prompts file left out"
    whys = Counter((e.outcome, e.why) for e in episodes if not OUTCOMES[e.outcome].in_rate)
    for (outcome, why), count in sorted(whys.items()):
        yield f"{counted(count, 'prompt', 'prompts')} {outcome}: {why}"
    unexplained = sum(len(episode.unexplained) for episode in episodes)
    if unexplained:
        yield f"{counted(unexplained, 'failed try', 'failed tries')} that no fault explains"
    if refused:
        reasons = ", ".join(f"{why} {count}" for why, count in sorted(refused.items()))
        calls = counted(sum(refused.values()), "tool call", "tool calls")
        yield f"{calls} that the agent refused by itself: {reasons}"
    if judgement.stray:
        yield f"{counted(judgement.stray, 'request', 'requests')} at the gateway outside any episode"
    if torn:
        yield f"{counted(torn, 'cut-off last line', 'cut-off last lines')} of history files left out"
    yield from (f"scored differently: {text}" for text in judgement.differences)


def _end(finished: RunFinished | None) -> Iterator[str]:
    if finished is None:
        yield "the run has no end in its history: still going, or killed"
        return
    if not finished.completed:
        yield ended_early(finished.reason)
    if finished.toxics_left is None:
        yield "not known whether toxics were left behind"
    elif finished.toxics_left:
        yield f"{counted(finished.toxics_left, 'toxic', 'toxics')} left behind"


def ended_early(reason: str) -> str:
    """What is said of a run that did not come to its end."""
    return f"the run ended early: {reason}"


def counted(count: int, singular: str, plural: str) -> str:
    """``1 prompt``, ``2 prompts``."""
    return f"{count} {singular if count == 1 else plural}"
