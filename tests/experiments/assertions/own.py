"""Assertions of a user's own."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.experiments.episode_view import EpisodeView
from wirefault.judging.checker import CheckResult


def speaks_of_rome(episode: EpisodeView) -> bool:
    return "Rome" in (episode.answer or "")


def raises(episode: EpisodeView) -> bool:
    raise RuntimeError(f"the secret of {episode.prompt}")


def leaves(_: EpisodeView) -> bool:
    raise SystemExit(0)


def does_not_know(_: EpisodeView) -> None:
    return None


def returns_text(_: EpisodeView) -> str:
    return "yes"


def tells_more(episode: EpisodeView) -> CheckResult:
    return CheckResult(passed=True, measured=episode.prompt, expected="a prompt", evidence=("agent-0:1",))


def several(episodes: Sequence[EpisodeView]) -> bool:
    return len(episodes) > 1
