"""Old runs and experiments in one file, ``logs/archive.zip``, which memory still reads."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO

from wirefault.core.errors import InputError
from wirefault.core.files import UnsafeFileError, files_below, open_shared
from wirefault.experiments.evidence import evidence_of, is_attempt_file, open_to_pack
from wirefault.experiments.index import StoredRun
from wirefault.history.writer import MAX_HISTORY_BYTES

ARCHIVE = "archive.zip"
# charts and pages are drawn again from the histories
_FOLDERS = ("experiments", "runs")
# of one run or experiment, unpacked
_MAX_BYTES = 16 * MAX_HISTORY_BYTES


def archive_runs(logs: Path, items: Sequence[StoredRun]) -> None:
    """Move these into the archive, each below its name.

    The archive is replaced whole, and nothing is removed before its copy was read back unaltered. A run that
    the archive has already, since a process was killed while it removed it, is only removed, if the archive
    has each of its files. Raises ``InputError``, or ``AlteredError`` if a recorded file was altered.
    """
    archived = set(archived_names(logs))
    fresh = [item for item in items if item.name not in archived]
    for item in fresh:
        evidence_of(logs, item.name).require_unaltered()
    for item in items:
        if item.name in archived:
            _require_archived(logs, item)
    target = logs / ARCHIVE
    temporary = target.with_name(f".{ARCHIVE}.{os.urandom(4).hex()}")
    try:
        if archived:
            with _opened(logs) as old, temporary.open("xb") as new:
                shutil.copyfileobj(old, new)
        with zipfile.ZipFile(temporary, "a", zipfile.ZIP_DEFLATED) as archive:
            for item in fresh:
                _add(archive, logs, item)
        with zipfile.ZipFile(temporary) as archive:
            for item in fresh:
                with _extracted(archive, item.name) as copy:
                    evidence_of(copy, item.name).require_unaltered()
        temporary.replace(target)
        for item in items:
            # the experiment's own folder last: without it, its runs would be lone ones
            for path in reversed(item.paths):
                shutil.rmtree(path)
    except (OSError, zipfile.BadZipFile) as error:
        if isinstance(error, UnsafeFileError):
            raise
        raise InputError(f"{target}: cannot archive: {error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def archived_names(logs: Path) -> list[str]:
    """The ids of the archived runs and experiments, oldest first. Raises ``InputError``."""
    try:
        with _opened(logs) as file, zipfile.ZipFile(file) as archive:
            return sorted({PurePosixPath(name).parts[0] for name in archive.namelist()})
    except FileNotFoundError:
        return []
    except (zipfile.BadZipFile, IndexError) as error:
        raise InputError(f"{logs / ARCHIVE}: cannot be read: {error}; move it away") from None


@contextmanager
def extracted(logs: Path, name: str) -> Iterator[Path]:
    """A temporary folder of logs with this archived run or experiment alone. Raises ``InputError``."""
    try:
        with _opened(logs) as file, zipfile.ZipFile(file) as archive, _extracted(archive, name) as copy:
            yield copy
    except zipfile.BadZipFile as error:
        raise InputError(f"{logs / ARCHIVE}: cannot be read: {error}; move it away") from None


def _require_archived(logs: Path, item: StoredRun) -> None:
    """Raise ``InputError`` unless the archive has an equal copy of each file that ``_add`` would add."""
    with extracted(logs, item.name) as copy:
        for path, file in _recorded(logs, item):
            archived = copy / path
            with file:
                recorded = hashlib.file_digest(file, "sha256").digest()
            if not archived.is_file() or hashlib.sha256(archived.read_bytes()).digest() != recorded:
                raise InputError(
                    f"{logs / ARCHIVE}: has {item.name} without {path}, or another one: nothing was removed."
                    " Move the archive away"
                )


def _opened(logs: Path) -> BinaryIO:
    return os.fdopen(open_shared(logs, logs / ARCHIVE, os.O_RDONLY), "rb")


def _add(archive: zipfile.ZipFile, logs: Path, item: StoredRun) -> None:
    for path, file in _recorded(logs, item):
        with file, archive.open(f"{item.name}/{path.as_posix()}", "w", force_zip64=True) as member:
            shutil.copyfileobj(file, member)


def _recorded(logs: Path, item: StoredRun) -> Iterator[tuple[Path, BufferedReader]]:
    """Open the files of its histories, one after the other, with their paths below ``logs``.

    Links, pipes and unreadable files of the subject are left out.
    """
    for path in (path for folder in item.paths for path in files_below(logs, folder)):
        relative = path.relative_to(logs)
        if relative.parts[0] in _FOLDERS:
            left_out = (UnsafeFileError, PermissionError) if is_attempt_file(logs, path) else ()
            with suppress(*left_out):
                yield relative, open_to_pack(logs, path)


@contextmanager
def _extracted(archive: zipfile.ZipFile, name: str) -> Iterator[Path]:
    members = [each for each in archive.infolist() if each.filename.startswith(f"{name}/")]
    if sum(each.file_size for each in members) > _MAX_BYTES:
        raise InputError(f"{ARCHIVE}: {name} has more than {_MAX_BYTES} bytes: not unpacked; move it away")
    with TemporaryDirectory(prefix="wirefault-") as folder:
        try:
            for member in members:
                # zipfile leaves out `..` and roots, writes regular files alone, and no more than file_size
                if member.file_size <= MAX_HISTORY_BYTES:
                    archive.extract(member, folder)
        # an encrypted member, an unknown or broken compression, a file that is a folder in another name
        except (RuntimeError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise zipfile.BadZipFile(f"{name}: {error}") from None
        yield Path(folder).resolve() / name
