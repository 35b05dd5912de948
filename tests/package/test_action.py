"""The steps of ``action.yml`` in order against a substitute of the API, and the docs' lines for other hosts.

With Docker they run in a container of the Python image, where pip installs; else in this environment.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copy
from threading import Thread
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.compose.engine import base_images, docker
from tests.compose.rig import copy_clone
from tests.package.installing import constraint
from tests.support import ROOT, free_port, required, until

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
AGENT = """
import json, os, sys, urllib.request
order = json.dumps({"item": "honey", "count": 1}).encode()
for _ in range(TRIES):
    url, kind = os.environ["SHOP_URL"] + "/orders", {"Content-Type": "application/json"}
    try:
        urllib.request.urlopen(urllib.request.Request(url, order, kind), timeout=3).read()
        print("Ordered.")
        break
    except OSError as error:
        print(f"I could not confirm the order: {error}")
"""
EXPERIMENT = """
title: Honey is ordered once
wiring: wirefault.yaml
prompts: [{prompt: Order honey., id: honey}]
seed: 1
steady_state: [no crash]
method:
  faults: {faults: [{fault: lose_reply, links: shop, only: {method: POST}, when: {first: 1, of: try}}]}
hypothesis: [no duplicate]
"""

FOREIGN = {"id": 1, "user": {"type": "User"}, "body": "<!-- wirefault wirefault -->\nNothing was found."}


@dataclass
class Host:
    """The host's API as far as comments need it: two pages, the first of foreign comments only."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refuses: int = 0
    """The status of every write, if it refuses them."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any, str]:
        self.requests.append(f"{method} {path.partition('?')[0]}")
        if path == "/user":  # a build's token is not a user's
            return 403, {"message": "Resource not accessible by integration"}, ""
        if method == "GET":
            first = "page=2" not in path
            link = f'<{self.url}{path}&page=2>; rel="next"' if first else ""
            return 200, [FOREIGN] if first else self.comments, link
        if self.refuses:
            return self.refuses, {"message": "Resource not accessible by integration"}, ""
        if method == "POST":
            self.comments.append({"id": 10 + len(self.comments), "user": {"type": "Bot"}, **body})
            return 201, self.comments[-1], ""
        [comment] = [each for each in self.comments if path.endswith(f"/comments/{each['id']}")]
        comment.update(body)
        return 200, comment, ""


@contextmanager
def running(host: Host) -> Iterator[Host]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "Bearer secret-token"
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or "null")
            status, reply, link = host.answer(self.command, self.path, body)
            self.send_response(status)
            if link:
                self.send_header("Link", link)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        do_POST = do_PATCH = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever).start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class Build:
    """One build of the user's repository: its steps, what they left, and the exit code of the last."""

    code: int
    summary: str
    output: str
    uploaded: dict[str, str]
    reports: Path


@dataclass
class Machine:
    """Where steps run: a container, or this machine with the environment of the tests."""

    folder: Path
    container: str = ""
    installed: bool = False

    @property
    def action(self) -> Path:
        """A checkout of this repository."""
        return self.folder / "action" if self.container else ROOT

    def shell(self, folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the line in the folder by the shell and options that the host uses."""
        environ = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            **variables,
        }
        if self.container:
            del environ["PATH"]
        words = [item for name, value in environ.items() for item in ("-e", f"{name}={value}")]
        inside = ["docker", "exec", "-w", str(folder), *words, self.container]
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line]
        return subprocess.run(
            [*inside, *shell] if self.container else shell,
            cwd=folder,
            env=None if self.container else environ,
            capture_output=True,
            text=True,
            timeout=600,
        )


@dataclass
class Runner:
    """Carries out a composite action: shell steps in order, expressions as far as this action has them."""

    folder: Path
    host: Host
    machine: Machine

    def shell(self, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the line in the user's repository."""
        return self.machine.shell(self.folder / "repository", line, **variables)

    def build(self, **inputs: str) -> Build:
        values = {f"inputs.{name}": str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        values |= {
            "inputs.token": "secret-token",
            "steps.run.outputs.code": "",
            "steps.run.outputs.reports": "",
        }
        summary = self.folder / "step-summary.md"
        summary.write_text("", encoding="utf-8")
        uploaded: dict[str, str] = {}
        output, failed, code = "", False, 0
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "success()")
            if (failed and "always()" not in condition) or not _holds(condition, values):
                continue
            if "uses" in step:
                uploaded = {name: _filled(str(value), values) for name, value in step["with"].items()}
            elif step["name"] != "Install" or not self.machine.installed:
                done = self._run(step, values, summary)
                self.machine.installed = True
                output, code = output + done.stdout + done.stderr, done.returncode
                failed = failed or code != 0
        return Build(
            code, summary.read_text("utf-8"), output, uploaded, Path(values["steps.run.outputs.reports"])
        )

    def _run(
        self, step: Mapping[str, Any], values: dict[str, str], summary: Path
    ) -> subprocess.CompletedProcess[str]:
        assert "${{" not in step["run"]  # inputs reach the shell as variables only
        outputs, event = self.folder / "outputs", self.folder / "event.json"
        outputs.write_text("", encoding="utf-8")
        event.write_text('{"pull_request": {"number": 5}}', encoding="utf-8")
        variables = {name: _filled(value, values) for name, value in step.get("env", {}).items()}
        environ = {
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": str(self.machine.action),
            "GITHUB_API_URL": self.host.url,
            "GITHUB_REPOSITORY": "owner/agent",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_OUTPUT": str(outputs),
            **constraint(self.folder),
            **variables,
        }
        done = self.shell(step["run"], **environ)
        for line in outputs.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step['id']}.outputs.{name}"] = value
        return done


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], text)


def _holds(condition: str, values: Mapping[str, str]) -> bool:
    terms = [term.strip() for term in condition.split("&&") if "(" not in term]
    sides = [re.fullmatch(r"(\S+) (==|!=) '(.*)'", term) for term in terms]
    return all(side and (values[side[1]] == side[3]) == (side[2] == "==") for side in sides)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    port, folder = free_port(), tmp_path_factory.mktemp("shop")
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "examples/shop/shop.py"), str(port)],
        cwd=folder,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: (folder / "shop.db").exists() or None)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def prepared(folder: Path, shop: int, where: Machine) -> Iterator[Runner]:
    repository = folder / "repository"
    repository.mkdir()
    wiring = {
        "links": {
            "shop": {"upstream": f"http://127.0.0.1:{shop}", "env": "SHOP_URL", "writes": ["POST /orders"]}
        },
        "subject": {"command": ["python3", "agent.py"], "folder": "."},
    }
    (repository / "wirefault.yaml").write_text(json.dumps(wiring), encoding="utf-8")
    (repository / "order.yaml").write_text(EXPERIMENT, encoding="utf-8")
    with running(Host()) as host:
        yield Runner(folder, host, where)


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    if not required("docker"):
        yield Machine(folder, installed=True)
        return
    (folder / "action").mkdir()
    copy_clone(folder / "action")
    (folder / "home").mkdir()
    [image] = [name for name in base_images() if "python" in name]
    mount = f"{folder}:{folder}"
    container = docker("run", "-d", "--rm", "--network=host", "-v", mount, image, "sleep", "3600")
    try:
        yield Machine(folder, container)
    finally:
        owner = f"{os.getuid()}:{os.getgid()}"
        docker("exec", container, "chown", "-R", owner, str(folder), check=False)
        docker("rm", "-f", container)


def agent(runner: Runner, tries: int) -> None:
    text = AGENT.replace("TRIES", str(tries))
    (runner.folder / "repository" / "agent.py").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_builds_update_one_comment_and_an_accepted_finding_passes(runner: Runner) -> None:
    agent(runner, tries=2)
    failed = runner.build(run="order.yaml")
    assert failed.code == 1, failed.output
    assert "## Wirefault: deviated" in failed.summary and "no duplicate" in failed.summary
    [comment] = runner.host.comments
    assert comment["body"].startswith("<!-- wirefault wirefault -->\n## Wirefault: deviated")
    names = {path.suffix for path in Path(failed.uploaded["path"]).iterdir()}
    assert {".html", ".gz", ".xml", ".json", ".md"} <= names

    accept = ["wirefault", "baseline", "accept", "latest"]
    assert runner.shell(shlex.join(accept)).returncode == 0
    accepted = runner.build(run="'order.yaml' --seed 2", baseline="wirefault.baseline.json")
    assert accepted.code == 0, accepted.output
    assert "passed against the baseline, accepted today" in accepted.summary

    agent(runner, tries=1)
    fixed = runner.build(run="order.yaml")
    assert fixed.code == 0, fixed.output
    [comment] = runner.host.comments
    assert "## Wirefault: held" in comment["body"] and "deviated" not in comment["body"]
    assert runner.host.requests.count("POST /repos/owner/agent/issues/5/comments") == 1

    runner.host.refuses = 403
    missing = runner.build(run="$(touch pwned).yaml")
    assert missing.code == 64 and "did not run (exit code 64)" in missing.summary
    assert "::warning::no comment: the host answered 403" in missing.output
    assert not (runner.folder / "repository" / "pwned").exists()


def test_name_stays_one_line_and_below_the_folder(tmp_path: Path) -> None:
    tool = tmp_path / "wirefault"
    tool.write_text("#!/bin/sh\nexit 64\n")
    tool.chmod(0o700)
    (tmp_path / "runner").mkdir()
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "WIREFAULT_NAME": "../x\ncode=0",
    }
    subprocess.run(["bash", str(ROOT / "action" / "run.sh")], env=environ, capture_output=True, check=True)
    code, reports = (tmp_path / "outputs").read_text().splitlines()
    assert code == "code=64"
    assert Path(reports.removeprefix("reports=")).parent == tmp_path / "runner"
    assert Path(reports.removeprefix("reports=")).is_dir()


@pytest.fixture
def runner(tmp_path: Path, shop: int) -> Iterator[Runner]:
    with machine(tmp_path) as where, prepared(tmp_path, shop, where) as opened:
        yield opened


@pytest.mark.slow
def test_lines_for_other_hosts_run_as_printed(runner: Runner, wheel: Path) -> None:
    gitlab = lines("GitLab")
    # its example starts the shop elsewhere
    assert lines("Jenkins") == [" && ".join(line for line in gitlab if "shop.py" not in line)]
    if not runner.machine.container:
        pytest.skip("installs Wirefault in a container, which needs Docker")
    agent(runner, tries=2)
    repository = runner.folder / "repository"
    (repository / "requirements.txt").write_text("", encoding="utf-8")
    copy(wheel, runner.folder)
    here = {"PIP_FIND_LINKS": str(runner.folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    pins = constraint(runner.folder)
    with Path(pins["PIP_CONSTRAINT"]).open("a", encoding="utf-8") as file:
        file.write(f"wirefault @ file://{runner.folder / wheel.name}\n")
    for line in gitlab:
        # the fixture has started the shop on a free port
        done = runner.shell("true" if "shop.py" in line else line, **here, **pins)
        if "wirefault run" in line:
            break
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.returncode == 1 and "no duplicate" in done.stdout, done.stdout + done.stderr
    cases = ElementTree.parse(repository / "reports/junit.xml").findall(".//testcase/failure")
    assert len(cases) == 1 and (repository / "reports/summary.md").exists()


def lines(host: str) -> list[str]:
    """The shell lines of the page's example for a host."""
    page = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8")
    block = re.search(rf"^## {host}\n+```(\w+)\n(.*?)```", page, flags=re.DOTALL | re.MULTILINE)
    assert block
    if block[1] == "yaml":
        return list(yaml.safe_load(block[2])["agent"]["script"])
    return re.findall(r"sh '(.*?)'", block[2])
