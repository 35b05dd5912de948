"""``python -m agent`` as a person meets it: exit codes, and messages, which info.log has too."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import wirefault
from tests.shared_imports import shared_imports
from tests.support import ROOT, RUN_PATIENCE_S, until
from wirefault.lab.launcher import Lab
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import load_configuration

pytestmark = pytest.mark.slow

SECRET = "gsk_no_real_key_0123456789"
CALM = {"TOXIC_PROB": "0", "ERROR_PROB": "0", "SEED": "1", "PROMPTS_FILE": "prompts.json"}


@dataclass
class ModelReply:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def info(self) -> list[dict[str, Any]]:
        lines = (self.folder / ".wirefault" / "logs" / "info.log").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def logged(self, event: str) -> list[str]:
        return [line["message"] for line in self.info if line["event"] == event]

    @property
    def everything(self) -> str:
        files = (path for path in self.folder.rglob("*") if path.suffix in (".log", ".jsonl", ".db"))
        return self.out + self.err + "".join(path.read_text(errors="replace") for path in files)


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::ResourceWarning"}
    return {**base, **CALM, **environ}


def _run(folder: Path, *arguments: str, **environ: str) -> ModelReply:
    """``python -m agent``, which becomes ``wirefault run --lab``, called in this process."""
    done = wirefault(folder, _environ(environ), "run", "--lab", *arguments)
    return ModelReply(done.returncode, done.stdout, done.stderr, folder)


def _prompts(folder: Path, *entries: object) -> None:
    (folder / "prompts.json").write_text(json.dumps(entries), encoding="utf-8")


# invalid input: nothing starts, exit code 2


@pytest.mark.parametrize(
    ("environ", "files", "messages"),
    [
        ({"MODEL": "groq"}, {}, ["MODEL=groq needs a key", "set GROQ_API_KEY", "leave MODEL out"]),
        ({}, {"prompts.json": None}, ["prompts.json: no such file", "--prompts or PROMPTS_FILE"]),
        ({}, {"prompts.json": '[\n{"prompt": }]'}, ["prompts.json:2: not JSON"]),
        ({}, {"prompts.json": "[7]"}, ["its only entry is skipped", "entry 1 is skipped"]),
        (
            {"CONFIG_FILE": "config.json"},
            {"config.json": '{"setings": {}}'},
            ["config.json: unknown key setings", "did you mean 'settings'?"],
        ),
    ],
    ids=["no key", "no prompts", "broken prompts", "no good prompt", "config key"],
)
def test_errors_are_on_console_and_in_log(
    environ: dict[str, str], files: dict[str, str | None], messages: list[str], tmp_path: Path
) -> None:
    for name, text in {"prompts.json": '[{"prompt": "Hello there!"}]', **files}.items():
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
    done = _run(tmp_path, **environ)
    assert (done.code, done.out) == (64, "")
    [logged] = done.logged("error")
    assert done.err == f"error: {logged}\n"
    assert not [part for part in messages if part.lower() not in logged.lower()]
    assert not (tmp_path / ".wirefault" / "state").exists()


def test_log_path_comes_from_config_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"files": {"logs": "elsewhere"}}', encoding="utf-8")
    done = _run(tmp_path, CONFIG_FILE="config.json")
    assert done.code == 64
    assert "no such file" in (tmp_path / "elsewhere" / "info.log").read_text(encoding="utf-8")
    assert not (tmp_path / ".wirefault" / "logs").exists()


def test_unwritable_logs_are_user_error(tmp_path: Path) -> None:
    _prompts(tmp_path, {"prompt": "Hello there!"})
    (tmp_path / ".wirefault").mkdir()
    (tmp_path / ".wirefault" / "logs").write_text("in the way", encoding="utf-8")
    done = _run(tmp_path)
    assert done.code == 70
    assert "is LOGS_DIR=.wirefault/logs a writable folder" in done.err
    assert "Traceback" not in done.err


# in a lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    places = {"STATE_DB": "state/state.db", "EFFECTS_DB": "state/effects.db", "LOGS_DIR": "logs"}
    environ = {name: str(folder / place) for name, place in places.items()}
    with shared_imports(), Lab(load_configuration({**os.environ, **environ}), Choice("embedded")) as running:
        yield running


def _run_subject(lab: Lab, folder: Path, *arguments: str, **environ: str) -> ModelReply:
    """In the lab, its databases included, with its own logs."""
    return _run(folder, *arguments, **{**_of_lab(lab), **environ})


def _of_lab(lab: Lab) -> dict[str, str]:
    names = ("WIREFAULT_TOPOLOGY", "LAB_ID", "STATE_DB", "EFFECTS_DB")
    return {name: value for name, value in lab.environ().items() if name in names}


def test_options_are_run_settings(lab: Lab, tmp_path: Path) -> None:
    _prompts(tmp_path, {"prompt": "Hello there!", "expect": {}})
    done = _run_subject(lab, tmp_path, "--seed", "5", "--tool-limit", "2", "--json", SEED="6")
    assert done.code == 0, done.err
    assert "wirefault demo --seed 5 " in done.err and "--tool-limit 2 " in done.err
    assert json.loads(done.out)["seed"] == 5


def test_bad_entry_is_skipped_with_message(lab: Lab, tmp_path: Path) -> None:
    good = {"prompt": "Hello there!", "expect": {}}
    _prompts(tmp_path, good, {"promt": "x"}, 7, {"prompt": "What is 6 * 7?"})
    (tmp_path / "prompts.json").rename(tmp_path / "mine.json")
    done = _run_subject(lab, tmp_path, "--prompts", "mine.json")
    assert (done.code, done.err) == (0, "")
    assert "--prompts mine.json" in done.out
    warnings = done.logged("warning")
    assert [warning.split(":")[2] for warning in warnings] == [" entry 2 is skipped", " entry 3 is skipped"]
    assert all(f"warning: {warning}" in done.out for warning in warnings)
    assert "did you mean 'prompt'?" in warnings[0].lower()
    assert "note: 2 bad entries of the prompts file left out" in done.out
    [summary] = [line["summary"] for line in done.info if line["event"] == "summary"]
    assert [episode["outcome"] for episode in summary["episodes"]] == ["success", "unjudged"]


def test_json_output_ends_with_one_object(lab: Lab, tmp_path: Path) -> None:
    _prompts(tmp_path, {"prompt": "What is 6 * 7?", "expect": {"values": [{"number": 42}]}})
    done = _run_subject(lab, tmp_path, "--json", GROQ_API_KEY=SECRET, MODEL="scripted")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert summary["outcomes"] == {"success": 1}
    assert "self-test subject: scripted model" in summary["subject"]
    assert "self-test subject: scripted model" in done.err
    assert SECRET not in done.everything


def test_ctrl_c_ends_run_with_summary_and_130(lab: Lab, tmp_path: Path) -> None:
    _prompts(tmp_path, *[{"prompt": "What is 6 * 7?"}] * 50)
    # LangChain imports some modules at the first call: a signal may leave Python's import with an open file
    unwarned = {"PYTHONWARNINGS": ""}
    environ = _environ({**_of_lab(lab), **unwarned, "TOXIC_PROB": "1", "TOXICS": "latency:300"})
    command, pipe = [sys.executable, "-m", "agent"], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=pipe, stderr=pipe, text=True) as agent:
        history = tmp_path / ".wirefault" / "logs" / "runs"
        until(lambda: any(b"attempt_armed" in file.read_bytes() for file in history.glob("*/*")), patience=60)
        agent.send_signal(signal.SIGINT)
        out, err = agent.communicate(timeout=RUN_PATIENCE_S)
    assert (agent.returncode, err) == (130, "error: the run ended early: interrupted\n")
    assert "history: .wirefault/logs/runs/" in out and "page: .wirefault/logs/pages/" in out


def test_fallback_is_logged(lab: Lab, tmp_path: Path) -> None:
    _prompts(tmp_path, {"prompt": "What is 6 * 7?", "expect": {"values": [{"number": 42}]}})
    done = _run_subject(lab, tmp_path, ERROR_PROB="1", FALLBACK="direct")
    assert done.code == 0, done.err
    assert done.logged("fallback") == ["calculate_expr used the direct fallback"]
    routes = [line["route"] for line in done.info if line["event"] == "network"]
    assert routes == ["proxy", "direct"]
