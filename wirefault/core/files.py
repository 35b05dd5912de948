"""Open files below ``state/`` and ``logs/``, where other users' processes may write.

In Compose the containers share these folders with the user, so a file there may be an attack on its reader: a
link to another file, a pipe without a writer, an endless file. The root folder is the user's choice and may
be a link. Links below it are never followed.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wirefault.core.errors import UserError

# mode bits by which Compose's init marks a folder as shared with the services' group
_SHARED_WITH_GROUP = stat.S_ISGID | stat.S_IWGRP
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_FOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT_USER = 0
_MAX_DEPTH = 64
MAX_INPUT_BYTES = 32_000_000  # of one file that the user wrote: a longer one takes minutes to parse
PIPE_BOUND_S = 5
_CHUNK_BYTES = 1 << 20


class UnsafeFileError(UserError, OSError):
    """A file that the lab did not write; the message names it and says what to do."""


def open_shared(
    root: Path,
    path: Path,
    flags: int,
    mode: int = 0o666,
    *,
    allow_hard_links: bool = False,
    limit: int | None = None,
) -> int:
    """Return a descriptor of the regular file ``path`` below the folder ``root``; the caller closes it.

    With ``O_CREAT`` in ``flags``, create missing folders and the file with ``mode``. Raises
    ``UnsafeFileError`` for a link, a file that is not regular, several hard links (unless
    ``allow_hard_links``), an unexpected owner, or more than ``limit`` bytes; otherwise ``OSError``.
    """
    with _parent_folder(root, path, make=bool(flags & os.O_CREAT)) as (folder, owners):
        try:
            descriptor = os.open(path.name, flags | _NOT_FOLLOWED, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _unsafe(path, "not a regular file") from None
            error.filename = str(path)
            raise
        try:
            status = os.fstat(descriptor)
            _check(status, owners, path, allow_hard_links=allow_hard_links)
            if limit is not None and status.st_size > limit:
                raise _too_large(path, limit)
        except UnsafeFileError:
            os.close(descriptor)
            raise
    os.set_blocking(descriptor, True)
    return descriptor


def read_shared(root: Path, path: Path, limit: int) -> bytes:
    """Read a whole file of at most ``limit`` bytes.

    Raises ``UnsafeFileError`` if the file is larger, and the errors of ``open_shared``.
    """
    with os.fdopen(open_shared(root, path, os.O_RDONLY, limit=limit), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it grew
        raise _too_large(path, limit)
    return data


def read_shared_head(root: Path, path: Path, limit: int) -> bytes:
    """Read at most the first ``limit`` bytes of a file. Raises the errors of ``open_shared``."""
    with os.fdopen(open_shared(root, path, os.O_RDONLY), "rb") as file:
        return file.read(limit)


def read_shared_tail(root: Path, path: Path, limit: int) -> bytes:
    """Read the last ``limit`` bytes of a file that may still grow. Raises the errors of ``open_shared``."""
    with os.fdopen(open_shared(root, path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - limit)
        file.seek(start)
        return file.read(size - start)  # skip bytes appended since the size was read


def names_in(root: Path, folder: Path) -> list[str]:
    """Return the sorted names in the folder; none if it is missing. Raises ``UnsafeFileError`` for a link."""
    return _names(root, folder, lambda entry: True)


def folders_in(root: Path, folder: Path) -> list[str]:
    """Return the sorted names of the folders in the folder, without links; none if it is missing."""
    return _names(root, folder, lambda entry: entry.is_dir(follow_symlinks=False))


def _names(root: Path, folder: Path, wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    try:
        with (
            _parent_folder(root, folder / "*", make=False) as (descriptor, _),
            os.scandir(descriptor) as entries,
        ):
            return sorted(entry.name for entry in entries if wanted(entry))
    except FileNotFoundError:
        return []


def files_below(root: Path, folder: Path) -> list[Path]:
    """Return the sorted paths of all files below the folder. Links are listed, not followed.

    Folders more than 64 levels below it are skipped, because their paths could be too long to open.
    """
    return sorted(_files_below(root, folder, _MAX_DEPTH))


def _files_below(root: Path, folder: Path, depth: int) -> Iterator[Path]:
    for name in names_in(root, folder):
        path = folder / name
        if not stat.S_ISDIR(path.lstat().st_mode):
            yield path
        elif depth:
            yield from _files_below(root, path, depth - 1)


def replace_shared(root: Path, path: Path, data: bytes) -> None:
    """Create or replace the file atomically. Raises ``UnsafeFileError`` or ``OSError``."""
    temporary = f".{path.name}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
    with _parent_folder(root, path, make=True) as (folder, _):
        try:
            with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
                file.write(data)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            error.filename = str(path)  # the error of a full disk names no file
            raise


def remove_shared(root: Path, path: Path) -> None:
    """Remove a file, or a link of that name, if it exists. Raises ``UnsafeFileError`` or ``OSError``."""
    try:
        with _parent_folder(root, path, make=False) as (folder, _):
            os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return


def remove_empty_logs(root: Path, folder: Path) -> None:
    """Remove a folder if all its files are empty. Files that cannot be removed are left behind."""
    with suppress(OSError):
        with _parent_folder(root, folder / "any", make=False) as (descriptor, _):
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in entries]
            if any(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_size for name in names):
                return
            for name in names:
                os.unlink(name, dir_fd=descriptor)
        with _parent_folder(root, folder, make=False) as (parent, _):
            os.rmdir(folder.name, dir_fd=parent)


# holds ``logs`` and ``state`` in a folder that is not a lab
OUTPUT_FOLDER = ".wirefault"
_GITIGNORE = b"# written by Wirefault; git ignores this folder\n*\n"


def make_output_folder(folder: Path) -> None:
    """Create a folder of logs or state. Git ignores a new ``.wirefault`` above it. Raises ``OSError``."""
    own = next((parent for parent in folder.parents if parent.name == OUTPUT_FOLDER), None)
    folder.mkdir(parents=True, exist_ok=True)
    if own is not None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
        with suppress(FileExistsError), os.fdopen(os.open(own / ".gitignore", flags, 0o666), "wb") as file:
            file.write(_GITIGNORE)


def check_shared(path: Path) -> os.stat_result | None:
    """Return the status of a file directly in a shared folder; None if it does not exist.

    For libraries that open files by name. Raises ``UnsafeFileError`` if it is not safe to open.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    _check(status, _expected_owners(path.parent.stat()), path)
    return status


@contextmanager
def _parent_folder(root: Path, path: Path, make: bool) -> Iterator[tuple[int, frozenset[int]]]:
    """Return the open parent folder of ``path`` and the owners that its files may have."""
    if make:
        make_output_folder(root)
    folder = os.open(root, _FOLDER)
    try:
        owners = _expected_owners(os.fstat(folder))
        for name in path.absolute().relative_to(root.absolute()).parts[:-1]:
            below = _open_folder(folder, name, make, path)
            os.close(folder)
            folder = below
        yield folder, owners
    finally:
        os.close(folder)


def _open_folder(parent: int, name: str, make: bool, path: Path) -> int:
    if name == os.pardir:
        raise _unsafe(path, "outside its folder")
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _unsafe(path, f"reached through {name!r}, which is not a folder") from None
        error.filename = str(path)
        raise


def _expected_owners(root: os.stat_result) -> frozenset[int]:
    """Return this user, root, the folder's owner and, for a folder shared by Compose, the services' user.

    The services' user and group have the same number, so the host sees that user as the folder's group.
    """
    owners = {os.geteuid(), _ROOT_USER, root.st_uid}
    if root.st_mode & _SHARED_WITH_GROUP == _SHARED_WITH_GROUP:
        owners.add(root.st_gid)
    return frozenset(owners)


def _check(
    status: os.stat_result, owners: frozenset[int], path: Path, *, allow_hard_links: bool = False
) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(path, "not a regular file")
    if status.st_nlink > 1 and not allow_hard_links:
        raise _unsafe(path, "one file under several names (hard links)")
    if status.st_uid not in owners:
        raise _unsafe(path, f"a file of user {status.st_uid}")


def _too_large(path: Path, limit: int) -> UnsafeFileError:
    return _unsafe(path, f"larger than {limit} bytes: the lab never writes such a file")


def _unsafe(path: Path, what: str) -> UnsafeFileError:
    return UnsafeFileError(f"{path} is {what}: refusing to use it. Inspect it and move it away")


def read_input(path: Path, encoding: str = "utf-8") -> str:
    """Read a text file of the user's. Raises ``OSError``, also if it is too large, ``UnicodeDecodeError``."""
    text = read_input_bytes(path).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_input_bytes(path: Path, limit: int = MAX_INPUT_BYTES) -> bytes:
    """Read a file of the user's, which may be a link. Raises ``OSError``.

    Also for a file larger than ``limit``, and a named pipe whose writer leaves it open in silence.
    """
    data = bytearray()
    with open(path, "rb", buffering=0, opener=_open_input) as file:
        while len(data) <= limit and (more := file.read(_CHUNK_BYTES)):
            data += more
            _await_data(file.fileno(), str(path))
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit // 1_000_000} MB", str(path))
    return bytes(data)


def _open_input(path: str, flags: int) -> int:
    """Open a file. Raises ``OSError`` for a named pipe into which no program writes."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    try:
        _await_data(descriptor, path)
    except OSError:
        os.close(descriptor)
        raise
    os.set_blocking(descriptor, True)
    return descriptor


def _await_data(descriptor: int, path: str) -> None:
    """Wait until a named pipe has data or its end. Raises ``OSError`` after ``PIPE_BOUND_S``."""
    if path.startswith(("/dev/", "/proc/")):  # as a shell's <(...), whose writer may be slow
        return
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        if not ready.poll(PIPE_BOUND_S * 1000):
            raise OSError(errno.ETIMEDOUT, f"a pipe without data for {PIPE_BOUND_S} s", path)


def write_whole(path: Path, data: bytes) -> None:
    """Replace the file atomically, even while other processes do the same.

    Raises ``OSError``; the old file then remains.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        error.filename = str(path)
        raise


_OPEN_TO_OTHERS = 0o077


def private_folder() -> Path:
    """Return ``wirefault`` in ``XDG_STATE_HOME``, or in ``~/.local/state``.

    Raises ``OSError`` if the user has no home folder.
    """
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    if configured.is_absolute():  # the XDG specification says to ignore relative paths
        return configured / "wirefault"
    try:
        return Path.home() / ".local" / "state" / "wirefault"
    except RuntimeError:
        raise OSError("this user has no home folder: set XDG_STATE_HOME to a private folder") from None


def make_private_folder() -> Path:
    """Return the private folder, created if missing. Raises ``OSError`` if other users can enter it."""
    folder = private_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise OSError(f"{folder}: {error.strerror}: set XDG_STATE_HOME to a folder that you own") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & _OPEN_TO_OTHERS:
        raise OSError(
            f"{folder} must be private (chmod 700): change it or set XDG_STATE_HOME to a private folder"
        )
    return folder


def private_file(state: Path, suffix: str) -> Path:
    """Return the private file of the lab with that state folder. All paths to one folder give one file."""
    from wirefault.core.identity import identifier  # imported here, since every command imports this module

    return private_folder() / (identifier(state.resolve()) + suffix)
