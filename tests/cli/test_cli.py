"""The command line's errors: one line for people, exit code 2, and the same in info.log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wirefault.cli.main import main
from wirefault.core.lab_folder import output_folder
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.saved import SavedExperiment
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import NAMES, Settings

RUN_SHOP = ["run", "--link", "shop=http://127.0.0.1:9", "--prompt", "x", "--no-charts", "--", "true"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGS_DIR", raising=False)
    return tmp_path


def call(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environ)


def logged(folder: Path) -> list[str]:
    lines = (output_folder(folder) / "logs" / "info.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["message"] for line in lines]


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        (["--toxic-prob", "2"], {}, "command line: TOXIC_PROB='2'"),
        ([], {"TOOL_LIMIT": "many"}, "environment: TOOL_LIMIT='many'"),
        (["--toxics", "latncy:3"], {}, "did you mean 'latency'?"),
        (["--prompts", "none.json"], {}, "none.json: no such file; name one with --prompts or PROMPTS_FILE"),
        (
            ["--model", "replay"],
            {},
            "MODEL=replay: .wirefault/state/cassettes (CASSETTES) has no cassettes: record some",
        ),
        (["--toxiproxy", "nonsense"], {}, "--toxiproxy='nonsense': give auto, embedded, or a URL"),
    ],
)
def test_invalid_setting_is_reported_and_logged(
    folder: Path, arguments: list[str], environ: dict[str, str], expected: str
) -> None:
    result = call("demo", *arguments, **environ)
    assert result.exit_code == 64
    assert expected in result.output
    assert [message for message in logged(folder) if expected in message]
    assert not (folder / ".wirefault" / "state").exists()


def test_unknown_config_key_is_reported_and_logged(folder: Path) -> None:
    (folder / "agent").mkdir()
    (folder / "agent" / "config.json").write_text('{"setings": {}}', encoding="utf-8")
    result = call("demo", CONFIG_FILE="agent/config.json")
    assert result.exit_code == 64
    assert "config.json: unknown key setings" in result.output and "did you mean 'settings'?" in result.output
    assert logged(folder) == [result.output.removeprefix("Error: ").strip()]


def test_out_option_moves_log(folder: Path) -> None:
    call("demo", "--toxic-prob", "2", "--out", "there")
    assert logged(folder / "there")


def test_missing_run_is_reported(folder: Path) -> None:
    result = call("runs", "verify", "nope")
    assert result.exit_code == 64
    assert "unknown run or experiment 'nope'" in result.output
    assert "no runs; start one with" in call("runs", "verify", "latest").output


def test_demo_uses_common_defaults(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded: list[Configuration] = []

    def fake_run(saved: SavedExperiment, *_: object) -> ExperimentResult:
        recorded.append(saved.plan.configuration)
        return ExperimentResult(saved, code=0)

    monkeypatch.setattr("wirefault.cli.own_lab.run_experiment", fake_run)
    for name in NAMES:
        monkeypatch.delenv(name.upper(), raising=False)
    call("demo", "--seed", "7", "--no-charts")
    assert recorded[0].settings == load_configuration({"SEED": "7"}).settings == Settings(seed=7)


def _run_nothing(saved: SavedExperiment, *_: object) -> ExperimentResult:
    return ExperimentResult(saved, code=0)


@pytest.mark.parametrize("command", [["demo"], RUN_SHOP])
def test_foreign_dotenv_names_only_warn(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr("wirefault.cli.own_lab.run_experiment", _run_nothing)
    (folder / ".env").write_text("OPENAI_API_KEY=k\nDATABASE_URL=d\n", encoding="utf-8")
    recorded = call(*command)
    assert recorded.exit_code == 0
    assert "warning: .env: ignored, not settings of Wirefault: OPENAI_API_KEY" in recorded.output
    (folder / ".env").write_text("TOXIC_PRB=1\n", encoding="utf-8")
    assert "warning: .env: TOXIC_PRB is ignored" in call(*command).output


def test_chaos_level_prints_true_rates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirefault.cli.own_lab.run_experiment", _run_nothing)
    expected = call("demo", "--faults", "light", "--chaos-level", "0.5").output
    assert "unavailable tools 1.5 % of tries" in " ".join(expected.split())
    assert "light" not in call("demo", "--faults", "light").output


def test_missing_subject_program_starts_nothing(folder: Path) -> None:
    links = {"shop": {"upstream": "http://127.0.0.1:9"}}
    wiring = {"links": links, "subject": {"command": ["./not-installed", "{prompt}"]}}
    spec = {"wiring": "wiring.json", "prompts": [{"prompt": "x"}], "hypothesis": ["no crash"]}
    spec |= {"title": "x", "method": {"faults": {"faults": [{"fault": "hang"}]}}}
    (folder / "wiring.json").write_text(json.dumps(wiring), encoding="utf-8")
    (folder / "exp.json").write_text(json.dumps(spec), encoding="utf-8")
    result = call("run", "exp.json")
    assert result.exit_code == 64
    assert "wiring.json: subject.command: missing program './not-installed'" in result.output
    assert not (folder / ".wirefault" / "logs" / "experiments").exists()
    assert call("plan", "exp.json").exit_code == 0
