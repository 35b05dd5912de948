"""The Ray engine before and after any machine is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wirefault.core.errors import UserError
from wirefault.experiments.ray_engine import RayEngine, ShardResult, put_down


def test_missing_ray_has_install_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r'pip install "wirefault\[ray\]"'):
        RayEngine()


def test_remote_run_is_written_completely(tmp_path: Path) -> None:
    files = {"run.jsonl": b"{}\n", "bodies/1": b"hello"}
    put_down(ShardResult(0, files, b"", ()), tmp_path, "run-1")
    assert (tmp_path / "run-1" / "bodies" / "1").read_bytes() == b"hello"
    assert [path.name for path in tmp_path.iterdir()] == ["run-1"]
