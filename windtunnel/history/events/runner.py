"""What the runner writes (``agent-<lane>.jsonl``): a run, its episodes, its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from windtunnel.history.events.subject import EndedBy, Report
from windtunnel.toxiproxy.planned import PlannedToxic

SELF_TEST = "self-test subject: scripted model"
Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class RunStarted:
    """``prompts`` are planned; ``skipped_prompts`` entries of the prompts file were bad and are not run."""

    t: float
    run_id: str
    lab_id: str
    lane: int
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts: int
    skipped_prompts: int = 0
    event: Literal["run_started"] = "run_started"

    @property
    def subject_shown(self) -> str:
        """The subject's name, which says so if the scripted model plays its model."""
        scripted = self.settings.get("model", "scripted") == "scripted"
        return f"{self.subject}, {SELF_TEST}" if scripted and SELF_TEST not in self.subject else self.subject


@dataclass(frozen=True)
class EpisodeStarted:
    """``expect`` is the prompt's oracle as it stands in the prompts file, None without one."""

    t: float
    episode: str
    prompt: str
    expect: Mapping[str, Any] | None
    event: Literal["episode_started"] = "episode_started"


@dataclass(frozen=True)
class AttemptArmed:
    """The plan's toxics are in force, read back. ``configuration``: the fault set that it was drawn from."""

    t: float
    episode: str
    attempt: int
    arming_ms: float
    toxics: list[PlannedToxic]
    configuration: int = 0
    event: Literal["attempt_armed"] = "attempt_armed"


@dataclass(frozen=True)
class AttemptEnded:
    """``ended_by``: report, text (an answer without a report), empty, limit or exception."""

    episode: str
    attempt: int
    start: float
    end: float
    ms: float
    ended_by: EndedBy
    report: Report | None
    response: str
    error_type: str | None
    error: str | None
    event: Literal["attempt_ended"] = "attempt_ended"


@dataclass(frozen=True)
class AttemptHealed:
    """``invalid`` names what went wrong with the lab in this attempt; it was not run if it never armed."""

    t: float
    episode: str
    attempt: int
    settled: bool | None
    invalid: str | None
    event: Literal["attempt_healed"] = "attempt_healed"


@dataclass(frozen=True)
class WorldRead:
    """All side effects in the episode's world at that time. ``error`` if it could not be read."""

    t: float
    episode: str
    effects: list[dict[str, Any]]
    error: str | None = None
    event: Literal["world_read"] = "world_read"


@dataclass(frozen=True)
class EpisodeJudged:
    """The verdict on an episode as it was given; ``windtunnel judge`` gives it again."""

    t: float
    episode: str
    outcome: str
    world: str
    claim: str
    value: str
    flags: list[str]
    attempts: int
    first_attempt_outcome: str
    faults: list[dict[str, Any]]
    event: Literal["episode_judged"] = "episode_judged"


@dataclass(frozen=True)
class RunFinished:
    t: float
    completed: bool
    reason: str
    toxics_left: int | None
    event: Literal["run_finished"] = "run_finished"


@dataclass(frozen=True)
class Note:
    t: float
    level: Level
    message: str
    event: Literal["note"] = "note"
