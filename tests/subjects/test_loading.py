"""Subjects by their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import SettingsError
from wirefault.subjects.loading import load_subject


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_load_subject_returns_named_function(folder: Path) -> None:
    (folder / "subject_a.py").write_text("def open_subject(configuration): ...")
    assert load_subject("subject_a:open_subject").__name__ == "open_subject"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("subject_b", "--subject='subject_b': give MODULE:FACTORY"),
        (":open_subject", "give MODULE:FACTORY"),
        ("subject b:x", "give MODULE:FACTORY"),
        ("subject_c:open_subject", "subject_c cannot be imported: No module named 'subject_c'"),
        ("subject_d:open_subject", "subject_d cannot be imported: No module named 'not_there'"),
        ("subject_e:open_subject", "subject_e cannot be imported: "),
        ("subject_f:opn_subject", "subject_f has no function opn_subject; did you mean 'open_subject'?"),
        ("subject_f:number", "subject_f has no function number"),
    ],
)
def test_load_errors(name: str, message: str, folder: Path) -> None:
    (folder / "subject_d.py").write_text("import not_there")
    (folder / "subject_e.py").write_text("def (")
    (folder / "subject_f.py").write_text("number = 1\ndef open_subject(configuration): ...")
    with pytest.raises(SettingsError, match=re.escape(message)):
        load_subject(name)


def test_function_that_takes_a_prompt_is_explained(folder: Path) -> None:
    (folder / "subject_g.py").write_text("def ask(prompt): return prompt.strip()")
    opening = load_subject("subject_g:ask")(load_configuration({}))
    with pytest.raises(SettingsError, match=r"it raised AttributeError: .*subject: \{python: MODULE:NAME\}"):
        opening.__enter__()
