"""How to audit, and the options that a saved audit keeps so that it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from wirefault.audit.answers import CleanRuns
from wirefault.audit.question import QUESTIONS, Question
from wirefault.core.errors import InputError
from wirefault.core.files import names_in, replace_shared
from wirefault.experiments.evidence import is_of_this_user
from wirefault.experiments.index import read_document, saved_ids
from wirefault.experiments.saved import SavedExperiment
from wirefault.settings.budgets import Price
from wirefault.wiring.write_requests import Corrections

MIN_PATIENCE_S, MAX_PATIENCE_S = 20.0, 65.0
_OPTIONS = "audit.json"

WritesMode = Literal["real", "answer"]


@dataclass(frozen=True)
class AuditOptions:
    """How to audit."""

    questions: Sequence[Question]
    corrections: Corrections = field(default_factory=Corrections)
    workers: int = 2
    patience: float = 0.0
    """Seconds of a hang; 0: three times the clean run, 20 to 65 s."""
    dry_run: bool = False
    resumed: bool = False
    """Runs that the audit has already are not repeated."""
    writes: WritesMode | None = None
    """``answer``: the gateway answers writes in runs with faults; None: if one leaves this machine."""
    reset: str = ""
    """A shell command before each run, which puts the world back; runs are then made one after another."""
    replay: bool | None = None
    """Replay the model's replies before the fault; None: those of models beyond this machine."""
    price: Price | None = None
    """Of a model without one in the settings."""
    confirmed: bool = False
    """Writes beyond this machine may be repeated for real."""

    def patience_after(self, clean: CleanRuns) -> float:
        """Return the seconds of a hang, after these clean runs."""
        return self.patience or min(max(MIN_PATIENCE_S, 3 * clean.seconds), MAX_PATIENCE_S)

    def save(self, saved: SavedExperiment) -> None:
        """Keep the options beside the plan, for ``load_options``. Raises ``OSError``."""
        fields = {
            "questions": [question.name for question in self.questions],
            "writes": list(self.corrections.writes),
            "reads": list(self.corrections.reads),
            "workers": self.workers,
            "patience": self.patience,
            "mode": self.writes,
            "replay": self.replay,
            "price": [self.price.input, self.price.output] if self.price else None,
            "confirmed": self.confirmed,
            "dry_run": self.dry_run,
        }
        replace_shared(saved.logs, saved.folder / _OPTIONS, json.dumps(fields).encode())


def load_options(saved: SavedExperiment) -> AuditOptions:
    """Return the options of a saved audit, to resume it. Raises ``InputError`` if it is not an audit."""
    path = saved.folder / _OPTIONS
    try:
        fields = _read_kept(saved.logs, path)
        questions = [QUESTIONS[name] for name in fields.questions]
    except FileNotFoundError:
        raise InputError(
            f"{saved.experiment_id} is not an audit: wirefault run --resume continues it"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return AuditOptions(
        questions,
        Corrections(tuple(fields.writes), tuple(fields.reads)),
        fields.workers,
        fields.patience,
        resumed=True,
        writes=fields.mode,
        replay=fields.replay,
        price=Price(*fields.price) if fields.price else None,
        confirmed=fields.confirmed,
    )


def is_audit(saved: SavedExperiment) -> bool:
    """Whether the saved experiment is an audit."""
    return is_audit_id(saved.logs, saved.experiment_id)


def is_audit_id(logs: Path, name: str) -> bool:
    """Whether the saved experiment with that id is an audit."""
    return _OPTIONS in names_in(logs, logs / "experiments" / name)


def latest_audit(logs: Path) -> str | None:
    """Return the id of the newest saved audit that was to ask something; None if there is none.

    Audits of this user come before others.
    """
    audits = [name for name in sorted(saved_ids(logs), reverse=True) if is_audit_id(logs, name)]
    audits = [name for name in audits if not _is_dry_run(logs, name)]
    return next((name for name in audits if is_of_this_user(logs, name)), next(iter(audits), None))


def _is_dry_run(logs: Path, name: str) -> bool:
    try:
        return _read_kept(logs, logs / "experiments" / name / _OPTIONS).dry_run
    except (OSError, ValueError):
        return False  # its reader says what is wrong


@dataclass(frozen=True)
class _Kept:
    questions: list[str]
    writes: list[str]
    reads: list[str]
    workers: int
    patience: float
    mode: WritesMode | None
    confirmed: bool
    dry_run: bool = False
    replay: bool | None = None
    price: tuple[float, float] | None = None


_KEPT = TypeAdapter(_Kept)


def _read_kept(logs: Path, path: Path) -> _Kept:
    return _KEPT.validate_python(read_document(logs, path))
