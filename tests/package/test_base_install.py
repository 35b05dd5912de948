"""``pip install wirefault`` without extras: audit, exec, run of a wiring, and runs verify."""

from __future__ import annotations

import json
from pathlib import Path

from tests.examples.serving import shop
from tests.package.imports import ImportRecord
from tests.package.installing import MARKS, Environment
from tests.package.test_foreign_agents import AGENT, NEEDED, OF_THE_LAB, PROMPTS, WIRING

pytestmark = MARKS


def test_base_install_runs_the_four_commands_and_nothing_idle(core: Environment, tmp_path: Path) -> None:
    record = ImportRecord(core, tmp_path / "modules.txt")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "prompts.json").write_text(json.dumps(PROMPTS), encoding="utf-8")
    with shop(tmp_path / "shop.db") as running:
        wiring = WIRING.format(url=running.url, python=core.python)
        (folder / "wirefault.yaml").write_text(wiring, encoding="utf-8")
        command = ["--", core.python, "agent.py", "Say hello", running.url, "--ask"]
        ask = ["--ask", "lost_reply", "--ask", "model_5xx"]
        audited = core.wirefault(folder, "audit", "--scripted", *ask, *command)
        assert audited.returncode == 1, audited.stdout + audited.stderr
        assert "HARM  POST /orders, reply lost" in audited.stdout
        assert running.requests.count(("POST", "/orders")) >= 2 + 2 * 2
        core.must_run(folder, "exec", "--scripted", *command)
        core.must_run(folder, "run", "wirefault.yaml")
        core.must_run(folder, "runs", "verify", "latest")
    assert sorted(filter(OF_THE_LAB.match, record.modules())) == []
    # a package that none of the four imports belongs to an extra
    assert NEEDED - record.third_party() == set()
