"""How to audit, and the options that a saved audit keeps so that it can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct, convert
from msgspec.json import encode
from msgspec.structs import replace

from wirefault.audit.answers import CleanRuns
from wirefault.audit.question import Question
from wirefault.audit.questions import QUESTIONS
from wirefault.audit.spending import Prices
from wirefault.core.errors import InputError
from wirefault.core.files import names_in, replace_shared
from wirefault.experiments.evidence import is_of_this_user
from wirefault.experiments.index import AUDIT, is_dry_run, read_document, saved_ids
from wirefault.experiments.saved import SavedExperiment
from wirefault.settings.budgets import Price, load_prices
from wirefault.settings.settings import Settings
from wirefault.wiring.write_requests import Corrections

MIN_PATIENCE_S, MAX_PATIENCE_S = 20.0, 65.0
WAITING_LANES = 4
"""Further lanes, for agents that wait in a hang or before a retry."""

WritesMode = Literal["real", "answer"]


class AuditOptions(Struct, frozen=True, omit_defaults=True):
    """How to audit; without ``reset`` it is kept beside the plan, for ``load_options``."""

    questions: tuple[str, ...]
    """By name."""
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    workers: int = 2
    patience: float = 0.0
    """Seconds of a hang; 0: three times the clean run, 20 to 65 s."""
    mode: WritesMode | None = None
    """``answer``: the gateway answers writes in runs with faults; None: if one leaves this machine."""
    replay: bool | None = None
    """Replay the model's replies before the fault; None: those of models beyond this machine."""
    price: tuple[float, float] | None = None
    """Of a model without one in the settings, as in ``Price``."""
    confirmed: bool = False
    """Writes beyond this machine may be repeated for real."""
    dry_run: bool = False
    reset: str = ""
    """A shell command before each run, which puts the world back; runs are then made one after another."""

    @property
    def chosen(self) -> list[Question]:
        """Return the questions. Raises ``KeyError`` for an unknown name."""
        return [QUESTIONS[name] for name in self.questions]

    @property
    def lanes(self) -> int:
        """How many runs may be under way at once."""
        waits = any(question.hangs or question.lasting for question in self.chosen)
        return 1 if self.reset else self.workers + (WAITING_LANES if waits else 0)

    @property
    def corrections(self) -> Corrections:
        """Return the user's corrections of the list of writes."""
        return Corrections(self.writes, self.reads)

    def prices(self, settings: Settings) -> Prices:
        """Return the prices of the models, by the settings and ``price``."""
        return Prices(load_prices(settings.prices), Price(*self.price) if self.price else None)

    def patience_after(self, clean: CleanRuns) -> float:
        """Return the seconds of a hang, after these clean runs."""
        return self.patience or min(max(MIN_PATIENCE_S, 3 * clean.seconds), MAX_PATIENCE_S)

    def save(self, saved: SavedExperiment) -> None:
        """Keep the options beside the plan. Raises ``OSError``."""
        stored = replace(self, reset="")
        replace_shared(saved.logs, saved.folder / AUDIT, encode(stored))


def load_options(saved: SavedExperiment) -> AuditOptions:
    """Return the options of a saved audit, to resume it. Raises ``InputError`` if it is not an audit."""
    path = saved.folder / AUDIT
    try:
        options = convert(read_document(saved.logs, path), AuditOptions)
        _ = options.chosen  # questions of another version
    except FileNotFoundError:
        raise InputError(
            f"{saved.experiment_id} is not an audit: wirefault run --resume continues it"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    return options


def is_audit(saved: SavedExperiment) -> bool:
    """Whether the saved experiment is an audit."""
    return is_audit_id(saved.logs, saved.experiment_id)


def is_audit_id(logs: Path, name: str) -> bool:
    """Whether the saved experiment with that id is an audit."""
    return AUDIT in names_in(logs, logs / "experiments" / name)


def latest_audit(logs: Path) -> str | None:
    """Return the id of the newest saved audit that was to ask something; None if there is none.

    Audits of this user come before others.
    """
    audits = [name for name in sorted(saved_ids(logs), reverse=True) if is_audit_id(logs, name)]
    audits = [name for name in audits if not is_dry_run(logs, name)]
    return next((name for name in audits if is_of_this_user(logs, name)), next(iter(audits), None))
