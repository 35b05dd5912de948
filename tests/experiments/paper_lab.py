"""Experiment commands called like a user calls them, with an engine that only writes histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.experiments.test_run_experiment import PaperEngine
from wirefault.cli.main import main
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.saved import SavedExperiment

EXPERIMENT = {
    "title": "On paper",
    "tags": ["quick"],
    "seed": 1,
    "prompts": [{"prompt": "One", "id": "one"}, {"prompt": "Two", "id": "two"}],
    "variants": {
        name: {"faults": {"faults": [{"fault": "reset", "when": {"probability": 0.5}}]}} for name in "ab"
    },
    "hypothesis": ["no crash"],
}


@dataclass
class RecordingEngine(PaperEngine):
    """Runs nothing, and records its calls."""

    name: str = "local"
    engine_calls: list[tuple[SavedExperiment, RunControl]] = field(default_factory=list)

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        self.engine_calls.append((saved, how))
        return super().run(saved, how, run_arms)


@dataclass
class PaperLab:
    """A folder with experiments, and the last run there."""

    folder: Path
    engine: RecordingEngine = field(default_factory=RecordingEngine)
    result: Result | None = None

    def engine_called(self, name: str) -> RecordingEngine:
        self.engine = RecordingEngine(name=name)
        return self.engine

    def wirefault(self, *words: str) -> Result:
        self.engine = RecordingEngine(name="none")
        self.result = CliRunner().invoke(main, [str(word) for word in words])
        return self.result

    @property
    def output(self) -> str:
        assert self.result is not None
        return self.result.output

    @property
    def object(self) -> dict[str, Any]:
        """The output of --json."""
        assert self.result is not None
        document = json.loads(self.result.stdout)
        assert isinstance(document, dict | list)
        return document if isinstance(document, dict) else {"of": document}

    @property
    def how(self) -> RunControl:
        return self.engine.engine_calls[0][1]

    @property
    def saved(self) -> SavedExperiment:
        return self.engine.engine_calls[0][0]

    @property
    def prompts(self) -> list[str]:
        return [prompt.key for prompt in self.saved.plan.prompts]

    @property
    def arms(self) -> list[str]:
        return [arm.name for arm in self.saved.plan.arms]

    def seen(self, sees: Callable[[PaperLab], object], *words: str) -> object:
        """The view after these commands; the output if they were refused."""
        self.wirefault(*words)
        return self.view(sees)

    def view(self, sees: Callable[[PaperLab], object]) -> object:
        """The view after the last command; its output if it was refused."""
        try:
            return sees(self)
        except (IndexError, json.JSONDecodeError):  # nothing flew, or nothing is an object
            return self.output
