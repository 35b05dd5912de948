"""The installed wheel in an empty folder, among packages called like the lab's, and in one of ``init``'s."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.package.conftest import FirstRun
from tests.package.installing import CALM, MARKS, Environment, environ
from tests.support import ROOT

pytestmark = MARKS

OCCUPIED = ("agent", "experiments", "flask_tools", "proxy_manager", "wirefault")
MODULES = ("click", "flask", "requests", "json", "charts")
# its import leaves a trace even in a run that succeeds with the wrong package
TRACE = "open(f'imported-{__name__}', 'w').close()\n"
SUBJECT = """
from contextlib import contextmanager
from wirefault.subjects.subject import SubjectResult

def answer(prompt, context):
    return SubjectResult("text", response="I am mine.")

@contextmanager
def open_subject(configuration):
    yield answer
"""


@pytest.fixture
def occupied(tmp_path: Path) -> Path:
    """A folder of the user's, who calls packages and modules as he likes."""
    folder = tmp_path / "occupied"
    for name in OCCUPIED:
        (folder / name).mkdir(parents=True)
        for module in ("__init__", "__main__"):
            (folder / name / f"{module}.py").write_text(f"{TRACE}raise SystemExit(0)\n", encoding="utf-8")
    for module in MODULES:
        (folder / f"{module}.py").write_text(f"{TRACE}raise SystemExit(0)\n", encoding="utf-8")
    for file in ("prompts.json", "config.json"):
        (folder / "agent" / file).write_text('{"of": "the user"}', encoding="utf-8")
    return folder


def traces(folder: Path) -> set[str]:
    return {path.name.removeprefix("imported-") for path in folder.glob("imported-*")}


def outcomes(output: str) -> list[str]:
    return [str(episode["outcome"]) for episode in json.loads(output.splitlines()[-1])["episodes"]]


def test_demo_in_empty_folder_uses_lab_prompts_and_draws_charts(
    installed: Environment, first_run: FirstRun, tmp_path: Path
) -> None:
    assert {path.name for path in first_run.folder.iterdir()} == {".wirefault"}
    assert len(list(first_run.folder.glob(".wirefault/logs/charts/*/*.png"))) == 7
    [line] = re.findall(r"^wirefault (demo .*)$", first_run.output, flags=re.MULTILINE)
    assert "--prompts" not in line
    repeated = installed.wirefault(tmp_path, *shlex.split(line), "--no-charts", "--json")
    assert set(outcomes(repeated.stdout)) == {"success"}
    [run_id] = re.findall(r"^history: .wirefault/logs/runs/(.*)$", first_run.output, flags=re.MULTILINE)
    assert line in installed.must_run(first_run.folder, "runs", "verify", run_id)


def test_packages_named_like_lab_are_not_imported(installed: Environment, occupied: Path, few: str) -> None:
    demo = installed.wirefault(occupied, "demo", *CALM, "--prompts", few, "--json")
    assert outcomes(demo.stdout) == ["success", "success"], demo.stderr
    assert list(occupied.glob(".wirefault/logs/charts/*/overview.png"))
    assert "wirefault run" in installed.must_run(occupied, "lab", "up")
    try:
        assert "faults of light" in installed.must_run(occupied, "faults", "set", "light")
        output = installed.wirefault(occupied, "run", "--lab", "--prompts", few, "--json")
        assert len(outcomes(output.stdout)) == 2, output.stderr
    finally:
        installed.must_run(occupied, "lab", "down")
    assert "wirefault demo --seed" in installed.must_run(occupied, "runs", "verify", "latest")
    assert traces(occupied) == set()


@pytest.mark.parametrize("where", ["in the folder", "on the path"])
def test_user_agent_package_is_subject_on_request(
    installed: Environment, occupied: Path, few: str, where: str, tmp_path: Path
) -> None:
    (occupied / "agent" / "__init__.py").write_text(TRACE, encoding="utf-8")
    (occupied / "agent" / "mine.py").write_text(TRACE + SUBJECT, encoding="utf-8")
    for name in MODULES:
        (occupied / f"{name}.py").unlink()  # for his own subject they are his own, too
    shutil.rmtree(occupied / "wirefault")
    folder, path = (occupied, {}) if where == "in the folder" else (tmp_path, {"PYTHONPATH": str(occupied)})
    words = ("--subject", "agent.mine:open_subject", "--prompts", few, "--no-charts")
    output = installed.must_run(folder, "demo", *CALM, *words, **path)
    assert "--subject=agent.mine:open_subject" in output
    [run] = folder.glob(".wirefault/logs/runs/*/agent-0.jsonl")
    assert "I am mine." in run.read_text(encoding="utf-8")
    assert traces(folder) == {"agent", "agent.mine"}


def test_embedded_toxiproxy_serves_from_occupied_folder(installed: Environment, occupied: Path) -> None:
    command = [str(installed.path / "bin" / "wirefault"), "toxiproxy", "--port", "0"]
    with subprocess.Popen(command, cwd=occupied, env=environ(), stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        url = server.stdout.readline().split()[-1]
        with urlopen(f"{url}/version", timeout=30) as reply:
            assert json.load(reply)["version"]
        server.terminate()
    assert traces(occupied) == set()


def test_changes_in_init_folder_take_effect(installed: Environment, tmp_path: Path, few: str) -> None:
    output = installed.must_run(tmp_path, "lab", "init", "my lab")
    assert "cd 'my lab' && wirefault demo" in output
    folder = tmp_path / "my lab"
    for changed in ("agent/loop.py", "flask_tools/app.py", "wirefault/cli/demo.py"):
        file = folder / changed
        file.write_text(file.read_text(encoding="utf-8") + TRACE, encoding="utf-8")
    preset = folder / "experiments" / "faults" / "mine.yaml"
    preset.write_text("description: mine\nfaults: [{fault: unavailable, links: tools}]\n", encoding="utf-8")
    output = installed.must_run(folder, "demo", *CALM, "--prompts", few, "--faults", "mine", "--no-charts")
    assert "--faults mine" in output
    assert traces(folder) == {"agent.loop", "flask_tools.app", "wirefault.cli.demo"}


def test_init_does_not_overwrite_and_cleans_up(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    done = installed.wirefault(tmp_path, "lab", "init")
    assert done.returncode != 0 and "agent already exists" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


def test_init_folder_has_files_for_image_and_containers(installed: Environment, tmp_path: Path) -> None:
    installed.must_run(tmp_path, "lab", "init")
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    copied = [name for line in lines for name in line.split()]
    compose = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
    mounted = re.findall(r'"\./(?:\$\{\w+:-)?([\w/.]+)\}?', compose) + re.findall(r"- \./([\w]+):", compose)
    assert {"wirefault", "requirements.lock"} < set(copied) and {"state", "agent/prompts.json"} < set(mounted)
    assert [name for name in (*copied, *mounted) if not (tmp_path / name).exists()] == []
    not_ignored = (tmp_path / ".dockerignore").read_text(encoding="utf-8")
    assert [name for name in copied if f"!{name.rstrip('/')}\n" not in not_ignored] == []
    assert "state/*" in (tmp_path / ".gitignore").read_text(encoding="utf-8")
