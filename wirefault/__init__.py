"""Wirefault: a chaos lab for AI agents.

The names below are the Python interface; everything else is internal unless a docs page names it.

    from wirefault import Experiment

    report = Experiment(
        subject=my_agent, prompts=["Order one apple"], faults=["lose_reply"], checks=["no duplicate"]
    ).run()
    assert report.verdict == "held"
"""

# not from typing: an entry point must handle Ctrl-C before further imports
TYPE_CHECKING = False
if TYPE_CHECKING:
    from wirefault.experiments.episode_view import EpisodeView, NotRecorded
    from wirefault.experiments.experiment import Arm, Baseline
    from wirefault.experiments.in_place import Experiment
    from wirefault.experiments.matrix import Matrix
    from wirefault.experiments.operations import Operations, call
    from wirefault.experiments.report import ExperimentReport
    from wirefault.experiments.run_experiment import ExperimentResult, run
    from wirefault.experiments.safety import Safety
    from wirefault.experiments.wrapper import Wrapper
    from wirefault.faults.base import Fault
    from wirefault.judging.checker import CheckResult
    from wirefault.subjects.functions.marking import tool
    from wirefault.subjects.subject import AttemptContext, SubjectResult

__all__ = [
    "Arm",
    "AttemptContext",
    "Baseline",
    "CheckResult",
    "EpisodeView",
    "Experiment",
    "ExperimentReport",
    "ExperimentResult",
    "Fault",
    "Matrix",
    "NotRecorded",
    "Operations",
    "Safety",
    "SubjectResult",
    "Wrapper",
    "call",
    "run",
    "tool",
]

# imported on first use, since every process of a lab imports this package
_MODULES = {
    "Arm": "wirefault.experiments.experiment",
    "AttemptContext": "wirefault.subjects.subject",
    "Baseline": "wirefault.experiments.experiment",
    "CheckResult": "wirefault.judging.checker",
    "EpisodeView": "wirefault.experiments.episode_view",
    "Experiment": "wirefault.experiments.in_place",
    "ExperimentReport": "wirefault.experiments.report",
    "ExperimentResult": "wirefault.experiments.run_experiment",
    "Fault": "wirefault.faults.base",
    "Matrix": "wirefault.experiments.matrix",
    "NotRecorded": "wirefault.experiments.episode_view",
    "Operations": "wirefault.experiments.operations",
    "Safety": "wirefault.experiments.safety",
    "SubjectResult": "wirefault.subjects.subject",
    "Wrapper": "wirefault.experiments.wrapper",
    "call": "wirefault.experiments.operations",
    "run": "wirefault.experiments.run_experiment",
    "tool": "wirefault.subjects.functions.marking",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'wirefault' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
