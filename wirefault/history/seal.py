"""Check the seal of a run: its files against their chains and against the runner's last event. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from msgspec.json import Decoder

from wirefault.history.events import RunFinished, RunSealed, SealedFile
from wirefault.history.lines import (
    ChainBreak,
    dump_event,
    event_start,
    first_break,
    line_hash,
    origin,
    unlinked,
)
from wirefault.history.logs import strip_control

Files = Mapping[str, Sequence[bytes]]

_SEAL = Decoder(RunSealed)


@dataclass(frozen=True)
class Alteration:
    """The first altered line of a file; for a lost line, its former position."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return strip_control(f"{self.file}:{self.line}: {self.what}")  # a planted file may have any name


@dataclass(frozen=True)
class Integrity:
    """The state of a run's chains and seal.

    ``seal``: the hash of the sealing line, empty without one; ``unsealed`` then says why. ``alterations``: at
    most one per file. ``late``: number of lines in each file after the seal.
    """

    seal: str = ""
    unsealed: str = ""
    alterations: tuple[Alteration, ...] = ()
    late: Mapping[str, int] = field(default_factory=dict)

    def remarks(self) -> Iterator[str]:
        """Yield a sentence for each problem that is not an alteration."""
        if self.unsealed:
            yield f"unsealed: {self.unsealed}"
        for file, count in self.late.items():
            yield f"{file}: {count} line{'s' * (count > 1)} after the seal, not judged"


def examine(run_id: str, files: Files, announced: str = "") -> Integrity:
    """Check the complete lines of a run's files, by file name, against their chains and the run's seal.

    ``announced``: the sealing line's hash in info.log; empty if missing.
    """
    breaks = {name: first_break(lines, origin(run_id, name)) for name, lines in files.items()}
    seals = _places(files, RunSealed)
    if not seals:
        lost = _lost_seal(files, announced)
        unsealed = "the seal is lost" if lost else "the run was killed or is still running"
        return Integrity("", unsealed, _alterations(breaks, lost))
    (runner, place), *more = seals
    seal = _read_seal(files[runner][place - 1])
    own = _seal_itself(files[runner], place, seal, announced)
    second = {name: ChainBreak(number, "inserted: a second seal") for name, number in more}
    others = _others(files, seal, runner) if seal else {}
    return Integrity(
        line_hash(files[runner][place - 1]),
        alterations=_alterations(breaks, second, {runner: own}, others),
        late=_late(files, seal) if seal else {},
    )


def _places(files: Files, kind: type[RunSealed | RunFinished]) -> list[tuple[str, int]]:
    """Return the files and line numbers of an event. The runner's file is the first by name."""
    start = event_start(kind)
    return [
        (name, number)
        for name, lines in sorted(files.items())
        for number, line in enumerate(lines, start=1)
        if line.startswith(start) and unlinked(line)
    ]


def _lost_seal(files: Files, announced: str) -> Mapping[str, ChainBreak]:
    """Return the break if a seal was removed. The runner writes its last two events together."""
    for name, number in _places(files, RunFinished):
        return {name: ChainBreak(number + 1, "altered or lost: run_sealed, which follows run_finished")}
    if announced:
        runner = "agent-0.jsonl"
        at = len(files.get(runner, ())) + 1
        return {runner: ChainBreak(at, f"lost: the end of the run, whose seal is {announced} in info.log")}
    return {}


def _read_seal(line: bytes) -> RunSealed | None:
    """Return the seal on a line; None if the runner cannot have written the line."""
    try:
        seal = _SEAL.decode(line)
    except (ValueError, RecursionError):
        return None
    possible = all(sealed.lines > 0 or sealed == SealedFile(0, "") for sealed in seal.files.values())
    return seal if possible and dump_event(seal) == unlinked(line) else None


def _seal_itself(
    lines: Sequence[bytes], place: int, seal: RunSealed | None, announced: str
) -> ChainBreak | None:
    """Return the damage to the sealing line, or after it; None if intact."""
    if seal is None or announced not in ("", line_hash(lines[place - 1])):
        return ChainBreak(place, "altered: not the seal of this run")
    if len(lines) > place:
        return ChainBreak(place + 1, "inserted: the runner wrote nothing after the seal")
    return None


def _others(files: Files, seal: RunSealed, runner: str) -> Mapping[str, ChainBreak | None]:
    """Return the damage to the other processes' files, by name."""
    unnamed = ChainBreak(1, "inserted: the run's seal does not name this file")
    planted = dict.fromkeys(files.keys() - seal.files.keys() - {runner}, unnamed)
    return planted | {name: _against(files.get(name, ()), sealed) for name, sealed in seal.files.items()}


def _against(lines: Sequence[bytes], sealed: SealedFile) -> ChainBreak | None:
    if len(lines) < sealed.lines:
        return ChainBreak(len(lines) + 1, f"lost: {sealed.lines} lines were sealed")
    if sealed.lines and line_hash(lines[sealed.lines - 1]) != sealed.head:
        return ChainBreak(sealed.lines, "altered or replaced: another line was sealed")
    return None


def _late(files: Files, seal: RunSealed) -> Mapping[str, int]:
    counts = {name: len(files.get(name, ())) - sealed.lines for name, sealed in sorted(seal.files.items())}
    return {name: count for name, count in counts.items() if count > 0}


def _alterations(*breaks: Mapping[str, ChainBreak | None]) -> tuple[Alteration, ...]:
    """Return the first alteration of each file."""
    firsts: dict[str, ChainBreak] = {}
    for name, broken in chain.from_iterable(of_files.items() for of_files in breaks):
        if broken and (name not in firsts or broken.line < firsts[name].line):
            firsts[name] = broken
    return tuple(Alteration(name, broken.line, broken.what) for name, broken in sorted(firsts.items()))
