"""What others are to trust lies where only its user can write."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from wirefault.core.private_files import make_private_folder, private_file, private_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME")
    return tmp_path


def test_the_folder_is_the_users_alone(home: Path) -> None:
    folder = make_private_folder()
    assert folder == home / ".local" / "state" / "wirefault"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o770)
    with pytest.raises(OSError, match=r"must be yours alone \(chmod 700\)"):
        make_private_folder()


@pytest.mark.parametrize(("given", "taken"), [("relative", False), ("", False), ("/elsewhere", True)])
def test_a_folder_that_is_named_is_taken(given: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", given)
    assert (private_folder() == Path("/elsewhere/wirefault")) is taken


def test_one_that_cannot_be_made_is_said_with_what_helps(home: Path) -> None:
    (home / ".local").touch()
    with pytest.raises(OSError, match=r"wirefault: .*: set XDG_STATE_HOME to a folder of your own"):
        make_private_folder()


def test_a_state_folder_has_one_file_whatever_leads_there(home: Path) -> None:
    (home / "state").mkdir()
    (home / "link").symlink_to(home / "state")
    assert private_file(home / "link", ".lock") == private_file(home / "state", ".lock")
    assert private_file(home / "other", ".lock") != private_file(home / "state", ".lock")
