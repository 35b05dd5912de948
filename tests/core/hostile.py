"""Traps that a hostile process in a container can put at the path of a file."""

from __future__ import annotations

import os
import socket
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

VICTIM = b"a file of the user's\n"
_MAGIC = bytes.fromhex("d9d505f920a163d7")
_PAGE, _SECTOR, _LOCK_BYTE = 4096, 512, 0x40000000


def victim_of(path: Path) -> Path:
    """A file elsewhere that must stay unchanged."""
    victim = path.parents[1] / "victim"
    victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_bytes(VICTIM)
    return victim


def link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def dangling_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("made-by-symlink"))


def hard_link(path: Path, victim: Path) -> None:
    os.link(victim, path)


def pipe(path: Path, _victim: Path) -> None:
    os.mkfifo(path)


def device(path: Path, _victim: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path, _victim: Path) -> None:
    path.mkdir()


def unix_socket(path: Path, _victim: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the address has room for a short name only
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


TRAPS: dict[str, Callable[[Path, Path], None]] = {
    trap.__name__: trap for trap in (link, dangling_link, hard_link, pipe, device, folder, unix_socket)
}


def journal_that_deletes(database: Path, victim: Path) -> None:
    """Write a hot journal of that database: the next rollback deletes ``victim``."""
    first_page = database.read_bytes()[:_PAGE]
    nonce = 1
    checksum = nonce + sum(first_page[index] for index in range(_PAGE - 200, 0, -200))
    pages = database.stat().st_size // _PAGE
    head = (_MAGIC + struct.pack(">5I", 1, nonce, pages, _SECTOR, _PAGE)).ljust(_SECTOR, b"\0")
    record = struct.pack(">I", 1) + first_page + struct.pack(">I", checksum)
    name = bytes(victim)
    super_journal = (
        struct.pack(">I", _LOCK_BYTE // _PAGE + 1) + name + struct.pack(">2I", len(name), sum(name))
    )
    database.with_name(database.name + "-journal").write_bytes(head + record + super_journal + _MAGIC)


def database_with(path: Path, *statements: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
