"""Opens files below ``state/`` and ``logs/``, which other users' processes may write into.

In Compose the containers share these folders with the user, so what lies there may be set up to harm whoever
opens it: a link to a file elsewhere, a pipe that nobody feeds, a file without end. The root folder itself
is the user's choice and may be a link; below it nothing is followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wirefault.core.errors import UserError
from wirefault.core.identity import identifier

# set on a folder, they say that Compose's init shared it with the services' group
_SHARED_WITH_GROUP = stat.S_ISGID | stat.S_IWGRP
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NOT_FOLLOWED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ROOT_USER = 0


class UnsafeFileError(UserError, OSError):
    """What lies there is not what the lab writes; the message names it and says what to do."""


def open_shared(root: Path, path: Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of the regular file ``path`` below the folder ``root``; the caller closes it.

    ``O_CREAT`` in ``flags`` makes the folders on the way, too, and the file with that ``mode``. Raises
    ``UnsafeFileError`` for what is a link, or no regular file, or has a second name, or belongs to somebody
    unexpected; else ``OSError``.
    """
    with _parent_folder(root, path, make=bool(flags & os.O_CREAT)) as (folder, owners):
        try:
            descriptor = os.open(path.name, flags | _NOT_FOLLOWED, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _unsafe(path, "no regular file") from None
            error.filename = str(path)
            raise
        try:
            _check(os.fstat(descriptor), owners, path)
        except UnsafeFileError:
            os.close(descriptor)
            raise
    os.set_blocking(descriptor, True)
    return descriptor


def read_shared(root: Path, path: Path, limit: int) -> bytes:
    """All of a file of at most ``limit`` bytes. Raises ``UnsafeFileError`` for a longer one, else like
    ``open_shared``.
    """
    with os.fdopen(open_shared(root, path, os.O_RDONLY), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _unsafe(path, f"larger than {limit} bytes, as no lab writes it")
    return data


def read_end_of_shared(root: Path, path: Path, limit: int) -> bytes:
    """The last ``limit`` bytes of a file, which may grow meanwhile. Raises like ``open_shared``."""
    with os.fdopen(open_shared(root, path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - limit)
        file.seek(start)
        return file.read(size - start)  # what has come since then is not at the end that was seen


def replace_shared(root: Path, path: Path, data: bytes) -> None:
    """Writes the file anew, in one step and whatever lay there. Raises ``UnsafeFileError``, ``OSError``."""
    temporary = f".{path.name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
    with _parent_folder(root, path, make=True) as (folder, _):
        with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_shared(root: Path, path: Path) -> None:
    """Removes a file, or the link in its place, if there is one. Raises ``UnsafeFileError``, ``OSError``."""
    try:
        with _parent_folder(root, path, make=False) as (folder, _):
            os.unlink(path.name, dir_fd=folder)
    except FileNotFoundError:
        return


def remove_empty_logs(root: Path, folder: Path) -> None:
    """Removes a folder if nothing stands in its files. What cannot be removed stays, as litter."""
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


def check_shared(path: Path) -> os.stat_result | None:
    """Raises ``UnsafeFileError`` unless a file that lies directly in a shared folder is fit to be opened.

    For files that a library opens by their name. None if there is no such file.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    _check(status, _expected_owners(path.parent.stat()), path)
    return status


@contextmanager
def _parent_folder(root: Path, path: Path, make: bool) -> Iterator[tuple[int, frozenset[int]]]:
    """The open folder that ``path`` lies in, and whom its files may belong to."""
    if make:
        root.mkdir(parents=True, exist_ok=True)
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
        raise _unsafe(path, "outside of its folder")
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _unsafe(path, f"reached through {name!r}, which is no folder") from None
        error.filename = str(path)
        raise


def _expected_owners(root: os.stat_result) -> frozenset[int]:
    """This user, root, the folder's owner and, in a folder that Compose shares, the services' user.

    The services' user and group have one number, which the folder's group shows to the user outside.
    """
    owners = {os.geteuid(), _ROOT_USER, root.st_uid}
    if root.st_mode & _SHARED_WITH_GROUP == _SHARED_WITH_GROUP:
        owners.add(root.st_gid)
    return frozenset(owners)


def _check(status: os.stat_result, owners: frozenset[int], path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(path, "no regular file")
    if status.st_nlink > 1:
        raise _unsafe(path, "one file under several names (hard links)")
    if status.st_uid not in owners:
        raise _unsafe(path, f"a file of user {status.st_uid}")


def _unsafe(path: Path, what: str) -> UnsafeFileError:
    return UnsafeFileError(f"{path} is {what}: it is not used; look at it, and move it away")


def write_whole(path: Path, data: bytes) -> None:
    """Writes the file anew, in one step, beside others who do. Raises ``OSError``: the old file stays."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


_OPEN_TO_OTHERS = 0o077


def private_folder() -> Path:
    """``wirefault`` in ``XDG_STATE_HOME``, else in ``~/.local/state``. Raises ``OSError`` without a home."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    if given.is_absolute():  # the specification has others ignored
        return given / "wirefault"
    try:
        return Path.home() / ".local" / "state" / "wirefault"
    except RuntimeError:
        raise OSError("this user has no home folder: set XDG_STATE_HOME to a folder of its own") from None


def make_private_folder() -> Path:
    """The folder, made if it is not there. Raises ``OSError`` if others than this user can enter it."""
    folder = private_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise OSError(f"{folder}: {error.strerror}: set XDG_STATE_HOME to a folder of your own") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & _OPEN_TO_OTHERS:
        raise OSError(f"{folder} must be yours alone (chmod 700), or set XDG_STATE_HOME to such a folder")
    return folder


def private_file(state: Path, suffix: str) -> Path:
    """The file in the private folder that belongs to the lab of that state folder, whatever leads there."""
    return private_folder() / (identifier(state.resolve()) + suffix)
