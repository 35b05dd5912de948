"""The facts of an experiment's runs: computed once, remembered, and kept in files when it ends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock

from msgspec import Struct, convert, to_builtins

from wirefault.core.files import read_shared, replace_shared
from wirefault.experiments.assertions.on_arm import needs_users_code
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.facts import RunFacts, facts_in, judged_run
from wirefault.history.events import Event
from wirefault.history.reader import GrowingRun, HistoryError, read_run
from wirefault.history.writer import MAX_HISTORY_BYTES
from wirefault.judging.judge import RunJudgement

_PACKAGE = Path(__file__).parents[1]
# of the judgements that a store remembers, and of those that it remembers for a page
_MAX_EPISODES, _MAX_SHOWN_EPISODES = 400, 4000


class _CachedFacts(Struct, frozen=True):
    """Cached facts; ``of`` identifies their inputs."""

    of: str
    facts: RunFacts


class FactsStore:
    """The facts of an experiment's runs, in memory. An experiment that ended has its own in ``folder``.

    The files are used only if they are ``trusted``: signed, so that they are unaltered. ``runs_code``:
    whether the plan's functions may be called.
    """

    def __init__(self, logs: Path, folder: Path, *, trusted: bool = False, runs_code: bool = True) -> None:
        self.runs_code = runs_code
        self._logs = logs
        self._folder = folder
        self._trusted = trusted
        self._facts: dict[str, _CachedFacts] = {}
        self.keeps_judgements = False
        """Whether ``judgement`` is going to be called for all runs whose facts are read."""
        self._judgements: dict[str, tuple[str, RunJudgement]] = {}
        self._growing: dict[str, GrowingRun] = {}
        self._remembering = Lock()  # the threads of an experiment's lanes share its store

    def new_events(self, run_id: str, count: int) -> list[tuple[str, Event]]:
        """The events of a run that is being watched, with their ids, without the first ``count``."""
        return self._growing.setdefault(run_id, GrowingRun(self._logs, run_id)).since(count)

    def end_watch(self, run_id: str, entries: Sequence[AssertionEntry]) -> None:
        """Forget the events of a run that is complete, but not its facts."""
        if not _need_users_code(entries):
            self.read(run_id, entries)
        self._growing.pop(run_id, None)

    def judgement(self, run_id: str) -> RunJudgement:
        """Return the judgement of a run without its control, made once while there is room for it.

        Raises ``HistoryError``, ``ValueError`` or ``OSError`` if it cannot be read.
        """
        state = _state_of(self._logs / "runs" / run_id)
        known, judgement = self._judgements.get(run_id, ("", None))
        if judgement is None or known != state:
            growing = self._growing.get(run_id)
            events = growing.events() if growing else read_run(self._logs, run_id)
            judgement = judged_run(run_id, events)
            with self._remembering:
                remembered = sum(len(each.episodes) for _, each in self._judgements.values())
                if remembered < (_MAX_SHOWN_EPISODES if self.keeps_judgements else _MAX_EPISODES):
                    self._judgements[run_id] = state, judgement
        return judgement

    def read(self, run_id: str, entries: Sequence[AssertionEntry]) -> RunFacts:
        """The facts of a run. An unreadable run has no episodes and a ``problem``."""
        keep = not _need_users_code(entries)
        worked_out_from = f"{_code()} {_state_of(self._logs / 'runs' / run_id)} {list(entries)}"
        if keep and run_id not in self._facts and self._trusted:
            cached = self._read_file(run_id)
            if cached is not None:
                self._facts[run_id] = cached
        if keep and run_id in self._facts and self._facts[run_id].of == worked_out_from:
            return self._facts[run_id].facts
        try:
            facts = facts_in(run_id, self.judgement(run_id), entries, self.runs_code)
        except (HistoryError, ValueError, OSError) as error:
            problem = f"the history of {run_id} cannot be read: {error}"
            return RunFacts(run_id, problem=problem, is_readable=False)
        if keep:
            self._facts[run_id] = _CachedFacts(worked_out_from, facts)
        return facts

    def write(self) -> None:
        """Write the facts of all runs that were read. Raises ``OSError``."""
        for run_id, cached in self._facts.items():
            data = json.dumps(to_builtins(cached), separators=(",", ":"))  # msgspec has null for infinity
            replace_shared(self._logs, self._path(run_id), data.encode())

    def _path(self, run_id: str) -> Path:
        return self._folder / f"{run_id}.json"

    def _read_file(self, run_id: str) -> _CachedFacts | None:
        try:
            data = read_shared(self._logs, self._path(run_id), MAX_HISTORY_BYTES)
            return convert(json.loads(data), _CachedFacts)
        except (OSError, ValueError, RecursionError):
            return None


def _need_users_code(entries: Sequence[AssertionEntry]) -> bool:
    return any(needs_users_code(parse_assertion(entry)) for entry in entries)


def _state_of(run: Path) -> str:
    """Changes with every change of the run's files."""
    collected = sorted((path.name, path.stat()) for path in run.glob("*"))
    return " ".join(f"{name}:{status.st_size}:{status.st_mtime_ns}" for name, status in collected)


@cache
def _code() -> str:
    """Changes with the judging code."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
