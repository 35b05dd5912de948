"""The exit code of a run whose recording cannot be read."""

from __future__ import annotations

from pathlib import Path

from wirefault.cli.own_lab import ending_of
from wirefault.core.errors import UNKNOWN
from wirefault.experiments.evidence import evidence_of
from wirefault.experiments.recorded import RecordedArm, Recording


def test_unreadable_recording_is_unknown(tmp_path: Path) -> None:
    arm = RecordedArm(tmp_path, "", ("missing",))
    unreadable = Recording("missing", {"": arm}, evidence_of(tmp_path, "missing"))
    assert [ending_of(each, "risky") for each in (unreadable, None)] == [UNKNOWN, UNKNOWN]
