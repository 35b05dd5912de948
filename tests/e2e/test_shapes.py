"""Nine shapes of agents: ``audit``, an experiment, ``exec`` and ``run`` name the same findings.

Each is an unchanged program that orders two mugs: a model chooses two tools, and a shop carries them out.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.audit.serving import Servers, model_and_shop
from tests.commands import wirefault
from tests.lab.demos import environ_in
from tests.subjects.taps.conftest import namespaces  # noqa: F401  # a fixture
from tests.support import ROOT, share
from wirefault.experiments.saved import load_saved
from wirefault.judging.findings.differences import DIFFERENCES

pytestmark = pytest.mark.slow

SHAPES = Path(__file__).parent / "shapes"
CAREFUL = ROOT / "tests" / "audit" / "hardened" / "fetch.mjs"
QUESTIONS = ("lost_reply", "write_5xx", "write_429", "model_empty", "model_down_after_write")
TWICE, UNTOLD = "harmful: write_repeated", "harmful: done_but_not_told"
HASTY, ENDED = "risky: hasty_retry", "risky: one_failure_ends_it"
# of all but the careful one
ALL = {"model_empty": {"risky: empty_reply", "risky: silent"}, "model_down_after_write": {UNTOLD}}
# the findings of each agent, by question; none of all others
FINDINGS: Mapping[str, Mapping[str, Iterable[str]]] = {
    "httpx_loop.py": {**ALL, "lost_reply": {TWICE}, "write_429": {HASTY}},
    "curl.sh": {**ALL, "lost_reply": {TWICE}},
    "fetch.mjs": {},
    "sdk_tool_errors.py": {**ALL, "lost_reply": {UNTOLD}},
    "langgraph_retry.py": {**ALL, "lost_reply": {TWICE}, "write_429": {ENDED}},
    "async_kernel.py": {**ALL, "lost_reply": {UNTOLD}, "write_429": {ENDED}, "write_5xx": {ENDED}},
    "raw_streams.py": {**ALL, "lost_reply": {UNTOLD}},
    "sdk_streams.py": {**ALL, "lost_reply": {TWICE}, "write_429": {HASTY}},
    "stdio_client.py": {**ALL, "lost_reply": {UNTOLD}},
}
# one in each commit, all for a tag: each is run 36 times
CHOSEN = [shape for number, shape in enumerate(FINDINGS) if share(number) and share(number // 3)]
# an experiment and an audit have runs without faults to compare with
COMPARED = frozenset(rule.name for rule in DIFFERENCES)

ByQuestion = dict[str, set[str]]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with model_and_shop() as running:
        yield running


def command(shape: str, servers: Servers) -> list[str]:
    path, addresses = SHAPES / shape, [servers.model, servers.shop]
    if shape == "fetch.mjs":
        path, addresses = CAREFUL, [servers.model, servers.fallback, servers.shop]
    if shape == "stdio_client.py":
        addresses = [servers.model, str(SHAPES / "stdio_shop.py")]
    program = {".py": sys.executable, ".sh": "bash", ".mjs": "node"}[path.suffix]
    return [program, str(path), *addresses]


def named(findings: Iterable[Mapping[str, Any]]) -> set[str]:
    return {f"{each['severity']}: {each['rule']}" for each in findings if each["severity"] != "note"}


def by_question(findings: Iterable[Mapping[str, Any]], ids: Mapping[str, str]) -> ByQuestion:
    """Severity and rule of each, by the question that its episode is named after."""
    rows = list(findings)
    return {ids[id]: named(each for each in rows if each["episode"] == id) for id in ids}


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("shape", CHOSEN)
def test_every_command_names_the_same_findings(tmp_path: Path, servers: Servers, shape: str) -> None:
    agent = command(shape, servers)
    for program in {"fetch.mjs": ["node"], "curl.sh": ["curl"]}.get(shape, []):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    environ = environ_in(tmp_path)
    environ["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"  # of the server over a pipe
    )
    questions = [word for name in QUESTIONS for word in ("--ask", name)]
    words = ["audit", "--json", "audit.json", "--keep", *questions, "--", *agent]
    printed = wirefault(tmp_path, environ, *words)
    audit = json.loads((tmp_path / "audit.json").read_text("utf-8"))
    unknown = {each["id"]: each["why"] for each in audit["answers"] if each["status"] == "unknown"}
    assert not unknown, printed.stderr
    ids = {each["id"]: each["question"] for each in audit["answers"]}
    audited = {ids[each["id"]]: seen_in(each) for each in audit["answers"]}
    assert audited == {name: set(FINDINGS[shape].get(name, ())) for name in QUESTIONS}

    # the experiment that the audit writes: each fault in an arm, compared with the control
    experiment = json.loads(wirefault(tmp_path, environ, "run", "wirefault.audit.yaml", "--json").stdout)
    arms = {arm["arm"].partition("_")[2]: named(arm["findings"]) for arm in experiment["arms"]}
    assert {name: arms[name] for name in QUESTIONS} == audited

    # the same faults, each in an episode; no run without faults to compare with
    [arm] = load_saved(tmp_path / ".wirefault" / "logs", audit["experiment"], environ).plan.arms
    (tmp_path / "faults.json").write_text(arm.settings.faults)
    (tmp_path / "prompts.json").write_text(json.dumps([{"id": id, "prompt": "Order two mugs"} for id in ids]))
    how = ("--prompts", "prompts.json", "--faults", "faults.json", "--json")
    wirefault(tmp_path, environ, "exec", *how, "exec.json", "--", *agent)
    executed = json.loads((tmp_path / "exec.json").read_text("utf-8"))
    ran = json.loads(wirefault(tmp_path, environ, "run", "wirefault.audit.wiring.yaml", *how).stdout)
    alone = {
        name: {each for each in seen if each.partition(": ")[2] not in COMPARED}
        for name, seen in audited.items()
    }
    assert by_question(executed["findings"], ids) == by_question(ran["findings"], ids) == alone


def seen_in(answer: Mapping[str, Any]) -> set[str]:
    findings = [answer, *answer["also"]] if answer["finding"] else []
    return {f"{each['severity']}: {each['finding']}" for each in findings}
