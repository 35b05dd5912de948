"""The facts of runs on the disk, so that a history is judged again only if it, or Wirefault, has changed.

The facts of a run lie in ``logs/experiments/ID/facts``. They are worked out as each run ends, beside the next
one; whoever removes them loses time alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from wirefault.core.shared_files import read_shared, replace_shared
from wirefault.experiments.assertions.on_arm import needs_users_code
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.episode_facts import RunFacts, facts_of
from wirefault.history.reader import HistoryError, read_history
from wirefault.history.writer import LARGEST_HISTORY

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class _Kept:
    """``of``: what the facts were worked out from; others are of no use."""

    of: str
    facts: RunFacts


_KEPT = TypeAdapter(_Kept)


def read_facts(logs: Path, run_id: str, entries: Sequence[AssertionEntry], folder: Path) -> RunFacts:
    """The facts of a run, kept in ``folder`` unless they hang on code of a user's; that of a run which cannot
    be read has no episodes, and says why."""
    path = folder / f"{run_id}.json"
    keep = not any(needs_users_code(parse_assertion(entry)) for entry in entries)
    worked_out_from = f"{_code()} {_state_of(logs / 'runs' / run_id)} {list(entries)}"
    if keep and (kept := _read(logs, path)) is not None and kept.of == worked_out_from:
        return kept.facts
    try:
        facts = facts_of(run_id, read_history(logs, run_id).events(), entries)
    except (HistoryError, ValueError, OSError) as error:
        return RunFacts(run_id, problem=f"the history of {run_id} cannot be read: {error}", is_readable=False)
    if keep:
        _write(logs, path, _Kept(worked_out_from, facts))
    return facts


def _read(logs: Path, path: Path) -> _Kept | None:
    try:
        return _KEPT.validate_json(read_shared(logs, path, LARGEST_HISTORY))
    except (OSError, ValidationError):
        return None


def _write(logs: Path, path: Path, kept: _Kept) -> None:
    try:
        # not by `dump_json`, for which a bound without a limit is null
        data = json.dumps(_KEPT.dump_python(kept, exclude_defaults=True), separators=(",", ":"))
        replace_shared(logs, path, data.encode())
    except OSError:
        return  # a folder that cannot be written can be read all the same


def _state_of(run: Path) -> str:
    """Changes with every change of the run's files."""
    found = sorted((path.name, path.stat()) for path in run.glob("*"))
    return " ".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in found)


@cache
def _code() -> str:
    """Changes with the code that judges."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
