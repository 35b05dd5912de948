"""The section of docs/extending.md on subjects, followed word by word."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.pages import page_section

pytestmark = pytest.mark.slow

PAGE = page_section("extending.md", "A subject")


def block(language: str) -> str:
    [text] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_subject.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "prompts.json").write_text(block("json"), encoding="utf-8")
    return tmp_path


def test_documented_subject_runs_and_is_judged(folder: Path) -> None:
    program, *words = shlex.split(block("sh"))
    assert program == "wirefault"
    words += ["--no-charts", "--json", "--toxic-prob", "0"]
    done = wirefault(folder, environ_in(folder), *words)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [episode["outcome"] for episode in summary["episodes"]] == ["success", "honest_failure"]
    assert summary["subject"].startswith("calculator-only subject")
    assert "--subject=my_subject:open_subject" in done.stderr
