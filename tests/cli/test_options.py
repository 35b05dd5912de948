"""Settings and options by ``--set KEY=VALUE``: typed, completed, and refused with the nearest key."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from wirefault.cli.main import main
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.saved import SavedExperiment

EXPERIMENT = """\
title: Each option
wiring: {links: {shop: {upstream: "http://127.0.0.1:9"}}, subject: {command: ["true"]}}
prompts: [{prompt: One, id: one}]
hypothesis: [no crash]
method: {faults: lost-replies}
"""
WIRING = ["run", "--link", "shop=http://127.0.0.1:9", "--prompt", "x"]
COMMANDS = {
    "demo": (["demo"], []),
    "run a wiring": (WIRING, ["--", "true"]),
    "run an experiment": (["run", "exp.yaml"], []),
    "plan": (["plan", "exp.yaml"], []),
    "exec": (["exec"], ["--", "true"]),
    "audit": (["audit"], ["--", "true"]),
    "search": (["search", "limit", "exp.yaml"], []),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOGS_DIR", raising=False)
    (tmp_path / "exp.yaml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def call(command: str, *options: str) -> Result:
    before, after = COMMANDS[command]
    return CliRunner().invoke(main, [*before, *options, *after])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tool_limit=many", "(TOOL_LIMIT=|settings.tool_limit: )'many'"),
        ("Tool-Limit=0", "(TOOL_LIMIT=|settings.tool_limit: )'0'"),
        ("tol_limit=2", "--set tol_limit: unknown key; did you mean 'tool_limit'\\?"),
        ("tool_limit", "--set tool_limit: must be KEY=VALUE"),
        ("audit_model={}", "--set audit_model: unknown key"),
    ],
)
def test_wrong_key_or_value_is_refused(command: str, words: str, message: str) -> None:
    result = call(command, "--set", words)
    assert (result.exit_code, type(result.exception)) == (64, SystemExit)
    assert re.search(message, " ".join(result.output.split())), result.output


@pytest.mark.parametrize("words", ["api_key=hunter2", "sk-ant-hunter2", "seed=sk-ant-api03-hunter2-hunter2"])
def test_refused_word_that_may_be_a_secret_is_not_shown(words: str) -> None:
    result = call("exec", "--set", words)
    assert result.exit_code == 64 and "hunter2" not in result.output


@pytest.mark.parametrize("command", ["demo", "run a wiring", "exec"])
def test_set_gives_what_own_spelling_gives(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def run_nothing(saved: SavedExperiment, *_: object) -> ExperimentResult:
        plans.append(saved.plan)
        return ExperimentResult(saved, code=0)

    monkeypatch.setattr("wirefault.cli.own_lab.run_experiment", run_nothing)
    assert call(command, "--no-charts", "--seed", "7", "--tool-limit", "3", "--out", "o").exit_code == 0
    assert (
        call(command, "--set=charts=off", "--set=seed=7", "--set=tool-limit=3", "--set=out=o").exit_code == 0
    )
    first, second = (plan.configuration for plan in plans)
    assert first.settings == second.settings and first.settings.tool_limit == 3
    assert first.logs == second.logs == Path("o/logs")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "exp.yaml", "--set", "toxiproxi=auto"], "did you mean 'toxiproxy'?"),
        (["run", "exp.yaml", "--set", "workers=0"], "must be auto or 1 to 64, not 0"),
        (["run", "exp.yaml", "--set", "dry_run=perhaps"], "'perhaps' is not a valid boolean"),
        (
            ["run", "exp.yaml", "--set", "only=one", "--set", "only=two", "--dry-run"],
            "--only='two': unknown id",
        ),
        (["run", "--resume", "latest", "--set", "seed=1"], "--seed does not apply to --resume"),
        (["run", "exp.yaml", "--set", "faults=light"], "an experiment names its faults in `method`"),
        (["run", "exp.yaml", "--set", "repeats=0"], "command line: repeats: Input should be"),
        (["plan", "exp.yaml", "--max-time", "soon"], "command line: limits.time: must be a number"),
        (["run", "exp.yaml", "--set", "seed=x"], "'x' is not a valid integer"),
        (["audit", "--set", "faults=light", "--", "true"], "choose them by --ask"),
    ],
)
def test_set_has_the_limits_of_the_option(words: list[str], message: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 64 and message in " ".join(result.output.split())


def test_repetition_of_a_search_has_the_own_spelling_of_what_set_gave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = []

    def run_nothing(saved: SavedExperiment, *_: object) -> None:
        commands.append(saved.plan.search["command"])

    monkeypatch.setattr("wirefault.cli.search.run_to_end", run_nothing)
    words = ["steps=2", "json=on", "out=o", "workers=2", "tool-limit=3", "only=one", "seed=5"]
    spelt = ["--steps=2", "--json", "--out=o", "--workers=2", "--tool-limit=3", "--only=one", "--seed=5"]
    for options in ([f"--set={word}" for word in words], spelt):
        result = CliRunner().invoke(main, ["search", "limit", "exp.yaml", "--of=level", *options])
        assert result.exit_code == 0, result.output
    assert commands[0] == commands[1] and "--tool-limit=3" in commands[0] and "--json" not in commands[0]


def test_wiring_without_prompts_has_none_to_select(folder: Path) -> None:
    wiring = "links: {shop: {upstream: 'http://127.0.0.1:9'}}\nsubject: {command: ['true'], prompt: none}\n"
    (folder / "w.yaml").write_text(wiring, encoding="utf-8")
    result = CliRunner().invoke(main, ["run", "w.yaml", "--set=only=one"])
    assert result.exit_code == 64 and "there are no prompts to select from" in result.output


def completions(*words: str, shell: str = "zsh") -> list[str]:
    """Return what the shell gets for the last word."""
    line = {"COMP_WORDS": " ".join(["wirefault", *words]), "COMP_CWORD": str(len(words))}
    environ = {"_WIREFAULT_COMPLETE": f"{shell}_complete", **line}
    lines = CliRunner().invoke(main, [], prog_name="wirefault", env=environ).output.splitlines()
    return lines[1::3] if shell == "zsh" else lines


def test_shell_completes_keys_and_values() -> None:
    assert completions("run", "--set", "toxic_s") == [
        "toxic_scope=used", "toxic_scope=each", "toxic_scope=all", "toxic_seconds=0.0",
    ]  # fmt: skip
    assert completions("exec", "--set", "idempotency=") == ["idempotency=on", "idempotency=off"]
    assert completions("run", "--set", "eng") == ["engine=local", "engine=ray"]
    assert completions("plan", "--set", "until") == ["until_decided=on", "until_decided=off"]
    assert completions("plan", "--set", "max_") == ["max_episodes=", "max_time=", "max_cost="]
    assert sorted(completions("run", "--s")) == ["--seed", "--set", "--subject"]
    assert completions("run", "--st") == ["--stream"]


def test_bash_completes_value_after_its_own_split_at_the_sign() -> None:
    words = ("run", "--set", "toxic_scope", "=")
    assert completions(*words, shell="bash") == ["plain,used", "plain,each", "plain,all"]
    assert completions(*words, "us", shell="bash") == ["plain,used"]
    assert completions("run", "--set", "toxic_sc", shell="bash")[0] == "plain,toxic_scope=used"


@pytest.mark.parametrize(("command", "name"), [("run", "charts"), ("audit", "replay")])
def test_flag_that_is_not_given_stays_open(command: str, name: str) -> None:
    """click takes False for a flag without a default: no charts were drawn, and no replies replayed."""
    loaded = main.get_command(click.Context(main), command)
    assert loaded is not None
    [option] = [each for each in loaded.params if each.name == name]
    assert option.get_default(click.Context(loaded)) is None
