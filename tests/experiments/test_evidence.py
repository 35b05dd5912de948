"""The signed manifest: its four states, and what an edit of any file does to them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.experiments.test_run_experiment import PaperEngine, planned, run_on_paper
from tests.support import unpack
from wirefault.cli.main import main
from wirefault.core import signing
from wirefault.core.errors import InputError
from wirefault.core.files import make_private_folder
from wirefault.experiments.evidence import AlteredError, evidence_of, sign_recording
from wirefault.experiments.saved import SavedExperiment, load_saved
from wirefault.history.events import Note
from wirefault.history.writer import Writer


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SavedExperiment:
    """An experiment that ended, below the working folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGS_DIR", "logs")
    experiment = planned(tmp_path)
    run_on_paper(experiment, PaperEngine())
    return experiment


def read_by(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def as_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))


def state_of(saved: SavedExperiment) -> str:
    return evidence_of(saved.logs, saved.experiment_id).state


def test_finished_experiment_is_signed(saved: SavedExperiment) -> None:
    evidence = evidence_of(saved.logs, saved.experiment_id)
    assert (evidence.state, evidence.is_own, evidence.key) == ("signed", True, signing.own_key())
    for command in ("report latest", "show latest 1 --arm method"):
        assert "signed by this user" not in read_by(*command.split()).output
        assert "evidence: signed by this user" in read_by(*command.split(), "--verbose").output
    assert "evidence: signed by this user" in read_by("runs", "verify", "latest").output
    document = json.loads(read_by("report", "latest", "--json").stdout)
    assert document["evidence"] == {"state": "signed", "key": evidence.key, "altered": []}


def test_saved_plan_is_signed_before_its_first_run(tmp_path: Path) -> None:
    saved = planned(tmp_path)
    evidence = evidence_of(saved.logs, saved.experiment_id)
    assert (evidence.state, evidence.is_own) == ("unfinished", True)


def test_other_users_see_recording_as_whole_without_trusted_key(
    saved: SavedExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = signing.own_key()
    as_another_user(monkeypatch, tmp_path)
    assert state_of(saved) == "whole"
    trusted = make_private_folder() / "trusted_keys"
    trusted.write_text(f"# colleagues\n{key} the laptop\n")
    assert state_of(saved) == "signed"
    assert not evidence_of(saved.logs, saved.experiment_id).is_own


def test_user_without_home_signs_and_reads(saved: SavedExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise OSError("this user has no home folder")

    monkeypatch.setattr(signing, "private_folder", missing)
    monkeypatch.setattr(signing, "make_private_folder", missing)
    assert state_of(saved) == "whole"
    sign_recording(saved.logs, saved.experiment_id)
    assert state_of(saved) == "whole"


def test_recording_without_manifest_is_whole(saved: SavedExperiment) -> None:
    (saved.folder / "manifest.json").unlink()
    assert state_of(saved) == "whole"
    assert "evidence: whole, not signed" in read_by("report", "latest").output


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file and keep its times."""
    times = path.stat()
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


FILES = ("plan.json", "prompts.json", "verdict.json", "end.json", "facts/*-2-method.json", "manifest.json")
COMMANDS = ("runs verify latest", "report latest", "show latest 1 --arm method", "compare latest latest",
            "list", "runs bundle latest x.tar.gz", "run --resume latest", "run --again latest")  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_each_command_detects_edit_of_any_file(saved: SavedExperiment, file: str) -> None:
    [path] = saved.folder.glob(file)
    edit(path, lambda data: data.replace(b"e", b"E"))
    for command in COMMANDS:
        result = read_by(*command.split())
        assert result.exit_code == 2, (command, result.output)
        assert f"altered: {path.relative_to(Path.cwd())}:" in result.output, command


def test_success_in_facts_does_not_change_verdict(
    saved: SavedExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = json.loads(read_by("report", "latest", "--json").stdout)["arms"]
    [facts] = saved.folder.glob("facts/*-2-method.json")
    edit(facts, lambda data: data.replace(b'"success"', b'"crash"'))
    (saved.folder / "manifest.json").unlink()  # nobody signed it: judged by its histories
    assert json.loads(read_by("report", "latest", "--json").stdout)["arms"] == verdict


def test_first_altered_line_is_named(saved: SavedExperiment) -> None:
    plan = saved.folder / "plan.json"
    line = next(n for n, text in enumerate(plan.read_text().splitlines(), 1) if '"title"' in text)
    edit(plan, lambda data: data.replace(b"On paper", b"On stone"))
    assert evidence_of(saved.logs, saved.experiment_id).alterations == (f"{plan}:{line}: altered",)


@pytest.mark.parametrize("name", ["facts/more.json", "x.json"])
def test_added_and_removed_files_are_detected(saved: SavedExperiment, name: str) -> None:
    (saved.folder / name).write_text("{}")
    assert (
        evidence_of(saved.logs, saved.experiment_id)
        .alterations[0]
        .endswith(f"{name}:1: inserted: the manifest does not name this file")
    )
    (saved.folder / name).unlink()
    shutil.rmtree(saved.logs / "runs" / f"{saved.experiment_id}-2-method")
    assert "lost" in evidence_of(saved.logs, saved.experiment_id).alterations[0]


def test_key_variable_signs_and_is_removed_from_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing._Variable, "value", "")
    monkeypatch.setenv(signing.KEY_VARIABLE, "ab" * 32)
    signing.take_key_variable()
    assert signing.KEY_VARIABLE not in os.environ
    saved = planned(tmp_path)
    run_on_paper(saved, PaperEngine())
    assert evidence_of(saved.logs, saved.experiment_id).key == signing.own_key()
    monkeypatch.setattr(signing._Variable, "value", "")
    assert evidence_of(saved.logs, saved.experiment_id).state == "whole"
    monkeypatch.setenv(signing.KEY_VARIABLE, "xy")
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        signing.take_key_variable()


def test_interrupted_experiment_is_altered_if_its_plan_is(tmp_path: Path) -> None:
    saved = planned(tmp_path)
    edit(saved.folder / "plan.json", lambda data: data.replace(b"On paper", b"On stone"))
    with pytest.raises(AlteredError, match=r"plan\.json"):
        load_saved(saved.logs, saved.experiment_id, {"LOGS_DIR": str(saved.logs)})


def test_linked_manifest_is_altered(saved: SavedExperiment, tmp_path: Path) -> None:
    manifest = saved.folder / "manifest.json"
    manifest.rename(tmp_path / "elsewhere.json")
    manifest.symlink_to(tmp_path / "elsewhere.json")
    [place] = evidence_of(saved.logs, saved.experiment_id).alterations
    assert place.startswith(f"{manifest}:1: ") and "not a regular file" in place
    for command in COMMANDS:
        assert read_by(*command.split()).exit_code == 2, command


@pytest.fixture
def attempts(saved: SavedExperiment) -> Path:
    """The output and working folder of a subject that leaves links, pipes and deep folders; signed."""
    folder = saved.logs / "runs" / f"{saved.experiment_id}-2-method" / "attempts"
    work = folder / "one-1" / "work"
    work.joinpath(*["deep"] * 80).mkdir(parents=True)
    (folder / "one-1" / "stdout.txt").write_text("I ordered tea.\n")
    (work / "notes.txt").write_text("tea")
    (work / "same.txt").hardlink_to(work / "notes.txt")
    os.close(os.open(os.fsencode(work) + b"/name \xff", os.O_CREAT))
    (work / "link").symlink_to("/")
    os.mkfifo(work / "pipe.jsonl")
    sign_recording(saved.logs, saved.experiment_id)
    assert state_of(saved) == "signed"
    return folder


@pytest.mark.parametrize("name", ["one-1/stdout.txt", "one-1/work/notes.txt"])
def test_edit_of_subject_file_is_detected(saved: SavedExperiment, attempts: Path, name: str) -> None:
    edit(attempts / name, lambda data: data.replace(b"tea", b"ham"))
    assert evidence_of(saved.logs, saved.experiment_id).alterations == (
        f"{attempts / name}:1: altered or inserted",
    )
    assert evidence_of(saved.logs, f"{saved.experiment_id}-1-control").state == "signed"
    for command in COMMANDS:
        assert read_by(*command.split()).exit_code == 2, command


def test_added_and_removed_subject_files_are_detected(saved: SavedExperiment, attempts: Path) -> None:
    new = attempts / "one-1" / "work" / "new.txt"
    new.write_text("x")
    assert evidence_of(saved.logs, saved.experiment_id).alterations == (f"{new}:1: altered or inserted",)
    new.unlink()
    (attempts / "one-1" / "stdout.txt").unlink()
    assert evidence_of(saved.logs, saved.experiment_id).alterations == (f"{attempts}:1: lost: a file of it",)
    shutil.rmtree(attempts)
    assert "lost" in evidence_of(saved.logs, saved.experiment_id).alterations[0]


def test_bundle_has_all_manifest_files(
    saved: SavedExperiment, attempts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "signed by this user" in read_by("runs", "bundle", "latest", "x.tar.gz").output
    unpack(Path("x.tar.gz"), tmp_path / "elsewhere")
    key = signing.own_key()
    as_another_user(monkeypatch, tmp_path)
    commands = {
        "show latest --arm method": f"evidence: whole: unchanged since it was signed by key {key}",
        "show latest 1 --arm method": f"evidence: whole: unchanged since it was signed by key {key}",
        "compare latest latest": f"evidence of the second: whole: unchanged since it was signed by key {key}",
        "runs verify latest": f"evidence: whole: unchanged since it was signed by key {key}",
        "runs bundle latest y.tar.gz": f"whole: unchanged since it was signed by key {key}",
        "list": " whole ",
    }
    for command, text in commands.items():
        assert text in read_by(*command.split(), "--out", "elsewhere").output, command
    (make_private_folder() / "trusted_keys").write_text(key)
    for command, text in commands.items():
        signed = text.replace("whole: unchanged since it was signed by key", "signed by trusted key").replace(
            key, key[:16]
        )
        words = [*command.replace("y.tar", "z.tar").split(), *(["--verbose"] if "show" in command else [])]
        output = read_by(*words, "--out", "elsewhere").output
        assert signed.replace(" whole ", " signed ") in output, command


def test_json_has_state(saved: SavedExperiment) -> None:
    for command in ("show latest 1 --arm method", "report latest", "runs verify latest"):
        document = json.loads(read_by(*command.split(), "--json").stdout)
        assert document["evidence"] == evidence_of(saved.logs, saved.experiment_id).as_json(), command
    document = json.loads(read_by("compare", "latest", "latest", "--json").stdout)
    assert {side: one["state"] for side, one in document["evidence"].items()} == {
        "first": "signed",
        "second": "signed",
    }
    listing = read_by("show", "latest", "--arm", "method", "--json")
    assert json.loads(listing.stdout) and listing.stderr == ""


def test_earlier_runs_are_signed_on_resume(saved: SavedExperiment) -> None:
    saved.forget_end()
    assert state_of(saved) == "unfinished"
    run = saved.logs / "runs" / f"{saved.experiment_id}-2-method"
    shutil.rmtree(run)
    shutil.copytree(saved.logs / "runs" / f"{saved.experiment_id}-1-control", run)  # an intact chain
    assert f"{run}" in evidence_of(saved.logs, saved.experiment_id).alterations[0]


def test_experiment_with_a_run_killed_before_it_began_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGS_DIR", "logs")
    saved = planned(tmp_path)
    control = saved.plan.arms[0]
    [killed] = saved.next_run_ids(control, 1)
    saved.write_prompts(saved.plan.prompts, killed)
    history = saved.logs / "runs" / killed / "agent-0.jsonl"
    history.parent.mkdir(parents=True)
    Writer(history).write(Note(1.0, "info", "tap: namespace"))
    code = run_on_paper(saved, PaperEngine()).code
    for words in ("report latest", "runs verify latest", "show latest", "baseline accept latest", "list"):
        result = read_by(*words.split())
        assert result.exit_code in (0, code) and "history" not in result.output, words
    history.unlink()
    assert read_by("baseline", "accept", "latest").exit_code == 2
    assert f"{killed}/agent-0.jsonl:1: lost" in read_by("runs", "verify", "latest").output


def test_emptied_run_of_an_unfinished_experiment_is_altered(
    saved: SavedExperiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seal is in info.log."""
    (saved.folder / "manifest.json").unlink()
    run = saved.logs / "runs" / f"{saved.experiment_id}-2-method"
    summary = {"event": "summary", "run_id": run.name, "seal": "1f"}
    (saved.logs / "info.log").write_text(json.dumps(summary) + "\n", encoding="utf-8")
    for file in run.iterdir():
        file.unlink()
    [place] = evidence_of(saved.logs, saved.experiment_id).alterations
    assert place == f"{run}:1: lost: the history, whose seal is 1f in info.log"


def test_lone_run_is_signed(saved: SavedExperiment, tmp_path: Path) -> None:
    run = f"{saved.experiment_id}-1-control"
    logs = tmp_path / "lone"
    shutil.copytree(saved.logs / "runs" / run, logs / "runs" / run)
    assert evidence_of(logs, run).state == "whole"
    sign_recording(logs, run)
    assert evidence_of(logs, run).state == "signed"
    edit(logs / "runs" / run / "agent-0.jsonl", lambda data: data.replace(b'"seed":7', b'"seed":8', 1))
    assert evidence_of(logs, run).state == "altered"
