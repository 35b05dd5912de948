"""A run or an experiment as one archive, to hand it to a colleague."""

from __future__ import annotations

import os
import tarfile
from contextlib import suppress
from pathlib import Path

from wirefault.core.errors import InputError
from wirefault.core.files import UnsafeFileError, files_below
from wirefault.experiments.evidence import Evidence, evidence_of, is_attempt_file, open_to_pack
from wirefault.experiments.index import stored_runs, unknown_recording


def write_bundle(logs: Path, name: str, file: Path) -> Evidence:
    """Pack the run or experiment into a new file; return the state of its evidence.

    Raises ``InputError``, or ``AlteredError`` if a recorded file was altered.
    """
    item = next((each for each in stored_runs(logs) if each.name == name), None)
    if item is None:
        raise unknown_recording(logs, name)
    evidence = evidence_of(logs, name)
    evidence.require_unaltered()
    try:
        with tarfile.open(file, "x:gz") as archive:
            for path in (file for folder in item.paths for file in files_below(logs, folder)):
                _add(archive, logs, path)
    except FileExistsError:
        raise InputError(f"{file}: already exists; name another file, or remove it") from None
    except (InputError, UnsafeFileError):
        file.unlink()
        raise
    except OSError as error:
        raise InputError(f"{error.filename or file}: {error.strerror}") from None
    return evidence


def _add(archive: tarfile.TarFile, logs: Path, path: Path) -> None:
    """Add a file without its owner's name; the subject's links, pipes and unreadable files are left out."""
    left_out = (UnsafeFileError, PermissionError) if is_attempt_file(logs, path) else ()
    with suppress(*left_out), open_to_pack(logs, path) as file:
        status = os.fstat(file.fileno())
        member = tarfile.TarInfo(f"logs/{path.relative_to(logs)}")
        member.size, member.mtime, member.mode = status.st_size, status.st_mtime, status.st_mode & 0o777
        archive.addfile(member, file)
