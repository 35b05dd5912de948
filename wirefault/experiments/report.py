"""What an experiment in Python returns: its verdict, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.verdict import Check, ExperimentVerdict


@dataclass(frozen=True)
class ExperimentReport:
    """The verdict of an experiment, with its arms and episodes."""

    result: ExperimentResult
    """With the files that it was saved to."""
    probed: Mapping[tuple[str, str, int], object]
    """What ``after_attempt`` returned, by run, episode and attempt."""

    @property
    def verdict(self) -> ExperimentVerdict:
        """``held``, ``deviated``, ``unknown`` or ``aborted``."""
        assert self.result.judged is not None
        return self.result.judged.verdict

    @property
    def because(self) -> str:
        """The statement that decided."""
        assert self.result.judged is not None
        return self.result.judged.because

    @property
    def passed(self) -> bool:
        """Whether it held; unknown is not passed."""
        return self.verdict == "held"

    @property
    def checks(self) -> list[Check]:
        """Each statement about each arm."""
        assert self.result.judged is not None
        return self.result.judged.checks

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.because}"]
        for check in self.checks:
            figures = ", ".join(f"{name} {text}" for name, text in check.measured.items())
            more = "; ".join(filter(None, [figures, check.message]))
            lines.append(f"  {check.arm}: {check.statement}: {check.verdict}{f' ({more})' if more else ''}")
        return "\n".join(lines)
