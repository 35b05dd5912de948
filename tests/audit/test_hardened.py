"""Agents with keys, time limits, honest reports and a fallback model get no finding."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.audit.serving import Servers, model_and_shop
from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.support import share

pytestmark = pytest.mark.slow
AGENTS = Path(__file__).parent / "hardened"
NAMES = ("httpx_agent.py", "openai_sdk.py", "fetch.mjs", "agent.go", "agent.sh")
AUDITED = [name for number, name in enumerate(NAMES) if share(number)]  # with every question


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with model_and_shop() as running:
        yield running


@pytest.fixture(params=AUDITED)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of a hardened agent, without its arguments."""
    path = AGENTS / request.param
    if path.suffix == ".py":
        return [sys.executable, str(path)]
    program = {".mjs": "node", ".go": "go", ".sh": "curl"}[path.suffix]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if path.suffix == ".go":
        built = tmp_path / "agent"
        environ = os.environ | {"GO111MODULE": "off", "GOFLAGS": ""}
        subprocess.run(["go", "build", "-o", str(built), str(path)], env=environ, check=True)
        return [str(built)]
    return ["bash" if path.suffix == ".sh" else program, str(path)]


def test_hardened_agent_has_no_finding(tmp_path: Path, servers: Servers, command: list[str]) -> None:
    before = len(servers.orders)
    addresses = [servers.model, servers.fallback, servers.shop]
    words = ["audit", "--json", "audit.json", "--patience", "8", "--", *command, *addresses]
    ended = wirefault(tmp_path, environ_in(tmp_path), *words)
    printed = ended.stdout + ended.stderr
    result = json.loads((tmp_path / "audit.json").read_text())
    assert [each["id"] for each in result["answers"] if each["status"] != "fine"] == [], printed
    assert len(result["answers"]) > 12 and ended.returncode == 0, printed
    missing = "POST /orders was not carried out"
    without = sum(len(each["runs"]) for each in result["answers"] if each["note"].startswith(missing))
    assert without >= 2  # refused, and down for good
    assert len(servers.orders) - before == result["runs"] - without  # one order in each other run
