"""The user's playbooks are read before a lab starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wirefault.cli.main import main

LINK = ["--link", "model=scripted,openai_chat", "--prompt", "x"]


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--playbooks", "nope.yaml"],
        ["run", *LINK, "--playbooks", "nope.yaml", "--", "true"],
        ["exec", "--scripted", "--playbooks", "nope.yaml", "--", "true"],
    ],
)
def test_missing_playbooks_are_an_error_before_anything_starts(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 64
    assert "nope.yaml: cannot be read: No such file or directory" in result.output
    assert not list(tmp_path.glob("**/*.jsonl"))


def test_variable_is_checked_like_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("playbooks: [{say: Hi, colour: red}]")
    result = CliRunner().invoke(main, ["demo"], env={"PLAYBOOKS": "mine.yaml"})
    assert result.exit_code == 64 and "mine.yaml:1: playbooks[1].colour" in result.output
