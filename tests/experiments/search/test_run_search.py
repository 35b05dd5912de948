"""Searches that run episodes: in a real lab, without a steady state, and mistakes in their options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.experiments.dealer import Dealer, both_down, on_paper
from tests.support import replace
from tests.upstream import Upstream, requests_of
from wirefault.cli.main import main
from wirefault.experiments.engine import LocalEngine
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.saved import load_saved, save
from wirefault.experiments.search.limit import Limit
from wirefault.experiments.search.minimise import Smallest
from wirefault.experiments.search.options import SearchSource, plan_limit, plan_minimise, write_smallest
from wirefault.experiments.search.run_search import answer_of, run_search

ASKING = """
import os, urllib.request

def ask(prompt):
    # succeeds as long as one of both pages can be read
    for page in ("a", "b"):
        try:
            with urllib.request.urlopen(f"{os.environ['SHOP_URL']}/{page}", timeout=20) as reply:
                return reply.read().decode()
        except OSError:
            pass
    return "0"
"""
FAULTS = [
    {"fault": "server_error", "id": "a-down", "links": ["shop"], "only": {"path": "/a"}},
    {"fault": "server_error", "id": "b-down", "links": ["shop"], "only": {"path": "/b"}},
    {"fault": "delay", "id": "slow", "links": ["shop"], "with": {"ms": 1}},
]


def source(folder: Path, shop: str = "http://127.0.0.1:9", faults: Any = FAULTS) -> SearchSource:
    (folder / "asking.py").write_text(ASKING, encoding="utf-8")
    wiring = {
        "links": {"shop": {"upstream": shop, "env": "SHOP_URL"}},
        "subject": {"python": "asking:ask"},
    }
    experiment = {
        "title": "Pages",
        "wiring": wiring,
        "prompts": [{"id": "n", "prompt": "How many?", "expect": {"values": [{"number": 7}]}}],
        "seed": 5,
        "method": {"faults": {"faults": faults}},
        "hypothesis": ["success == all"],
    }
    (folder / "exp.json").write_text(json.dumps(experiment), encoding="utf-8")
    state = folder / "state"
    environ = {
        "LOGS_DIR": str(folder / "logs"),
        "STATE_DB": str(state / "state.db"),
        "EFFECTS_DB": str(state / "effects.db"),
    }
    return SearchSource(folder / "exp.json", "", (), {}, environ)


def smallest_set(of: SearchSource) -> ExperimentPlan:
    return plan_minimise(of, fails_at=0.9, passes_at=0.1, error=0.2, cap=20)


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7")

    with Upstream(serve) as upstream:
        yield upstream.address.url


@pytest.mark.slow
def test_smallest_set_in_lab_is_written_as_experiment_and_pytest(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path, shop)
    monkeypatch.chdir(tmp_path)
    words = "search minimise exp.json --fails-at .9 --passes-at .1 --error .2 --toxiproxy embedded --json"
    result = CliRunner().invoke(main, [*words.split(), "--write", "small.yaml", "--pytest", "test_small.py"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)["answer"]
    assert (answer["state"], answer["faults"]) == ("minimal", ["a-down", "b-down"])
    environ = {**os.environ, "PYTEST_ADDOPTS": ""}
    report = CliRunner().invoke(main, ["report", "latest"])
    assert "smallest failing set: a-down, b-down" in report.output and report.exit_code == 0
    checked = subprocess.run(
        [sys.executable, "-m", "wirefault", "plan", "small.yaml"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    written = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_small.py"]
    failing = subprocess.run(written, capture_output=True, text=True, env=environ)
    assert failing.returncode == 1 and "1 failed" in failing.stdout, failing.stdout
    assert "test_agent_survives_smallest_failing_set" in failing.stdout
    # an agent that has a third page survives
    mended = ASKING.replace('("a", "b")', '("a", "b", "c")')
    (tmp_path / "asking.py").write_text(mended, encoding="utf-8")
    passing = subprocess.run(written, capture_output=True, text=True, env=environ)
    assert passing.returncode == 0, passing.stdout


LOSING = """
import os, urllib.request

def ask(prompt):
    # orders again after an error, and reports all that it has ordered
    for orders in (1, 2):
        try:
            with urllib.request.urlopen(os.environ["SHOP_URL"] + "/orders", b"{}", timeout=20) as reply:
                return str(orders * int(reply.read()))
        except OSError:
            pass
"""


@pytest.mark.slow
def test_lost_reply_is_named_as_cause_of_double_order(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [
        {"fault": "lose_reply", "id": "lost", "links": ["shop"], "when": {"nth": 1}},
        {"fault": "delay", "id": "slow", "links": ["shop"], "with": {"ms": 1}},
    ]
    of = source(tmp_path, shop, faults)
    (tmp_path / "asking.py").write_text(LOSING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> Any:
        result = CliRunner().invoke(main, [*words.split(), "--toxiproxy=embedded", "--json"])
        assert result.exit_code in (0, 1), result.output
        return json.loads(result.stdout)

    run(f"run {of.file.name}")
    answer = run("search explain latest n --error .9")["answer"]
    assert (answer["state"], answer["faults"]) == ("one", ["lost"])


@pytest.mark.slow
def test_limit_in_lab_follows_probability(shop: str, tmp_path: Path) -> None:
    both = [{"fault": "server_error", "id": "down", "links": ["shop"], "when": {"probability": 0.5}}]
    numbers = {"rate": 0.5, "confidence": 0.95, "cap": 8, "within": 0.0}
    plan = plan_limit(source(tmp_path, shop, both), "down.probability", (0, 1), 5, **numbers)  # type: ignore[arg-type]
    result = run_search(save(plan, "e1"), on_paper(), LocalEngine())
    assert isinstance(result.answer, Limit) and result.answer.trials == 8
    assert result.answer.tallies[0.0].successes == result.answer.tallies[0.0].trials
    assert result.answer.tallies[1.0].successes == 0
    again = answer_of(load_saved(tmp_path / "logs", "e1", plan.configuration.environ))
    assert again.is_whole and again.answer == result.answer


def test_agent_that_fails_without_faults_is_not_searched(tmp_path: Path) -> None:
    plan = smallest_set(source(tmp_path))
    result = run_search(save(plan, "e1"), on_paper(), Dealer(lambda *_: True))
    assert result.answer is None and result.is_whole and result.code == 2
    assert "success_share" in result.no_steady_state


@pytest.mark.parametrize(
    ("failures", "statement"), [((), "success == all"), (("false_success",), "false_success == 0")]
)
def test_written_experiment_fails_on_what_the_search_counted(
    tmp_path: Path, failures: tuple[str, ...], statement: str
) -> None:
    of = replace(source(tmp_path), failures=failures)
    result = run_search(save(smallest_set(of), "e1"), on_paper(), Dealer(both_down))
    [written] = write_smallest(of, result, tmp_path / "small.yaml", None)
    experiment = load_experiment(written).experiment
    assert statement in experiment.hypothesis and experiment.repeats >= 5


def test_outcome_that_counts_as_failure(tmp_path: Path) -> None:
    of = replace(source(tmp_path), failures=("duplicate",))
    result = run_search(save(smallest_set(of), "e1"), on_paper(), Dealer(both_down))
    assert isinstance(result.answer, Smallest) and result.answer.state == "passes"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("minimise exp.json --failure crsh", "did you mean 'crash'?"),
        ("minimise exp.json --arm other", "--arm other: unknown arm; valid: method"),
        ("minimise exp.json --fails-at 0.2", "needs 0 < passes_at < fails_at < 1"),
        ("minimise exp.json --write ../small.yaml", "must be in the folder of exp.json"),
        ("minimise exp.json --write exp.json", "would replace the experiment"),
        ("limit exp.json --of slow.sm --doses 1:2", "did you mean 'slow.ms'?"),
        ("limit exp.json --of slow.ms", "name the doses of slow.ms by --doses LOW:HIGH"),
        (
            "limit exp.json --of probability --doses 0:1",
            "several faults have probability: name one of a-down",
        ),
        ("limit exp.json --of slow.probability --doses 0:5", "slow.probability = 5: "),
        ("limit exp.json --doses 5:1", "must be at least 0 and below the second"),
        ("limit exp.json --doses 5", "must be LOW:HIGH"),
        ("pairs exp.json --dose slow.ms=1,x", "must be FIELD=N,N"),
        ("pairs exp.json --dose slow.sm=1", "did you mean 'slow.ms'?"),
        ("pairs exp.json --dose slow.ms=-1", "at least 0"),
        ("pairs exp.json --dose slow.probability=2", "slow.probability = 2: "),
        ("pairs exp.json --dose slow.ms=1 --dose slow.probability=1", "has doses of ms already"),
        ("resume none", "unknown experiment none"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["search", *words.split()])
    assert message in result.stderr and result.exit_code == 64, result.output
    assert not (tmp_path / ".wirefault" / "logs" / "experiments").exists()


def test_run_refuses_to_resume_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = smallest_set(source(tmp_path))
    save(plan, "e1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGS_DIR", str(tmp_path / "logs"))
    result = CliRunner().invoke(main, ["run", "--resume", "e1"])
    assert "wirefault search resume e1" in result.stderr and result.exit_code == 64
