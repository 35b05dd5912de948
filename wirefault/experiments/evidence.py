"""The signed manifest of a run or an experiment, and whether its files still match it.

``manifest.json`` has the hash of every file of an experiment with its runs, or of a lone run: histories,
the subject's output and working folders, plan, facts and verdict. It is written twice: with plan, prompts and
earlier runs when the experiment is saved or resumed, and with all files when it ends. The signature covers
everything but the key and itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, structs, to_builtins
from msgspec.json import decode, encode

from wirefault.core.errors import UNKNOWN, InputError, UserError
from wirefault.core.files import (
    UnsafeFileError,
    files_below,
    folders_in,
    names_in,
    open_shared,
    read_shared,
    remove_shared,
    replace_shared,
)
from wirefault.core.signing import Signature, is_signed, own_key, sign, trusted_keys
from wirefault.experiments.index import MANIFEST, VERDICT, ids_by_age, is_dry_run, run_names, saved_ids
from wirefault.history.logs import strip_control
from wirefault.history.reader import HistoryError, announced_seal, read_history
from wirefault.history.writer import MAX_HISTORY_BYTES
from wirefault.judging.chart_data import CHARTS_FILE

MAX_MANIFEST_BYTES = 64 * 1024 * 1024
_PURPOSE = b"wirefault evidence 1\n"
_LINE_HASH_BYTES = 4
_HISTORY = ".jsonl"
_HISTORIES = (_HISTORY, ".jsonl.torn")
_ATTEMPTS = "attempts"
# bytes of a subject's file that are hashed, with its whole size
_MAX_HASHED = 64 * 1024 * 1024

State = Literal["signed", "whole", "unfinished", "altered"]
_Hex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*\Z")]


class AlteredError(UserError):
    """Recorded files were altered. ``places`` has the first altered line of each file."""

    code: ClassVar[int] = UNKNOWN

    def __init__(self, places: Sequence[str]) -> None:
        self.places = tuple(strip_control(place) for place in places)
        super().__init__("\n".join([f"altered: {place}" for place in self.places]))


@dataclass(frozen=True)
class Evidence:
    """The state of a recording's files."""

    state: State
    alterations: tuple[str, ...] = ()
    """The first altered line of each altered file, ``path:line: reason``."""
    key: str = ""
    """The public key of the signature; empty without one."""
    is_own: bool = False
    """Whether this user signed the plan; only then its commands and functions may run."""

    @property
    def is_trusted(self) -> bool:
        """Whether stored facts may be used instead of the histories."""
        return self.state == "signed"

    @property
    def text(self) -> str:
        """The state in a few words, for people."""
        if self.state == "signed":
            return "signed by this user" if self.is_own else f"signed by trusted key {self.key[:16]}"
        if self.state == "whole":
            signer = f"by key {self.key}, not yours (such as a container's or CI's)"
            return f"whole: unchanged since it was signed {signer}" if self.key else "whole, not signed"
        return self.state

    def as_json(self) -> dict[str, object]:
        return {"state": self.state, "key": self.key or None, "altered": list(self.alterations)}

    def require_unaltered(self) -> None:
        """Raise ``AlteredError`` if a file was altered."""
        if self.alterations:
            raise AlteredError(self.alterations)


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=0, le=MAX_HISTORY_BYTES)]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    lines: _Hex
    """Short hashes of the lines, to name the first altered one."""


class _Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    complete: bool
    files: Mapping[str, _File]
    key: _Hex = ""
    signature: _Hex = ""

    def signed_bytes(self) -> bytes:
        fields = {"id": self.id, "complete": self.complete, "files": to_builtins(self.files)}
        return _PURPOSE + json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def sign_recording(
    logs: Path, name: str, contents: Mapping[str, bytes] | None = None, *, complete: bool = True
) -> None:
    """Write the manifest of a lone run or an experiment. Raises ``OSError``.

    ``contents`` has the plan and its prompts, by file name, as this process wrote them. Before the end (not
    ``complete``) the manifest covers these and the runs until now.
    """
    folder = _home(logs, name)
    contents = contents or {}
    known = {_key(logs, folder / file): data for file, data in contents.items()}
    paths = _files(logs, name) if complete else _run_files(logs, name)
    files = {key: _described(data) for key, data in known.items()}
    files |= {key: _described(_read(logs, path)) for key, path in paths.items() if key not in known}
    unsigned = _Manifest(id=name, complete=complete, files=files)
    signature = sign(unsigned.signed_bytes())
    manifest = structs.replace(unsigned, key=signature.key, signature=signature.value)
    replace_shared(logs, folder / MANIFEST, encode(manifest) + b"\n")


def remove_signature(logs: Path, name: str) -> None:
    """Remove the manifest of a recording that this user continues and did not begin. Raises ``OSError``."""
    remove_shared(logs, _home(logs, name) / MANIFEST)


def evidence_of(logs: Path, name: str) -> Evidence:
    """Check the files of a run or an experiment. A run of an experiment is checked without the other runs.

    Raises ``OSError`` if the manifest cannot be read.
    """
    experiment = owner_of(logs, name)
    home = _home(logs, experiment or name)
    try:
        data = _read(logs, home / MANIFEST, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return _unsigned(logs, name, experiment)
    except UnsafeFileError as error:
        return Evidence("altered", (f"{home / MANIFEST}:1: {error}",))
    try:
        manifest = decode(data, type=_Manifest)
    except (ValueError, RecursionError) as error:
        return Evidence("altered", (f"{home / MANIFEST}:1: altered: not a manifest: {str(error)[:200]}",))
    signature = Signature(manifest.key, manifest.signature)
    if manifest.id != home.name or not is_signed(manifest.signed_bytes(), signature):
        return Evidence("altered", (f"{home / MANIFEST}:1: altered: the signature does not match",))
    is_own = manifest.key == own_key()
    trusted = is_own or manifest.key in trusted_keys()
    alterations = tuple(_compared(logs, name, experiment, manifest))
    if not trusted or not manifest.complete:
        alterations += _broken_chains(logs, name, alterations)
    if alterations:
        return Evidence("altered", alterations, manifest.key)
    state: State = "unfinished" if not manifest.complete else "signed" if trusted else "whole"
    return Evidence(state, (), manifest.key, is_own)


def latest_id(logs: Path) -> str:
    """Return the newest recording of this user, or of any user if there is none. Raises ``InputError``.

    Dry runs, which show nothing, are passed over. So are others' recordings, which a container may have
    planted with a later date, with a line on stderr.
    """
    passed: list[str] = []
    for latest in ids_by_age(logs):
        if is_dry_run(logs, latest):
            continue
        if is_of_this_user(logs, latest):
            break
        passed.append(latest)
    else:
        if not passed:
            raise InputError(f"{logs}: there are only dry runs, which show nothing; name one of them")
        return passed[0]
    if passed:
        from wirefault.lab.process import print_to_stderr  # a lab's modules are slow to import

        more = f" and {len(passed) - 1} more" if passed[1:] else ""
        print_to_stderr(f"latest: {latest}; passed over {passed[0]}{more}, not recorded by this user")
    return latest


def is_of_this_user(logs: Path, name: str) -> bool:
    """Return whether this user's key or a trusted one signed the recording.

    A lone run without a signature, such as one that was killed, counts if the user owns it and it is whole.
    """
    home = _home(logs, name)
    try:
        manifest = decode(_read(logs, home / MANIFEST, MAX_MANIFEST_BYTES), type=_Manifest)
    except FileNotFoundError:
        is_lone = home.parent.name == "runs" and home.lstat().st_uid == os.geteuid()
        return is_lone and not evidence_of(logs, name).alterations
    except (ValueError, RecursionError, OSError):
        return False
    signed = is_signed(manifest.signed_bytes(), Signature(manifest.key, manifest.signature))
    return manifest.id == home.name and signed and manifest.key in {own_key(), *trusted_keys()}


def owner_of(logs: Path, name: str) -> str:
    """Return the experiment with that id, or of the run with that id; empty for a lone run."""
    owners = [each for each in saved_ids(logs) if name == each or name.startswith((f"{each}-", f"{each}."))]
    return max(owners, key=len, default="")


def _home(logs: Path, name: str) -> Path:
    """Return the folder that has the manifest."""
    folder = logs / "experiments" / name
    return folder if folder.is_dir() else logs / "runs" / name


def _read(logs: Path, path: Path, limit: int = MAX_HISTORY_BYTES) -> bytes:
    """Return the content of a file; of an ``attempts`` folder, a line for each file below it."""
    if path.name == _ATTEMPTS:
        return "\n".join(line for line, _ in _attempt_files(logs, path)).encode()
    return read_shared(logs, path, limit)


def _attempt_files(logs: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield hash, size and name of each file, and its path.

    These are the subject's output and working folders. It may leave links, pipes and unreadable files there;
    they are left out.
    """
    for path in files_below(logs, folder):
        with suppress(OSError), open_recorded(logs, path) as file:
            digest = hashlib.sha256(file.read(_MAX_HASHED)).hexdigest()
            size, name = os.fstat(file.fileno()).st_size, json.dumps(str(path.relative_to(folder)))
            yield f"{digest} {size} {name}", path


def is_attempt_file(logs: Path, path: Path) -> bool:
    """Whether the file is below the ``attempts`` folder of a run."""
    return path.relative_to(logs).parts[2:3] == (_ATTEMPTS,)


def open_recorded(logs: Path, path: Path) -> BufferedReader:
    """Open a recorded file. Raises ``OSError`` for a link, a pipe, or a file that no command could read.

    Only a file of the subject may have any size, and several names: package managers make hard links.
    """
    is_subjects = is_attempt_file(logs, path)
    limit = None if is_subjects else MAX_HISTORY_BYTES
    descriptor = open_shared(logs, path, os.O_RDONLY, allow_hard_links=is_subjects, limit=limit)
    return os.fdopen(descriptor, "rb")


def open_to_pack(logs: Path, path: Path) -> BufferedReader:
    """Open a recorded file like ``open_recorded``. Raises ``InputError`` for a huge file of the subject."""
    file = open_recorded(logs, path)
    if os.fstat(file.fileno()).st_size > MAX_HISTORY_BYTES:
        file.close()
        limit = f"{MAX_HISTORY_BYTES // 1_000_000} MB"
        raise InputError(f"{path}: larger than {limit}: move this file of the agent away, or remove it")
    return file


def _files(logs: Path, name: str) -> dict[str, Path]:
    """Return the files that the manifest of that name covers, by their names in it."""
    home = _home(logs, name)
    own = files_below(logs, home) if home.parent.name != "runs" else []
    return {_key(logs, path): path for path in own if path != home / MANIFEST} | _run_files(logs, name)


def _run_files(logs: Path, name: str) -> dict[str, Path]:
    """Return the histories of its runs, and the ``attempts`` folder of each, which counts as one file."""
    paths: list[Path] = []
    for run in run_names(logs, name):
        if _belongs(run, name):
            folder = logs / "runs" / run
            names = [each for each in names_in(logs, folder) if each.endswith((*_HISTORIES, CHARTS_FILE))]
            names += [each for each in folders_in(logs, folder) if each == _ATTEMPTS]
            paths += [folder / each for each in names]
    return {_key(logs, path): path for path in paths}


def _key(logs: Path, path: Path) -> str:
    """Return the name of a file in the manifest, which is UTF-8."""
    return os.fsencode(path.relative_to(logs)).decode("utf-8", "backslashreplace")


def _belongs(run: str, name: str) -> bool:
    return run == name or run.startswith((f"{name}-", f"{name}."))


def _described(data: bytes) -> _File:
    return _File(size=len(data), sha256=hashlib.sha256(data).hexdigest(), lines=_line_hashes(data))


def _line_hashes(data: bytes) -> str:
    lines = data.split(b"\n")
    return "".join(hashlib.blake2b(line, digest_size=_LINE_HASH_BYTES).hexdigest() for line in lines)


def _compared(logs: Path, name: str, experiment: str, manifest: _Manifest) -> Iterator[str]:
    """Yield the first altered line of each file that does not match the manifest."""
    paths = _files(logs, experiment or name)
    present, expected = set(paths), set(manifest.files)
    if name != (experiment or name):  # one run of the experiment, with the plan
        own = (f"runs/{name}/", f"experiments/{experiment}/")
        present, expected = (
            {file for file in files if file.startswith(own)} for files in (present, expected)
        )
    for file in sorted(expected - present):
        if not (file.endswith(f"/{_ATTEMPTS}") and manifest.files[file].size == 0):
            yield f"{logs / file}:1: lost: the manifest names this file"
    for file in sorted(present - expected) if manifest.complete else ():
        if not (paths[file].name == _ATTEMPTS and not _read(logs, paths[file])):
            yield f"{logs / file}:1: inserted: the manifest does not name this file"
    for file in sorted(present & expected):
        if broken := _difference(logs, paths[file], manifest.files[file]):
            yield broken


def _difference(logs: Path, path: Path, recorded: _File) -> str:
    try:
        data = _read(logs, path)
    except OSError as error:
        return f"{path}:1: cannot be read: {error}"
    if hashlib.sha256(data[: recorded.size]).hexdigest() == recorded.sha256:
        if len(data) == recorded.size:
            return ""
        if path.suffix == _HISTORY:  # other processes may write after the seal; the chain must continue
            return next((place for place in _chain_alterations(logs, path) if f"{path}:" in place), "")
    if path.name == _ATTEMPTS:
        return _altered_attempt(logs, path, recorded)
    size = 2 * _LINE_HASH_BYTES
    now = _line_hashes(data)
    pairs = range(0, max(len(now), len(recorded.lines)), size)
    line = next((at // size for at in pairs if now[at : at + size] != recorded.lines[at : at + size]), 0) + 1
    return f"{path}:{line}: altered"


def _altered_attempt(logs: Path, folder: Path, recorded: _File) -> str:
    size = 2 * _LINE_HASH_BYTES
    known = {recorded.lines[at : at + size] for at in range(0, len(recorded.lines), size)}
    for line, path in _attempt_files(logs, folder):
        if _line_hashes(line.encode()) not in known:
            return f"{path}:1: altered or inserted"
    return f"{folder}:1: lost: a file of it"


def _unsigned(logs: Path, name: str, experiment: str) -> Evidence:
    """Judge files without a manifest by their chains alone."""
    if alterations := _broken_chains(logs, name):
        return Evidence("altered", alterations)
    if experiment:
        done = VERDICT in names_in(logs, logs / "experiments" / experiment)
        return Evidence("whole" if done else "unfinished")
    try:
        unsealed = read_history(logs, name).integrity.unsealed
    except (HistoryError, OSError):  # reported by the command that reads it
        return Evidence("whole")
    return Evidence("unfinished" if "running" in unsealed else "whole")


def _broken_chains(logs: Path, name: str, known: Sequence[str] = ()) -> tuple[str, ...]:
    files = {place.partition(":")[0] for place in known}
    runs = [run for run in run_names(logs, name) if _belongs(run, name)]
    broken = [place for run in runs for place in _run_alterations(logs, run)]
    return tuple(place for place in broken if place.partition(":")[0] not in files)


def _chain_alterations(logs: Path, path: Path) -> Iterator[str]:
    return _run_alterations(logs, path.parent.name)


def _run_alterations(logs: Path, run_id: str) -> Iterator[str]:
    try:
        history = read_history(logs, run_id)
    except (HistoryError, FileNotFoundError):
        if seal := announced_seal(logs, run_id):
            yield f"{logs / 'runs' / run_id}:1: lost: the history, whose seal is {seal} in info.log"
        return  # else a command that reads it says what is wrong
    except OSError as error:
        yield f"{logs / 'runs' / run_id}:1: cannot be read: {error}"
        return
    for alteration in history.integrity.alterations:
        yield f"{history.folder}/{alteration}"
