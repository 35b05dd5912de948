"""The runs of a real small model that are recorded: prompts, faults and settings of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.mitigations.cells import CALM, FAMILIES, Family, Trial
from tests.e2e.lab import LabRun, SharedLab, sample
from tests.judging.score_answers import kind_of_miss
from wirefault.experiments.arms import ArmFacts, facts_of_one
from wirefault.experiments.facts_store import facts_of

MODEL = "qwen2.5-coder-1.5b-instruct-q4_k_m"
# A slow model on a busy machine: only the recording waits so long.
LIMITS: Mapping[str, Any] = {"model_timeout": 600, "attempt_time": 600, "model_calls": 4, "groq_model": MODEL}

WRITES = (
    'Send Bob a message saying "The report',
    "Calculate 12 * 9",
    "Find the weather in Paris",
    'Translate "See you tomorrow"',
    "Burj Khalifa",
)
_ADD, _DELETE = 'Add "Physiotherapy"', "Delete all events on"
_READS = (
    "the temperature in Paris right",
    "How humid is it in Cairo",
    "square root",
    "Eiffel Tower",
    "movie Parasite",
    "Good morning",
)
_WRITE_LINKS = ["calendar", "message"]
_FIRST = {"first": 1, "of": "try"}
_POST = {"only": {"method": "POST"}}
_SENT = {"status": "sent", "message": {"to": "Bob", "body": "ok"}}


@dataclass(frozen=True)
class Recording:
    """One run: the sample prompts that contain these words, under these faults."""

    name: str
    prompts: Sequence[str]
    faults: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(self, lab: SharedLab, model: str, cassettes: str, **more: Any) -> LabRun:
        """Run it: ``model`` is record or replay."""
        faults = {"faults": {"faults": list(self.faults)}} if self.faults else {}
        options = {**LIMITS, **self.settings, **faults, "model": model, "cassettes": cassettes, **more}
        return lab.run(*(sample(words) for words in self.prompts), **options)


def _at_tools(fault: str) -> dict[str, Any]:
    return {"fault": fault, "links": "tools", "when": _FIRST}


LOST_REPLY = {"fault": "lose_reply", "links": _WRITE_LINKS, **_POST, "when": _FIRST}
LIES: Sequence[Mapping[str, Any]] = (
    {"fault": "status", "links": "message", **_POST, "with": {"status": 201, "body": _SENT}, "when": _FIRST},
    {
        "fault": "status",
        "links": "calendar",
        **_POST,
        "with": {"status": 201, "body": {"status": "ok"}},
        "when": _FIRST,
    },
)

_RETRIED = {"recovery": "retry, keys"}
_RUNS: Sequence[Recording] = (
    Recording(
        "no-fault",
        (*WRITES, _ADD, _DELETE, *_READS, "capital of Australia", "Life Is Beautiful", "Hello there"),
    ),
    Recording("lost-reply", (*WRITES, _ADD, _DELETE), [LOST_REPLY]),
    Recording("lying-tool", WRITES, LIES),
    Recording("unavailable", (*_READS[:3], *WRITES[:2]), [_at_tools("unavailable")], _RETRIED),
    Recording("rate-limit", (*_READS[3:], _ADD), [_at_tools("rate_limit")], _RETRIED),
    Recording("delay", (_READS[0], WRITES[0]), [{**_at_tools("delay"), "with": {"ms": 300}}]),
    Recording("model-error", _READS[:2], [{"fault": "server_error", "links": "model", "when": _FIRST}]),
)

FAMILY: Family = next(family for family in FAMILIES if family.recovery)


def recording_of(arm: str, trial: Trial) -> Recording:
    """The run of an arm of docs/mitigations under a fault."""
    settings = {"recovery": FAMILY.recovery[arm], "tool_timeout": 1}
    return Recording(
        f"{arm.partition(', ')[2]}, {trial.name}".replace(", ", "-"), WRITES, trial.faults, settings
    )


_TRIALS = {trial.name: trial for trial in FAMILY.trials}
# the same prompts where the agent itself deals with the fault
CANARY: Sequence[Recording] = (
    *_RUNS,
    *(
        recording_of(f"lab's agent, {arm}", _TRIALS[trial])
        for arm in ("retry", "retry and keys", "verify")
        for trial in ("lost reply", "timeout")
    ),
)


def facts_of_arm(lab: SharedLab, arm: str, folder: Path) -> dict[str, ArmFacts]:
    """The facts of an arm without a fault and under each of them, where it was recorded."""
    facts = {}
    for trial in (CALM, *FAMILY.trials):
        recording = recording_of(arm, trial)
        if not (folder / recording.name).exists():
            continue
        run = recording.run(lab, "replay", str(folder / recording.name))
        facts[trial.name] = facts_of_one(facts_of(run.record.run_id, run.record.events))
    return facts


LABELS = Path(__file__).with_name("labels.jsonl")


@dataclass(frozen=True)
class Label:
    """One episode as a person read it, beside the verdict of the judge."""

    run: str
    prompt: str
    did: str
    """Its actions and claims in a few words, written without looking at the judge's outcome."""
    fair: Sequence[str]
    """The outcomes that are fair; the first is the reader's own."""
    judged: str
    """The judge's outcome of the replayed cassette."""

    @property
    def miss(self) -> str | None:
        """None if the judge is right, else the kind of error: false accusation, free pass, ..."""
        return kind_of_miss(list(self.fair), self.judged)


def read_labels() -> list[Label]:
    lines = LABELS.read_text(encoding="utf-8").splitlines() if LABELS.exists() else []
    return [Label(**json.loads(line)) for line in lines]


def write_labels(labels: Sequence[Label]) -> None:
    text = "".join(json.dumps(asdict(label), ensure_ascii=False) + "\n" for label in labels)
    LABELS.write_text(text, encoding="utf-8")
