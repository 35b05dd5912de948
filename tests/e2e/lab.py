"""Runs of the lab's agent in this process, against a running lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent.loop import Agent
from agent.models import build_model, open_client
from agent.subject import open_stores
from tests.support import replace
from wirefault.core.identity import new_run_id
from wirefault.core.run_key import derive_run_key
from wirefault.history.events import Event
from wirefault.judging.summary import Summary, summarise
from wirefault.lab.launcher import Lab
from wirefault.recovery.strategies import parse_recovery
from wirefault.runner.record import RunRecord
from wirefault.runner.run import Runner
from wirefault.settings.configuration import Configuration
from wirefault.settings.settings import Settings
from wirefault.subjects.subject import as_subject
from wirefault.wiring.prompts import Prompt, Prompts, load_prompts, numbered

# No chaos unless a test asks for it, and times that a busy machine keeps: a call without a fault never takes
# as long as the client waits, and the longest toxic takes longer.
SETTINGS: Mapping[str, Any] = {
    "seed": 1,
    "toxic_prob": 0,
    "error_prob": 0,
    "toxics": "timeout:400,latency:300,latency:4500",
    "tool_timeout": 3,
    "arm_timeout": 30,
    "settle_bound": 10,
    "attempt_time": 120,
}
SAMPLES = load_prompts(Path("agent/prompts.json")).entries


class Silence:
    def say(self, message: str) -> None: ...
    def attempt_started(self, index: int, total: int, prompt: str, attempt: int) -> None: ...
    def episode_judged(self, index: int, total: int, judgement: object) -> None: ...


@dataclass
class LabRun:
    record: RunRecord
    summary: Summary

    @property
    def outcomes(self) -> list[str]:
        return [str(episode.outcome) for episode in self.summary.episodes]

    @property
    def why_invalid(self) -> dict[str, str]:
        """By episode."""
        return {judged.episode: judged.why for judged in self.summary.episodes if judged.outcome == "invalid"}

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.record.events if isinstance(event, kind)]


def in_order(prompts: Sequence[Prompt]) -> list[Prompt]:
    """The prompts with numbered keys: a repeated prompt has its own key, as in a file."""
    keys = numbered(prompt.key for prompt in prompts)
    return [replace(prompt, key=key) for prompt, key in zip(prompts, keys, strict=True)]


def sample(part: str) -> Prompt:
    """The sample prompt that contains these words."""
    [chosen] = [prompt for prompt in SAMPLES if part in prompt.text]
    return chosen


@dataclass
class SharedLab:
    """A running lab, and runs in it."""

    lab: Lab
    configuration: Configuration

    def run(self, *prompts: Prompt, to_its_end: bool = True, **options: Any) -> LabRun:
        """One run, with ``SETTINGS`` unless given."""
        settings = Settings(**{**SETTINGS, **options})
        with open_client(settings) as client:
            model = build_model(settings, self.lab.topology, "none", client)
            run_key = partial(derive_run_key, self.lab.token)
            recovery = parse_recovery(settings.recovery)
            other = recovery.fallback.model if recovery.fallback else ""
            fallback = build_model(settings, self.lab.topology, "none", client, other) if other else None
            with open_stores(self.configuration, recovery) as (memories, desk):
                agent = Agent(
                    model,
                    "the lab's agent",
                    run_key=run_key,
                    recovery=recovery,
                    fallback=fallback,
                    memories=memories,
                    desk=desk,
                )
                return self.run_subject(agent, *prompts, settings=settings, to_its_end=to_its_end)

    def run_subject(
        self,
        subject: Any,
        *prompts: Prompt,
        settings: Settings,
        environ: Mapping[str, str] | None = None,
        to_its_end: bool = True,
    ) -> LabRun:
        """``environ`` replaces the lab's environment.

        A run that ends early fails the test with its reasons, unless ``to_its_end`` is false.
        """
        configuration = replace(
            self.configuration,
            settings=settings,
            topology=self.lab.topology,
            environ=environ or self.configuration.environ,
        )
        runner = Runner(new_run_id(), configuration, as_subject(subject), Silence())
        try:
            record = runner.run(Prompts(in_order(prompts or SAMPLES)))
        finally:
            runner.close()
        lab_run = LabRun(record, summarise(record.events))
        assert record.completed or not to_its_end, f"{record.reason}; {lab_run.why_invalid}"
        return lab_run


def in_folder(configuration: Configuration, folder: Path) -> Configuration:
    return replace(
        configuration,
        logs=folder / "logs",
        state=folder / "state" / "state.db",
        effects=folder / "state" / "effects.db",
    )


def environ_in(folder: Path, **more: str) -> Mapping[str, str]:
    return {
        "STATE_DB": str(folder / "state" / "state.db"),
        "EFFECTS_DB": str(folder / "state" / "effects.db"),
        "LOGS_DIR": str(folder / "logs"),
        **more,
    }
