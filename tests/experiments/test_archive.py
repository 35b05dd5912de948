"""The archive of old runs: nothing is lost, and nothing altered goes in."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.report.synthetic import SyntheticRun
from wirefault.cli.main import main
from wirefault.core.errors import InputError
from wirefault.experiments.archive import archived_names, extracted
from wirefault.experiments.evidence import evidence_of
from wirefault.memory.histories import recorded_episodes

OLD, MIDDLE, NEW = (f"2026010{day}-000000-aaaaaa" for day in (1, 2, 3))


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has three runs that ended long ago."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGS_DIR", raising=False)
    for run_id in (OLD, MIDDLE, NEW):
        SyntheticRun(tmp_path / "logs", run_id, prompts=2).write()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1e9, 1e9))
    return tmp_path / "logs"


def archive(*words: str) -> Result:
    return CliRunner().invoke(main, ["runs", "archive", *words])


def test_memory_is_the_same_after_archiving(logs: Path) -> None:
    before = list(recorded_episodes(logs, {}, {}))
    dry = archive("--keep", "2", "--dry-run")
    assert f"would archive {OLD}" in dry.output and not (logs / "archive.zip").exists()
    for keep, left in (("2", [MIDDLE, NEW]), ("1", [NEW])):  # the second adds to the first
        assert "1 archived, " in archive("--keep", keep).output
        assert sorted(path.name for path in (logs / "runs").iterdir()) == left
    assert archived_names(logs) == [OLD, MIDDLE]
    after = sorted(recorded_episodes(logs, {}, {}), key=lambda each: (each.source, each.key))
    assert after == before


def test_run_left_by_a_killed_archiver_is_removed_and_counts_once(logs: Path, tmp_path: Path) -> None:
    before = list(recorded_episodes(logs, {}, {}))
    shutil.copytree(logs / "runs", tmp_path / "copy")
    archive("--keep", "0")
    shutil.copytree(tmp_path / "copy", logs / "runs", dirs_exist_ok=True)
    assert sorted(recorded_episodes(logs, {}, {}), key=lambda each: (each.source, each.key)) == before
    assert archive("--keep", "0").exit_code == 0 and not list((logs / "runs").iterdir())
    assert archived_names(logs) == [OLD, MIDDLE, NEW]


def test_unpacked_run_has_its_evidence(logs: Path) -> None:
    archive("--keep", "0")
    with extracted(logs, OLD) as copy:
        assert evidence_of(copy, OLD).state == "whole"


def test_altered_run_is_refused_and_stays(logs: Path) -> None:
    [history] = (logs / "runs" / OLD).glob("gateway-*.jsonl")
    lines = history.read_text(encoding="utf-8").splitlines(keepends=True)
    history.write_text("".join(lines[1:]), encoding="utf-8")
    os.utime(history, (1e9, 1e9))
    refused = archive("--keep", "0")
    assert f"altered: runs/{OLD}" in refused.output or "altered" in refused.stderr
    assert history.exists() and not (logs / "archive.zip").exists()


def test_foreign_archive_is_refused(logs: Path) -> None:
    (logs / "archive.zip").write_text("not an archive", encoding="utf-8")
    refused = archive("--keep", "0")
    assert "archive.zip: cannot be read" in refused.stderr and (logs / "runs" / OLD).exists()


def test_planted_archive_removes_no_evidence(logs: Path) -> None:
    """A member with a run's name is no copy of the run."""
    with zipfile.ZipFile(logs / "archive.zip", "w") as planted:
        planted.writestr(f"{OLD}/runs/{OLD}/other", "")
    refused = archive("--keep", "0")
    assert refused.exit_code == 64 and f"archive.zip: has {OLD} without runs/{OLD}/" in refused.stderr
    assert len(list((logs / "runs").iterdir())) == 3


def test_archive_is_unpacked_within_bounds(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirefault.experiments.archive._MAX_BYTES", 1000)
    with zipfile.ZipFile(logs / "archive.zip", "w", zipfile.ZIP_DEFLATED) as planted:
        planted.writestr("bomb/runs/a", b"0" * 600)
        planted.writestr("bomb/runs/b", b"0" * 600)
    with pytest.raises(InputError, match="bomb has more than 1000 bytes"), extracted(logs, "bomb"):
        pass


@pytest.mark.parametrize("flag", [0x1, 0x20], ids=["encrypted", "patched"])
def test_member_that_cannot_be_unpacked_is_one_line(logs: Path, flag: int) -> None:
    with zipfile.ZipFile(logs / "archive.zip", "w") as planted:
        planted.writestr(f"{OLD}/runs/a", b"0")
    data = bytearray((logs / "archive.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= flag
    (logs / "archive.zip").write_bytes(data)
    assert "archive.zip: cannot be read" in archive("--keep", "0").stderr
