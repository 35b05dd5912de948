"""Compose's init on ./state and ./logs, as the user who runs the tests and with their own group."""

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


def test_folder_modes_for_owner_group_and_databases(project):
    assert main(str(project), os.getgid()) == 0
    assert main(str(project), os.getgid()) == 0
    assert {mode(project / name) for name in ("state", "logs")} == {0o2770}
    assert {path.name: mode(path) for path in (project / "state").iterdir()} == {
        "state.db": 0o666,
        "effects.db": 0o666,
    }


def test_native_lab_files_are_opened_without_following_links(project):
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


def test_container_pipes_and_links_do_not_prevent_start(project):
    (project / "secret").write_text("mine")
    os.mkfifo(project / "logs" / "agent.log")
    os.mkfifo(project / "logs" / ".trial")
    (project / "state" / ".trial").symlink_to(project / "secret")
    assert main(str(project), os.getgid()) == 0
    assert (project / "secret").read_text() == "mine"


def test_database_keeps_its_content(project):
    (project / "state" / "state.db").write_bytes(b"rows")
    assert main(str(project), os.getgid()) == 0
    assert (project / "state" / "state.db").read_bytes() == b"rows"


def test_foreign_names_in_env_file_do_not_prevent_start(project, capsys):
    (project / ".env").write_text("TOXIC_PRB=1\nDATABASE_URL=secret\n")
    assert main(str(project), os.getgid()) == 0
    assert capsys.readouterr().err == (
        ".env: TOXIC_PRB is ignored: unknown setting; did you mean 'TOXIC_PROB'?\n"
        ".env: ignored, not settings of Wirefault: DATABASE_URL\n"
    )


def gone(folder):
    folder.rmdir()


def a_file(folder):
    folder.rmdir()
    folder.touch()


def obstructed(folder):  # root, too, meets this one
    (folder / ".trial").mkdir()


@pytest.mark.parametrize("spoil", [gone, a_file, obstructed])
def test_unusable_folder_is_one_line_error(project, capsys, spoil):
    spoil(project / "logs")
    assert main(str(project), os.getgid()) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith("error: ./logs") and stderr.count("\n") == 1
