"""What Compose's init does to ./state and ./logs, as the user that runs the tests and with its own group."""

from __future__ import annotations

import os
import stat

import pytest

from wirefault.lab.folders import main, share


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("state", "logs"):
        (tmp_path / name).mkdir(mode=0o755)
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_folders_are_for_owner_and_group_and_the_databases_for_who_can_enter(project):
    assert main(str(project), os.getgid()) == 0
    assert main(str(project), os.getgid()) == 0
    assert {mode(project / name) for name in ("state", "logs")} == {0o2770}
    assert {path.name: mode(path) for path in (project / "state").iterdir()} == {
        "state.db": 0o666,
        "effects.db": 0o666,
    }


def test_what_a_native_lab_left_is_opened_too_and_links_are_not_followed(project):
    (project / "secret").write_text("mine")
    (project / "secret").chmod(0o600)
    (project / "logs" / "runs").mkdir(mode=0o700)
    (project / "logs" / "runs" / "old.jsonl").write_text("{}")
    (project / "logs" / "link").symlink_to(project / "secret")
    (project / "logs" / "away").symlink_to(project)
    share(project / "logs", os.getuid(), os.getgid())
    assert mode(project / "logs" / "runs") == 0o2777
    assert mode(project / "logs" / "runs" / "old.jsonl") == 0o666
    assert mode(project / "secret") == 0o600


def test_pipes_and_links_that_a_container_left_keep_nothing_from_starting(project):
    (project / "secret").write_text("mine")
    os.mkfifo(project / "logs" / "agent.log")
    os.mkfifo(project / "logs" / ".trial")
    (project / "state" / ".trial").symlink_to(project / "secret")
    assert main(str(project), os.getgid()) == 0
    assert (project / "secret").read_text() == "mine"


def test_a_database_keeps_what_is_in_it(project):
    (project / "state" / "state.db").write_bytes(b"rows")
    assert main(str(project), os.getgid()) == 0
    assert (project / "state" / "state.db").read_bytes() == b"rows"


def test_an_unknown_name_in_the_env_file_is_one_line(project, capsys):
    (project / ".env").write_text("TOXIC_PRB=1\n")
    assert main(str(project), os.getgid()) == 1
    assert capsys.readouterr().err == "error: .env: TOXIC_PRB is no setting; did you mean 'TOXIC_PROB'?\n"


def gone(folder):
    folder.rmdir()


def a_file(folder):
    folder.rmdir()
    folder.touch()


def obstructed(folder):  # root, too, meets this one
    (folder / ".trial").mkdir()


@pytest.mark.parametrize("spoil", [gone, a_file, obstructed])
def test_a_folder_that_cannot_be_used_is_one_line(project, capsys, spoil):
    spoil(project / "logs")
    assert main(str(project), os.getgid()) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith("error: ./logs") and stderr.count("\n") == 1
