"""The saved experiments: ids, verdicts, titles and timing, without loading them."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, convert
from msgspec.json import decode

from wirefault.core.errors import InputError, nearest
from wirefault.core.files import folders_in, names_in, read_shared, read_shared_head, read_shared_tail
from wirefault.core.interrupts import is_interruption
from wirefault.core.private_files import is_owned
from wirefault.core.signing import own_key
from wirefault.history.events import Note, RunFinished, RunStarted
from wirefault.history.lines import BaseEvent, event_start
from wirefault.history.reader import LIVE
from wirefault.judging.ending import CUT_SHORT, DRY_RUN, EARLY, INTERRUPTED, NO_VERDICT

PLAN, VERDICT, END = "plan.json", "verdict.json", "end.json"
MANIFEST, AUDIT = "manifest.json", "audit.json"
PAGES = "pages"
"""Folder of the pages below the logs, one folder for each run or experiment."""
# bytes of a stored JSON document; 1000 statements in 100 arms take a tenth of it
MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_NEWEST = 8
_ACTIVE_WITHIN_S = 60.0
# of a history's file, at its beginning and at its end
_MAX_END_BYTES = 1024 * 1024
_TIME_OF_ID = re.compile(r"\d{8}-\d{6}(?=-)")
_ShownT = TypeVar("_ShownT", bound=Struct)
# a folder whose last change is older than the grain of the file system's clock
_SETTLED_NS = 1_000_000_000
# the folders of runs that have begun, which no run ceases to have
_BEGUN: set[Path] = set()


class _Timing(Struct, frozen=True):
    seconds: float
    episodes: int
    workers: int


class RunCost(Struct, frozen=True):
    """Time of the last run of an experiment, with its episodes and workers."""

    experiment_id: str
    seconds: float
    episodes: int
    workers: int
    estimates: Mapping[str, Mapping[str, float]] = {}
    """By arm: its measures, where known."""


class _StoredCheck(Struct, frozen=True):
    arm: str
    statement: str
    verdict: str
    measured: dict[str, Any]


class _StoredMeasure(Struct, frozen=True):
    estimate: float | None = None


class _StoredArm(Struct, frozen=True):
    arm: str
    measures: dict[str, _StoredMeasure] = {}


class StoredVerdict(Struct, frozen=True):
    """The parts of ``verdict.json`` that lists, plans and trends read.

    The document has the figures of checks and arms without their estimates, so ``Check`` and ``ArmResult``
    cannot be read back from it: they are made again from the stored facts.
    """

    title: str
    verdict: str | None = None
    because: str = ""
    worst: str | None = None
    timing: _Timing | None = None
    checks: list[_StoredCheck] = []
    arms: list[_StoredArm] = []


def read_verdict(folder: Path) -> StoredVerdict:
    """Read the verdict of an experiment. Raises ``OSError``, or ``ValueError`` for another document."""
    return convert(read_document(folder.parents[1], folder / VERDICT), StoredVerdict)


def saved_ids(logs: Path) -> list[str]:
    """The ids of all saved experiments, oldest first."""
    folder = logs / "experiments"
    return [name for name in folders_in(logs, folder) if PLAN in names_in(logs, folder / name)]


def is_dry_run(logs: Path, name: str) -> bool:
    """Whether it is an audit that was to ask nothing; ``latest`` passes it over."""
    try:
        return bool(read_document(logs, logs / "experiments" / name / AUDIT)["dry_run"])
    except (OSError, ValueError, KeyError, TypeError):  # its reader says what is wrong
        return False


def run_names(logs: Path, start: str) -> list[str]:
    """The sorted names of all run folders that begin with ``start``."""
    folder = logs / "runs"
    try:
        status = folder.stat()
    except FileNotFoundError:
        return []
    state = status.st_ino, status.st_mtime_ns
    is_settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    names = _listed(logs, folder, state) if is_settled else folders_in(logs, folder)
    at = bisect_left(names, start)
    return list(takewhile(lambda name: name.startswith(start), islice(names, at, None)))


@lru_cache(maxsize=1)  # all arms are read one after the other, and there may be thousands of runs
def _listed(logs: Path, folder: Path, state: tuple[int, int]) -> Sequence[str]:
    """As ``folders_in``; ``state`` is the folder's inode and time of change."""
    return folders_in(logs, folder)


def run_ids_of(logs: Path, name: str) -> list[str]:
    """The runs of that experiment; a lone run's own id."""
    names = [run for run in run_names(logs, name) if run == name or run.startswith((f"{name}-", f"{name}."))]
    return [run for run in names if _has_history(logs, run)]


def has_begun(logs: Path, run: str) -> bool:
    """Return whether a run has recorded more than notes: else it was killed, or is, before its first event.

    A history that lost its beginning has begun.
    """
    folder = logs / "runs" / run
    if folder in _BEGUN:
        return True
    files, note = names_in(logs, folder), event_start(Note)
    for file in files:
        try:
            data = read_shared_head(logs, folder / file, _MAX_END_BYTES)
        except OSError:  # a folder of the agent's files, or its reader says what is wrong
            data = b"\n"
        lines = data.split(b"\n")[:-1]
        if len(data) == _MAX_END_BYTES or not all(line.startswith(note) for line in lines):
            _BEGUN.add(folder)
            return True
    return False


def recorded_runs(logs: Path) -> list[str]:
    """The ids of all runs with a history, oldest first."""
    return [name for name in folders_in(logs, logs / "runs") if _has_history(logs, name)]


def _has_history(logs: Path, run: str) -> bool:
    return any(file.endswith(".jsonl") for file in names_in(logs, logs / "runs" / run))


def lone_runs(logs: Path) -> list[str]:
    """The ids of the runs outside any experiment, oldest first, without live traffic."""
    experiments = set(saved_ids(logs))
    prefixes = tuple(start for name in experiments for start in (f"{name}-", f"{name}."))
    names = [name for name in recorded_runs(logs) if name not in experiments]
    return [name for name in names if not name.startswith((*prefixes, LIVE))]


def unknown_recording(logs: Path, name: str) -> InputError:
    """Return the error about a name that no run or experiment has; a tournament has experiments."""
    known = [*saved_ids(logs), *recorded_runs(logs)]
    if f"{name}.1" in known:
        return InputError(
            f"{name} is a tournament: wirefault report {name} shows it, and {name}.1 is the experiment of its"
            " first arm"
        )
    return InputError(f"{logs}: unknown run or experiment {name!r}{nearest(name, known[-_NEWEST:])}")


def started_text(name: str) -> str:
    """Return the time in a recording's id as ``2026-11-27 02:16:04``; empty without one."""
    match = _TIME_OF_ID.match(name)
    if match is None:
        return ""
    try:
        return str(datetime.strptime(match[0], "%Y%m%d-%H%M%S"))
    except ValueError:
        return ""


def ids_by_age(logs: Path) -> list[str]:
    """The experiments and lone runs, newest first. Ids begin with the time. Raises ``InputError`` if none."""
    names = [*saved_ids(logs), *lone_runs(logs)]
    if not names:
        raise InputError(f"{logs}: no runs; start one with: wirefault demo")
    return sorted(names, reverse=True)


@dataclass(frozen=True)
class StoredRun:
    """A stored run or experiment, with everything that belongs to it."""

    name: str
    paths: tuple[Path, ...]

    @property
    def size(self) -> int:
        return sum(file.lstat().st_size for path in self.paths for file in path.rglob("*") if file.is_file())

    @property
    def is_active(self) -> bool:
        """Return whether it was written to just now."""
        times = [file.lstat().st_mtime for path in self.paths for file in path.rglob("*")]
        return time.time() - max(times, default=0.0) < _ACTIVE_WITHIN_S


def stored_runs(logs: Path) -> Iterator[StoredRun]:
    """Return all runs and experiments, oldest first; an experiment contains its runs. Raises
    ``InputError``.
    """
    for folder in (logs, *(logs / name for name in ("experiments", "runs", "charts", PAGES))):
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link: refusing to use it")
    for name in sorted([*saved_ids(logs), *lone_runs(logs)]):
        runs = run_ids_of(logs, name)
        paths = [logs / "experiments" / name, *(logs / "runs" / run for run in runs)]
        paths += [logs / made / each for made in ("charts", PAGES) for each in dict.fromkeys((name, *runs))]
        yield StoredRun(name, tuple(path for path in paths if path.is_dir() and not path.is_symlink()))


def last_run_of(logs: Path, title: str) -> RunCost | None:
    """Timing of the last experiment with that title; None if unknown."""
    for experiment_id in reversed(saved_ids(logs)):
        try:
            verdict = read_verdict(logs / "experiments" / experiment_id)
        except (OSError, ValueError):  # from another version, or interrupted
            continue
        if verdict.title == title and verdict.timing and verdict.timing.episodes:
            estimates = {
                arm.arm: {
                    name: each.estimate for name, each in arm.measures.items() if each.estimate is not None
                }
                for arm in verdict.arms
            }
            timing = verdict.timing
            return RunCost(experiment_id, timing.seconds, timing.episodes, timing.workers, estimates)
    return None


@dataclass(frozen=True)
class ListedRun:
    """A run or an experiment in a list, by what was recorded when it ended."""

    verdict: str
    """Of the hypothesis; without one, what the run showed, see ``judging.ending``."""
    worst: str
    """Severity and rule of the worst finding; ``none``, or ``-`` if it is not known."""
    tested: str
    """The agent, as its first run names it; ``-`` without one."""
    title: str


def listed_run(logs: Path, name: str, *, is_saved: bool) -> ListedRun:
    """Describe a saved experiment, or a lone run, without judging it."""
    begun, end = _ends_of(logs, name)
    tested = begun.subject if begun else "-"
    if not is_saved:
        prompts = f"{begun.prompts} prompt{'s' * (begun.prompts != 1)}" if begun else "-"
        if end is None and not is_running(logs, name):
            return _in_words(INTERRUPTED, None, tested, prompts)
        return _in_words(end.word if end else "", end.worst if end else None, tested, prompts)
    folder = logs / "experiments" / name
    try:
        title = str(read_document(logs, folder / PLAN)["experiment"]["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return ListedRun("unreadable", "-", tested, f"{PLAN}: {error}")
    try:
        stored = read_verdict(folder)
    except FileNotFoundError:  # killed before
        stored = StoredVerdict(title)
    except (OSError, ValueError) as error:
        return ListedRun("unreadable", "-", tested, f"{VERDICT}: {error}")
    if is_dry_run(logs, name):
        return ListedRun(DRY_RUN, "-", tested, title)
    word = stored.verdict or _early_word(logs, name, stored.because)
    if word in EARLY and is_running(logs, name):  # perhaps resumed
        return _in_words("", None, tested, title)
    return _in_words(word, stored.worst, tested, title)


def _early_word(logs: Path, name: str, because: str) -> str:
    """``because``: of its document; of one that was killed, its last run's end decides."""
    if because:
        return CUT_SHORT if because.startswith(CUT_SHORT) else INTERRUPTED
    ran = [run for run in run_ids_of(logs, name) if has_begun(logs, run)]
    end = _ends_of_run(logs, ran[-1])[1] if ran else None
    return INTERRUPTED if end is None or not end.reason or is_interruption(end.reason) else CUT_SHORT


def early_word(logs: Path, name: str) -> str:
    """Return the word of a recording without its end, as a list shows it; empty for all others."""
    is_saved = name in saved_ids(logs)
    if not is_saved and _ends_of(logs, name)[1] is not None:
        return ""
    with suppress(OSError, ValueError):  # `listed_run` says what is wrong
        if is_saved and (read_verdict(logs / "experiments" / name).verdict or NO_VERDICT) not in EARLY:
            return ""
    word = listed_run(logs, name, is_saved=is_saved).verdict
    return word if word in EARLY else ""


def is_running(logs: Path, name: str) -> bool:
    """Return whether a saved experiment without a verdict is still being run, as far as is known here."""
    if END in names_in(logs, logs / "experiments" / name):  # removed when it is resumed
        return False
    runs = run_ids_of(logs, name)
    labs = {begun.lab_id for run in runs if (begun := _ends_of(logs, run)[0])}
    owned = {is_owned(lab_id) for lab_id in labs}
    if True in owned or False in owned or (owned and _is_own(logs, name)):  # a dead lab's files are swept
        return True in owned
    return StoredRun(name, (logs / "experiments" / name, *(logs / "runs" / run for run in runs))).is_active


def _is_own(logs: Path, name: str) -> bool:
    """Return whether the manifest names this user's key."""
    try:
        manifest = read_document(logs, logs / "experiments" / name / MANIFEST)
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("key") == own_key()


def _in_words(verdict: str, worst: str | None, tested: str, title: str) -> ListedRun:
    return ListedRun(verdict or NO_VERDICT, "-" if worst is None else worst or "none", tested, title)


class _Begun(Struct):
    """The fields of ``RunStarted`` that a list shows."""

    subject: str
    prompts: int
    lab_id: str = ""


class _Ended(Struct):
    """The fields of ``RunFinished`` that a list shows."""

    word: str = ""
    worst: str | None = None
    reason: str = ""


def _ends_of(logs: Path, name: str) -> tuple[_Begun | None, _Ended | None]:
    """Read the beginning and the end of the first run: only the ends of its file."""
    runs = (run for run in run_names(logs, name) if run == name or run.startswith((f"{name}-", f"{name}.")))
    run = next((run for run in runs if has_begun(logs, run)), "")
    return _ends_of_run(logs, run)


def _ends_of_run(logs: Path, run: str) -> tuple[_Begun | None, _Ended | None]:
    folder = logs / "runs" / run
    file = next((each for each in names_in(logs, folder) if each.startswith("agent-")), "") if run else ""
    if not file:
        return None, None
    try:
        head = read_shared_head(logs, folder / file, _MAX_END_BYTES)
        tail = read_shared_tail(logs, folder / file, _MAX_END_BYTES)
    except OSError:
        return None, None
    return _event_in(head, RunStarted, _Begun), _event_in(tail, RunFinished, _Ended)


def _event_in(data: bytes, kind: type[BaseEvent], to_type: type[_ShownT]) -> _ShownT | None:
    start = event_start(kind)
    for line in data.split(b"\n"):
        if line.startswith(start):
            with suppress(ValueError):  # cut off, or planted
                return decode(line, type=to_type)
    return None


def read_document(logs: Path, path: Path) -> Any:
    """Read a stored JSON document. Raises ``OSError``, or ``ValueError`` if it is not JSON."""
    try:
        return json.loads(read_shared(logs, path, MAX_DOCUMENT_BYTES))
    except RecursionError:
        raise ValueError("nested too deeply") from None
