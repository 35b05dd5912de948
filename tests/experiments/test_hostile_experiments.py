"""Another user's process writes below ``logs/experiments``: nothing there is code, nothing there hangs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.core.hostile import TRAPS, VICTIM, victim_of
from tests.experiments.test_run_experiment import PaperEngine, planned, run_on_paper
from tests.support import unpack
from wirefault.cli import running
from wirefault.cli.main import main
from wirefault.cli.saved import resumed_experiment
from wirefault.core.errors import InputError
from wirefault.experiments.evidence import AlteredError, evidence_of
from wirefault.experiments.saved import SavedExperiment, load_saved

MARK = "code-ran"
CHECK = f"""
from pathlib import Path
def check(view):
    Path({MARK!r}).touch()
    return True
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGS_DIR", "logs")
    return tmp_path


def read_by(words: str) -> Result:
    return CliRunner().invoke(main, words.split())


def become_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was signed until now is another user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("another").absolute()))


def with_function(folder: Path) -> SavedExperiment:
    (folder / "checks.py").write_text(CHECK)
    saved = planned(folder, assertions=[{"callable": "checks.py:check"}])
    run_on_paper(saved, PaperEngine())
    (folder / MARK).unlink()
    return saved


def test_function_of_own_plan_is_called(folder: Path) -> None:
    with_function(folder)
    assert read_by("report latest").exit_code in (0, 1, 2) and (folder / MARK).exists()


@pytest.mark.parametrize("signed", [True, False], ids=["signed by another", "unsigned"])
@pytest.mark.parametrize("command", ["report latest", "report latest --json", "runs verify latest", "list"])
def test_function_of_foreign_plan_is_not_called(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, signed: bool
) -> None:
    saved = with_function(folder)
    become_another_user(monkeypatch)
    if not signed:
        (saved.folder / "manifest.json").unlink()
    result = read_by(command)
    assert isinstance(result.exception, SystemExit | None) and not (folder / MARK).exists()
    if command != "list":
        foreign = load_saved(saved.logs, "latest", {"LOGS_DIR": str(saved.logs)})
        [asserted] = foreign.arm_result(foreign.plan.arms[1]).asserted
        assert asserted.result.passed is None
        assert "its function was not run, because this user did not sign the plan" in asserted.result.message


def test_function_of_foreign_plan_is_called_if_file_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_function(folder)
    become_another_user(monkeypatch)
    read_by("report latest exp.json")
    assert (folder / MARK).exists()


WIRING = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9", "env": "SHOP_URL"}},
    "subject": {"command": ["touch", MARK]},
}


def with_command(folder: Path) -> SavedExperiment:
    (folder / "w.json").write_text(json.dumps(WIRING))
    return planned(folder, wiring="w.json", prompts=[{"prompt": "Hello"}], only=[])


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The experiments that a command would have run."""
    ids: list[str] = []

    def note(saved: SavedExperiment, _: object) -> int:
        ids.append(saved.experiment_id)
        return 0

    monkeypatch.setattr(running, "run_saved", note)
    return ids


@pytest.mark.parametrize("way", ["--resume", "--again"])
@pytest.mark.parametrize("signed", [True, False], ids=["signed by another", "unsigned"])
def test_command_of_foreign_plan_runs_only_with_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ran: list[str], way: str, signed: bool
) -> None:
    saved = with_command(folder)
    assert read_by(f"run {way} latest").exit_code == 0 and len(ran) == 1
    for other in (folder / "logs" / "experiments").iterdir():
        if other != saved.folder:
            shutil.rmtree(other)
    become_another_user(monkeypatch)
    if not signed:
        (saved.folder / "manifest.json").unlink()
    result = read_by(f"run {way} latest")
    assert result.exit_code == 64 and f"wirefault run FILE {way} {saved.experiment_id}" in result.output
    assert len(ran) == 1
    assert read_by(f"run exp.json {way} latest").exit_code == 0 and len(ran) == 2


def test_other_file_does_not_authorize_foreign_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    with_command(folder)
    become_another_user(monkeypatch)
    (folder / "w.json").write_text(json.dumps({**WIRING, "subject": {"command": ["true"]}}))
    result = read_by("run exp.json --resume latest")
    assert result.exit_code == 64 and "its commands or functions differ" in result.output and ran == []


@pytest.mark.parametrize("signed", [True, False], ids=["signed by another", "unsigned"])
def test_foreign_plan_without_code_is_resumed_only_with_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ran: list[str], signed: bool
) -> None:
    saved = planned(folder)
    become_another_user(monkeypatch)
    if not signed:
        (saved.folder / "manifest.json").unlink()
    result = read_by("run --resume latest")
    assert result.exit_code == 64 and "this user did not sign it" in result.output and ran == []
    assert f"wirefault run --again {saved.experiment_id} runs a copy of it" in result.output
    assert read_by("run exp.json --resume latest").exit_code == 0 and len(ran) == 1
    assert read_by("run --again latest").exit_code == 0 and len(ran) == 2


def test_resumed_foreign_recording_is_not_signed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = planned(folder)
    become_another_user(monkeypatch)
    foreign = resumed_experiment(saved.experiment_id, None, [Path("exp.json")])
    run_on_paper(foreign, PaperEngine())
    assert evidence_of(saved.logs, saved.experiment_id).text == "whole, not signed"


@pytest.mark.parametrize("setting", ["model_base_url", "cassettes"])
def test_foreign_plan_cannot_send_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ran: list[str], setting: str
) -> None:
    value = "http://127.0.0.1:9/v1" if setting == "model_base_url" else "elsewhere"
    planned(folder, settings={setting: value, "model": "record"})
    assert read_by("run --again latest").exit_code == 0
    become_another_user(monkeypatch)
    result = read_by("run --again latest")
    assert result.exit_code == 64 and "addresses" in result.output and len(ran) == 1
    monkeypatch.setenv(setting.upper(), value)
    again = read_by("run --again latest")
    assert again.exit_code == 0, again.output


COMMANDS = (
    *("list", "report latest", "report latest --junit -", "show latest", "runs verify latest"),
    *("run --resume latest", "run --again latest"),
)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("file", ["plan.json", "verdict.json", "end.json", "prompts.json", "manifest.json"])
def test_file_must_be_regular(folder: Path, trap: Callable[..., None], file: str) -> None:
    saved = planned(folder)
    run_on_paper(saved, PaperEngine())
    if file != "manifest.json":
        (saved.folder / "manifest.json").unlink()
    path = saved.folder / file
    path.unlink()
    victim = victim_of(path.absolute())
    trap(path, victim)
    for command in COMMANDS:  # none hangs
        assert isinstance(read_by(command).exception, SystemExit | None), command
    assert victim.read_bytes() == VICTIM


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("file", ["plan.json", "verdict.json", "prompts.json", "manifest.json"])
def test_sparse_file_is_one_line(folder: Path, file: str) -> None:
    saved = planned(folder)
    if file != "manifest.json":
        (saved.folder / "manifest.json").unlink()
    (saved.folder / file).touch()
    os.truncate(saved.folder / file, 6 << 30)  # it takes no room on the disk
    for command in COMMANDS:
        assert isinstance(read_by(command).exception, SystemExit | None), command
    if file != "verdict.json":
        assert "larger than" in read_by("report latest").output


HOSTILE: dict[str, Any] = {
    "no JSON": b"{",
    "a number": b"7",
    "nested": b"[" * 200_000,
    "nested in a plan": b'{"wiring": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "no arms": b'{"wiring": {}, "arms": [], "experiment": {}}',
    "arms of another kind": b'{"wiring": {}, "arms": 7, "experiment": {}}',
    "an arm of another kind": b'{"wiring": {}, "arms": [7], "experiment": {}}',
    "a wiring of another kind": b'{"wiring": [1], "arms": [], "experiment": {}}',
    "escapes": b'{"wiring": {}, "arms": [{"arm": "\\u001b[2J", "settings": {"x": 1}}], "experiment": 1}',
    "a lone surrogate": b'{"experiment": {"title": "\\ud800"}}',
}


@pytest.mark.parametrize("plan", HOSTILE.values(), ids=HOSTILE)
def test_hostile_plan_is_one_line(folder: Path, plan: bytes) -> None:
    saved = planned(folder)
    (saved.folder / "manifest.json").unlink()
    (saved.folder / "plan.json").write_bytes(plan)
    for command in COMMANDS:
        result = read_by(command)
        assert isinstance(result.exception, SystemExit | None), (command, result.exc_info)
        assert all(line.isprintable() for line in result.output.splitlines()), (command, result.output)
    assert read_by("report latest").output.count("\n") == 1


_ALIASES = ", ".join(f"x{at}: &x{at} [{f'*x{at - 1}, ' * 10}]" for at in range(1, 12))


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("no crash", "success_rate >= 0." + "9" * 480),
        ("On paper", r"\ufffe \u001b[31m"),
        (None, f"{{x0: &x0 [1], {_ALIASES}}}"),
    ],
    ids=["long number", "characters", "aliases"],
)
def test_command_ends_whatever_a_readable_plan_says(folder: Path, old: str | None, new: str) -> None:
    saved = planned(folder)
    (saved.folder / "manifest.json").unlink()
    for file in ("plan.json", "prompts.json") if old is None else ("plan.json",):
        text = (saved.folder / file).read_text()
        assert old is None or old in text
        (saved.folder / file).write_text(text.replace(old, new) if old else new)
    for command in COMMANDS:
        result = read_by(command)
        assert isinstance(result.exception, SystemExit | None), (command, result.exc_info)
        assert "\x1b[31m" not in result.output, command


@pytest.mark.parametrize("place", ["experiments", "experiments/ID"])
def test_linked_folder_is_not_followed(folder: Path, place: str) -> None:
    saved = planned(folder)
    linked = folder / "logs" / place.replace("ID", saved.experiment_id)
    (folder / "mine").mkdir()
    shutil.rmtree(linked)
    linked.symlink_to(folder / "mine")
    for write in (saved.write_plan, lambda: saved.note_end(limited="x"), lambda: saved.write_verdict({}, "")):
        with pytest.raises((OSError, InputError, AlteredError), match="refusing to use it"):
            write()
    assert list((folder / "mine").iterdir()) == []


def test_bundle_is_whole_on_another_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = planned(folder)
    run_on_paper(saved, PaperEngine())
    verdict = read_by("report latest").exit_code
    assert "signed by this user" in read_by("runs bundle latest x.tar.gz").output
    unpack(Path("x.tar.gz"), folder / "elsewhere")
    become_another_user(monkeypatch)
    logs = folder / "elsewhere" / "logs"
    assert evidence_of(logs, saved.experiment_id).state == "whole"
    result = read_by("report latest --out elsewhere")
    assert (
        result.exit_code == verdict
        and "evidence: whole: unchanged since it was signed by key" in result.output
    )
