"""The pages of searches: answer, chart or sets, and every figure as in ``--json``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tests.experiments.dealer import Dealer, both_down, on_paper
from tests.experiments.search.test_run_search import smallest_set, source
from tests.report.page.test_figures import check, reported
from wirefault.cli.main import main
from wirefault.cli.options import command_words
from wirefault.cli.search import search_command
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import save
from wirefault.experiments.search.options import plan_limit
from wirefault.experiments.search.run_search import run_search

_DOWN = [{"fault": "server_error", "id": "down", "links": ["shop"], "when": {"probability": 0.5}}]


def _fails_from_half(arm: PlannedArm, _: str) -> bool:
    return arm.name != "control" and float(arm.name.rpartition("-")[2]) > 0.5


def test_limit_has_its_answer_and_curve(tmp_path: Path) -> None:
    numbers = {"rate": 0.5, "confidence": 0.95, "cap": 16, "within": 0.0}
    plan = plan_limit(source(tmp_path, faults=_DOWN), "down.probability", (0, 1), 11, **numbers)  # type: ignore[arg-type]
    run_search(save(plan, "e1"), on_paper(), Dealer(_fails_from_half))
    page, document = reported(tmp_path, "report", "e1")
    check(page.replace(str(tmp_path), "folder"), document, 60)
    assert "Success falls to " in page and "Success against dose" in page
    assert sum(row["n"] for row in document["figures"]["doses"]) == document["answer"]["trials"]
    markdown = CliRunner().invoke(main, ["report", "e1", f"--out={tmp_path}", "--md=-"]).output
    assert markdown.startswith("## Wirefault: limit") and "Success falls to " in markdown
    assert "unknown" not in markdown
    junit = CliRunner().invoke(main, ["report", "e1", f"--out={tmp_path}", "--junit=-"])
    assert (junit.exit_code, 'tests="1" failures="0" errors="0"' in junit.output) == (0, True)
    verified = CliRunner().invoke(main, ["runs", "verify", "e1", f"--out={tmp_path}"])
    assert "success falls to " in verified.output and "faults_delivered" not in verified.output


def test_smallest_set_has_its_sets(tmp_path: Path) -> None:
    run_search(save(smallest_set(source(tmp_path)), "e1"), on_paper(), Dealer(both_down))
    page, document = reported(tmp_path, "report", "e1")
    check(page.replace(str(tmp_path), "folder"), document, 40)
    assert "smallest failing set found" in page
    rows = {tuple(row["faults"]): row["fails"] for row in document["figures"]["sets"]}
    assert rows["a-down", "b-down"] is True and rows["a-down",] is False
    markdown = CliRunner().invoke(main, ["report", "e1", f"--out={tmp_path}", "--md=-"]).output
    assert "Smallest failing set: " in markdown and "### Sets of faults" in markdown


def test_search_without_steady_state_says_so(tmp_path: Path) -> None:
    run_search(save(smallest_set(source(tmp_path)), "e1"), on_paper(), Dealer(lambda *_: True))
    page, document = reported(tmp_path, "report", "e1")
    check(page.replace(str(tmp_path), "folder"), document, 5)
    assert "Not searched: the agent fails without faults" in page


def test_command_is_repeated_with_its_options() -> None:
    words = ["exp.json", "--cap", "12", "--failure", "crash", "--failure", "duplicate", "--json"]
    context = search_command.commands["limit"].make_context("wirefault search limit", words)
    again = ["exp.json", "--cap=12", "--failure=crash", "--failure=duplicate"]
    assert sorted(command_words(context, except_=["as_json"])) == sorted(
        ["wirefault", "search", "limit", *again]
    )


def test_command_repeats_several_files_and_flags() -> None:
    context = search_command.commands["next"].make_context(
        "wirefault search next", ["a.yaml", "b.yaml", "--run"]
    )
    assert command_words(context) == ["wirefault", "search", "next", "a.yaml", "b.yaml", "--run"]
