"""Files in shared folders are opened as regular files of the expected owner, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from tests.core.hostile import TRAPS, VICTIM, victim_of
from tests.support import PATIENCE_S
from wirefault.core import files
from wirefault.core.files import (
    UnsafeFileError,
    _expected_owners,
    check_shared,
    make_private_folder,
    open_shared,
    private_file,
    private_folder,
    read_shared,
    read_shared_tail,
    remove_empty_logs,
    remove_shared,
    replace_shared,
)

APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT
NOBODY = 65534


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "lab" / "logs"


def append(root: Path, path: Path) -> None:
    with os.fdopen(open_shared(root, path, APPENDING), "ab") as file:
        file.write(b"line\n")


def test_empty_file_reads_empty(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal being written: its incomplete start would be invalid once finished."""
    path, fstat = logs / "state.db-journal", os.fstat
    append(logs, path)

    def look_before_it_is_begun(descriptor: int) -> os.stat_result:
        path.write_bytes(b"")
        status = fstat(descriptor)
        path.write_bytes(b"the head, and much more")
        return status

    monkeypatch.setattr(os, "fstat", look_before_it_is_begun)
    assert read_shared_tail(logs, path, 8) == b""


def test_file_is_created_with_folders_and_read_again(logs: Path) -> None:
    path = logs / "runs" / "run-1" / "agent-0.jsonl"
    for _ in range(2):
        append(logs, path)
    assert read_shared(logs, path, 10) == b"line\nline\n"
    assert read_shared_tail(logs, path, 3) == b"ne\n"
    remove_shared(logs, path)
    remove_shared(logs, path)
    with pytest.raises(FileNotFoundError, match=r"agent-0\.jsonl"):
        read_shared(logs, path, 10)


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize(
    "use", [append, lambda root, path: read_shared(root, path, 100)], ids=["write", "read"]
)
def test_unsafe_file_is_one_line_error(logs: Path, trap, use) -> None:
    logs.mkdir(parents=True)
    path = logs / "agent.log"
    victim = victim_of(path)
    trap(path, victim)
    with pytest.raises(UnsafeFileError, match=r"agent\.log is .*: refusing to use it") as caught:
        use(logs, path)
    assert "\n" not in str(caught.value)
    assert victim.read_bytes() == VICTIM and not victim.with_name("made-by-symlink").exists()


def test_linked_folder_is_not_followed_except_root(logs: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(parents=True)
    logs.mkdir(parents=True)
    (logs / "runs").symlink_to(elsewhere)
    for use in (append, remove_shared, lambda root, path: replace_shared(root, path, b"")):
        with pytest.raises(UnsafeFileError, match="reached through 'runs', which is not a folder"):
            use(logs, logs / "runs" / "agent-0.jsonl")
    with pytest.raises(UnsafeFileError, match="outside its folder"):
        append(logs, logs / ".." / "x")
    assert list(elsewhere.iterdir()) == []
    append(logs / "runs", logs / "runs" / "agent-0.jsonl")  # the user named the root folder


def test_file_read_stops_at_limit(logs: Path) -> None:
    path = logs / "agent.log"
    append(logs, path)
    os.truncate(path, 1 << 40)  # sparse: uses no disk space
    with pytest.raises(UnsafeFileError, match="larger than 1000 bytes"):
        read_shared(logs, path, 1000)
    assert read_shared_tail(logs, path, 3) == b"\0\0\0"


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_replaced_file_link_is_not_followed(logs: Path, trap) -> None:
    logs.mkdir(parents=True)
    path = logs / "overview.png"
    victim = victim_of(path)
    trap(path, victim)
    if path.is_dir() and not path.is_symlink():
        with pytest.raises(IsADirectoryError):
            replace_shared(logs, path, b"png")
    else:
        replace_shared(logs, path, b"png")
        assert path.read_bytes() == b"png" and not path.is_symlink()
    assert victim.read_bytes() == VICTIM


def test_expected_file_owners(tmp_path: Path) -> None:
    mine = {os.geteuid(), 0, tmp_path.stat().st_uid}
    assert _expected_owners(tmp_path.stat()) == mine
    tmp_path.chmod(0o2770)  # set by Compose's init
    assert _expected_owners(tmp_path.stat()) == mine | {tmp_path.stat().st_gid}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_unexpected_owner_is_refused_and_service_owner_accepted(logs: Path) -> None:
    append(logs, logs / "agent.log")
    os.chown(logs / "agent.log", NOBODY, -1)
    with pytest.raises(UnsafeFileError, match=f"a file of user {NOBODY}"):
        append(logs, logs / "agent.log")
    with pytest.raises(UnsafeFileError, match=f"a file of user {NOBODY}"):
        check_shared(logs / "agent.log")
    os.chown(logs, -1, NOBODY)
    logs.chmod(0o2770)
    append(logs, logs / "agent.log")
    assert check_shared(logs / "none") is None


def test_only_empty_logs_are_removed(logs: Path, tmp_path: Path) -> None:
    for name, text in (("empty", ""), ("full", "x")):
        (logs / name).mkdir(parents=True)
        (logs / name / "manager.log").write_text(text)
        remove_empty_logs(logs, logs / name)
    (tmp_path / "mine").mkdir()
    (logs / "away").symlink_to(tmp_path / "mine")
    remove_empty_logs(logs, logs / "away")
    assert {path.name for path in logs.iterdir()} == {"full", "away"} and (tmp_path / "mine").is_dir()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME")
    return tmp_path


def test_private_folder_belongs_to_user_only(home: Path) -> None:
    folder = make_private_folder()
    assert folder == home / ".local" / "state" / "wirefault"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o770)
    with pytest.raises(OSError, match=r"must be private \(chmod 700\)"):
        make_private_folder()


@pytest.mark.parametrize(("value", "used"), [("relative", False), ("", False), ("/elsewhere", True)])
def test_named_private_folder_is_used(value: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert (private_folder() == Path("/elsewhere/wirefault")) is used


def test_uncreatable_folder_error_has_advice(home: Path) -> None:
    (home / ".local").touch()
    with pytest.raises(OSError, match=r"wirefault: .*: set XDG_STATE_HOME to a folder that you own"):
        make_private_folder()


def test_state_folder_ignores_spelling_of_path(home: Path) -> None:
    (home / "state").mkdir()
    (home / "link").symlink_to(home / "state")
    assert private_file(home / "link", ".lock") == private_file(home / "state", ".lock")
    assert private_file(home / "other", ".lock") != private_file(home / "state", ".lock")


def test_pipe_as_input_needs_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIPE_BOUND_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"without data for 0\.01 s.*pipe"):
        files.read_input(tmp_path / "pipe")
    monkeypatch.setattr(files, "PIPE_BOUND_S", PATIENCE_S)
    writer = Thread(target=(tmp_path / "pipe").write_text, args=["SEED=1\n"])
    writer.start()
    assert files.read_input(tmp_path / "pipe") == "SEED=1\n"
    writer.join()


def test_input_may_be_a_link_and_a_pipe_kept_open_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("SEED=1\n")
    (tmp_path / "link").symlink_to("file")
    assert files.read_input(tmp_path / "link") == "SEED=1\n"
    monkeypatch.setattr(files, "PIPE_BOUND_S", 0.01)
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writer, b"SEED")
    with pytest.raises(OSError, match=r"without data for 0\.01 s.*pipe"):
        files.read_input(tmp_path / "pipe")
    os.close(writer)
