"""The page as text: its figures, its links, and texts that models, tools and files can fill."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from markupsafe import Markup

from tests.experiments.test_compare import SavedRuns
from tests.experiments.test_run_experiment import PaperEngine, planned, run_on_paper
from tests.judging.findings.traced import SHOP, request
from tests.judging.oracle.histories import ended
from tests.report.page.recorded import (
    HOSTILE,
    doubled_order,
    failed_command,
    false_success,
    hostile_order,
    killed_order,
    synthetic,
)
from tests.support import replace
from wirefault.cli.main import main
from wirefault.experiments.compare import compare, side_of
from wirefault.experiments.recorded import open_recording, recording_of
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.rules import RULES
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace
from wirefault.report.fixes import HELPS
from wirefault.report.junit import junit
from wirefault.report.next_command import with_folder
from wirefault.report.page import comparisons
from wirefault.report.page.charts import provenance
from wirefault.report.page.comparisons import comparison_content, first_difference
from wirefault.report.page.costs import effect_text, extra_row
from wirefault.report.page.episode import Sides
from wirefault.report.page.experiments import beyond_statements
from wirefault.report.page.figures import busy_seconds
from wirefault.report.page.findings import actor_of, causing_requests, in_ranges
from wirefault.report.page.parts import Episodes
from wirefault.report.page.write import page_content, page_html, page_line, whole_words
from wirefault.report.page_links import page_links

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text)))


def all_html(page: str) -> str:
    """The page with its compressed episodes."""
    chunks = re.findall(r'<script type="text/plain" class="chunk">(.*?)</script>', page)
    return page + "".join(episode for chunk in chunks for episode in unpacked(chunk))


def test_script_of_the_lab_is_not_blamed_as_model(tmp_path: Path) -> None:
    trace = page_content(synthetic(tmp_path)).episodes[0].trace
    assert actor_of("asked_again", ["model"], trace) == "lab's scripted model"
    assert actor_of("asked_again", ["model"]) == "model"
    assert actor_of("not_done_but_told", ["code"], trace) == "agent"


def test_doubled_order_is_the_first_finding_with_its_event_and_help(tmp_path: Path) -> None:
    content = page_content(doubled_order(tmp_path))
    [finding, *_] = content.findings
    assert (content.verdict, finding.severity, finding.rule) == ("harm found", "harmful", "write_repeated")
    assert finding.href == "#ep/1/gateway-0:1"
    assert [episode.severity for episode in content.episodes] == ["harmful"]
    assert finding.helps == HELPS["write_repeated"]
    assert finding.actor == "agent's code or HTTP client"
    assert finding.who.startswith("the agent's own code or HTTP client sent it again")
    assert finding.who.endswith("; the lab injected lose_reply")
    assert finding.example == "episode 1: “Order tea”"
    assert finding.effect == "1 extra write"
    assert [reply[:8] for reply in finding.replies] == ['{ "id": ']
    assert finding.title == "Your agent ordered twice after one reply broke off"
    start = f"{finding.title}. The lab injected lose_reply into shop: POST /orders."
    assert content.sentence.startswith(start)
    header = page_html(content).partition("</header>")[0]
    row = re.search(r'href="#finding-1">(.*?)</tr>', header, re.DOTALL)
    for text in ("shop: POST /orders", "agent's code or HTTP client", "--episode=e1"):
        assert row and text in html.unescape(row[1])
    assert "wirefault run --again run-b" in finding.repeat and finding.repeat.endswith("--episode=e1")
    assert finding.command.startswith("LOGS_DIR=") and finding.command.endswith("wirefault show run-b e1")
    [(name, [cell])] = content.matrix.rows if content.matrix else []
    assert (name, cell and cell.word, cell and cell.href) == ("tea", "HARM", "#ep/1/gateway-0:1")


def test_comparison_says_who_reacted_on_which_side(tmp_path: Path) -> None:
    first, second = killed_order(tmp_path), doubled_order(tmp_path)
    content = comparison_content(first, second, compare(side_of(first), side_of(second)))
    [card] = [each for each in content.findings if each.seen.endswith("1 of 1 episode of the second")]
    assert card.actor == "agent's code or HTTP client, in the second"
    assert card.seen == "in 0 of 1 episode of the first, in 1 of 1 episode of the second"
    assert [row.name for row in card.costs] == [
        "this episode in the second",
        "in the first",
        "the second less the first",
    ]
    assert card.injected.endswith("second: the lab injected lose_reply into shop: POST /orders")
    assert [node.sides.agent for node in card.both_sides if node.sides] == [("nothing", "", "")]
    assert f" {content.findings[0].title}: in 1 of 1 episode of the first, " in content.sentence
    assert content.opened


def test_comparison_says_that_the_second_side_repeats_with_a_key(tmp_path: Path) -> None:
    first, second = doubled_order(tmp_path), doubled_order(tmp_path, run_id="run-f", key="k")
    content = comparison_content(first, second, compare(side_of(first), side_of(second)))
    write = "1 write, declared or probable, sent again with"
    with_key = f"{write} the same idempotency key, by which the upstream can recognise it"
    no_key = f"{write} no idempotency key"
    assert dict(content.facts)["sent again"] == f"first: {no_key}; second: {with_key}"
    assert content.verdict == "not judged; episodes with findings: 1 of 1 -> 0 of 1"
    assert content.findings[0].other_side == f"in the second, no such finding: {with_key}"
    assert '"id": 1' in content.findings[0].other_replies[0]


@pytest.mark.parametrize(
    ("names", "completed", "why"),
    [
        ("x", True, "the second has no prompt with this id; without an id, a prompt is known by its words."),
        ("e0.r2", True, "the second repeats these prompts less often."),
    ],
)
def test_comparison_says_why_an_episode_is_missing(
    tmp_path: Path, names: str, completed: bool, why: str
) -> None:
    runs = SavedRuns(tmp_path)
    first, second = runs.run("run-1", "SS", ["e0", names]), runs.run("run-2", "S", ["e0"])  # type: ignore[arg-type]
    content = comparison_content(first, second, compare(side_of(first), side_of(second)))
    [remark] = content.remarks
    assert remark.startswith(f"only in the first, and not compared: 1 episode ({names} “")
    assert remark.endswith(why)


def test_repeated_write_is_harm_although_no_wiring_declares_it(tmp_path: Path) -> None:
    assert page_content(doubled_order(tmp_path, link=replace(SHOP, writes=()))).verdict == "harm found"


def test_both_sides_of_a_lost_reply_are_shown(tmp_path: Path) -> None:
    page = page_html(page_content(doubled_order(tmp_path)))
    assert re.search(
        r'upstream said <span class="status">201</span></h4><pre tabindex="0">{\s+&#34;id&#34;: 1', page
    )
    assert re.search(r"agent got</h4><pre tabindex=\"0\">nothing</pre>", page)


def test_cards_cut_long_replies_around_the_difference() -> None:
    lines = "".join(f"{place}\n" for place in range(20))
    whole = Sides((lines, "4", lines), (lines, "5", lines), "200", "200")
    near = whole.near_difference()
    assert near.upstream == ("...\n17\n18\n19\n", "4", "0\n1\n2\n...")
    unmarked = Sides((lines, "", ""), ("nothing", "", ""), "201", "")
    assert unmarked.near_difference() == unmarked


def test_every_link_has_its_target(tmp_path: Path) -> None:
    page = all_html(page_html(page_content(synthetic(tmp_path, 60))))
    targets = set(re.findall(r' id="([^"]+)"', page))
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert len(links) > 100
    assert links - targets == set()


def test_figures_are_those_of_json(tmp_path: Path) -> None:
    recording = synthetic(tmp_path, 60)
    content = page_content(recording)
    summary = recording.arm(None).summary.as_json()
    requests, table = content.tables
    assert requests.title == "Requests by link"
    assert sum(int(row[2]) for row in requests.rows) == sum(
        len(each.trace.requests) for each in content.episodes
    )
    for row, fault in zip(table.rows, summary["faults"], strict=True):
        cells = dict(zip(table.columns, row, strict=True))
        assert cells["kind"] == fault["kind"]
        assert {stage: cells[stage] for stage in ("eligible", "met", "delivered")} == {
            stage: "unknown" if fault[stage] is None else str(fault[stage])
            for stage in ("eligible", "met", "delivered")
        }
    counts: dict[str, int] = {}
    for episode in content.episodes:
        counts[episode.tone] = counts.get(episode.tone, 0) + 1
    assert counts == {f"o-{name}": count for name, count in summary["outcomes"].items()}


def test_hostile_texts_are_inert(tmp_path: Path) -> None:
    page = page_html(page_content(hostile_order(tmp_path)))
    scripts = re.findall(r"<script[^>]*>", page)
    assert scripts == ['<script type="text/plain" id="index">', "<script>"]
    assert "<img" not in page
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", page)
    assert not _CONTROL.search(page)
    assert html.escape("<script>alert(1)</script>", quote=False) in page
    assert 'class="headers"' in page and page.count("Retry-After: &lt;/script&gt;") == 1


@pytest.mark.parametrize(
    "words",
    [["show", "run-b", "1", "--full"], ["show", "run-b"], ["report", "run-b"], ["report", "run-b", "--md=-"]],
)
def test_hostile_texts_are_inert_in_terminal_and_markdown(tmp_path: Path, words: list[str]) -> None:
    hostile_order(tmp_path / "logs")
    printed = CliRunner().invoke(main, [*words, f"--out={tmp_path}"]).output
    assert "alert(1)" in printed and not _CONTROL.search(printed)


def test_hostile_texts_are_inert_in_junit(tmp_path: Path) -> None:
    result = run_on_paper(planned(tmp_path), PaperEngine())
    assert result.judged is not None
    check = replace(
        result.judged.checks[0], verdict="deviated", statement=HOSTILE, evidence=(HOSTILE,), message=HOSTILE
    )
    result.judged = replace(result.judged, verdict="deviated", checks=[check])
    document = junit([result])
    assert not _CONTROL.search(document)
    [case] = [
        each for each in ElementTree.fromstring(document).iter("testcase") if each.find("failure") is not None
    ]
    assert "<script>alert(1)</script>" in case.attrib["name"] and not list(case[-1])


def test_policy_allows_only_the_own_style_and_script(tmp_path: Path) -> None:
    page = page_html(page_content(doubled_order(tmp_path)))
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src &#39;none&#39;; style-src &#39;sha256-")
    assert "unsafe" not in policy
    assert not re.findall(r'\s(?:style|on\w+)="', page)
    assert not re.findall(r'(?:src|href)="(?!#)', page)


def test_many_episodes_are_packed_and_few_are_plain(tmp_path: Path) -> None:
    content = page_content(synthetic(tmp_path, 60))
    page = page_html(content)
    [index] = re.findall(r'<script type="text/plain" id="index">(.*?)</script>', page)
    rows = unpacked(index)
    assert [row["n"] for row in rows] == list(range(1, 61))
    plain = set(re.findall(r'<details class="ep" id="ep/(\d+)"', page))
    assert {row["n"] for row in rows if row["chunk"] < 0} == set(map(int, plain))
    assert len(set(re.findall(r'<details class="ep" id="ep/(\d+)"', all_html(page)))) == 60


def test_command_writes_the_page(tmp_path: Path) -> None:
    doubled_order(tmp_path / "logs")
    file = tmp_path / "page.html"
    words = ["report", "run-b", f"--out={tmp_path}", f"--html={file}"]
    result = CliRunner().invoke(main, words)
    assert f"page: {file}" in result.output
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    result = CliRunner().invoke(main, [*words[:-1], f"--html={tmp_path}/missing/page.html"])
    assert result.exit_code == 64
    assert "--html" in result.output and "No such file" in result.output


def test_comparison_shows_changed_episodes_on_both_sides(tmp_path: Path) -> None:
    runs = SavedRuns(tmp_path)
    first, second = runs.run("run-1", "SSF"), runs.run("run-2", "SFS")
    content = comparison_content(first, second, compare(side_of(first), side_of(second)))
    assert [(episode.arm, episode.word) for episode in content.episodes] == [
        ("first", "success"),
        ("second", "honest failure"),
        ("first", "honest failure"),
        ("second", "success"),
    ]
    assert [episode.command.split()[-2:] for episode in content.episodes] == [
        ["run-1", "e1"],
        ["run-2", "e1"],
        ["run-1", "e2"],
        ["run-2", "e2"],
    ]
    assert content.matrix and [name for name, _ in content.matrix.rows] == [
        "e1: Message Bob",
        "e2: Message Bob",
    ]
    assert content.sentence.startswith("1 episode of the second got better, 1 got worse. 0 faults delivered")
    assert [name for name, _ in content.commands] == [
        "compare again",
        "run the first again",
        "run the second again",
    ]
    [measures] = [table for table in content.tables if table.title == "Measures"]
    assert measures.columns == ("", "first", "second", "difference")
    file = tmp_path / "page.html"
    words = ["compare", "run-1", "run-2", f"--html={file}"]
    assert f"page: {file}" in CliRunner().invoke(main, words, env={"LOGS_DIR": str(tmp_path)}).output
    assert "Two recordings compared" in file.read_text(encoding="utf-8")


def test_first_different_request() -> None:
    price, order, refused = (
        Request((f"gateway-0:{line}",), record, None)
        for line, record in enumerate((request(method="GET"), request(1), request(1, status=503)), start=1)
    )
    assert first_difference([price, order], [price, order]) is None
    assert first_difference([price, order], [price, refused]) == (2, order, refused)
    assert first_difference([price], [price, order]) == (2, None, order)


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.severity != "note"])
def test_each_rule_says_what_helps(rule: str) -> None:
    assert HELPS[rule].endswith(".")


def test_harmful_outcome_is_a_finding(tmp_path: Path) -> None:
    content = page_content(false_success(tmp_path))
    [card] = content.findings
    assert (content.verdict, card.severity, card.rule) == ("harm found", "harmful", "false_success")
    assert card.text.startswith("the agent says that it is done, but it is not as asked: ")
    assert card.href == "#ep/1"
    assert "The task failed: episode 1 (false success: " in content.sentence
    assert 'The task failed: episode <a href="#ep/1"><data' in page_html(content)


def test_paths_of_alike_findings_are_not_given_as_one() -> None:
    texts = [
        f"POST /redirect/{code} was sent again {ms} ms after it" for code, ms in ((303, 306), (302, 317))
    ]
    findings = [Finding("write_repeated", "harmful", text, "e1", ("a-1",)) for text in texts]
    assert in_ranges(findings) == "POST /redirect/# was sent again 306 to 317 ms after it"


def test_failed_command_without_an_oracle_is_not_called_fine(tmp_path: Path) -> None:
    content = page_content(failed_command(tmp_path))
    assert (content.verdict, content.tone) == (
        "nothing harmful found; not judged: the agent failed with exit code 1",
        "open",
    )
    assert "ruled out" not in content.sentence
    assert content.sentence.endswith("the prompts file: docs/outcomes.md.")
    [(_, [cell])] = content.matrix.rows if content.matrix else []
    assert cell and (cell.word, cell.tone) == ("failed", "unknown")
    assert content.figures["arms"][0]["ruled_out"] is None
    facts = dict(content.facts)
    assert facts["under"] == "2 faults in 2 requests: lose_reply on shop (2)"
    [card] = content.findings
    assert (card.word, card.actor) == ("failed", "agent")
    assert card.who == "the agent's code ended it; the lab injected lose_reply into shop: GET /price"


def test_extra_writes_are_counted_over_all_episodes(tmp_path: Path) -> None:
    both = [doubled_order(tmp_path / run, run_id=run) for run in ("a", "b")]
    one, other = (Episodes(tmp_path, each.id).add_arm(each.arm(None))[0] for each in both)
    [finding, *_] = [each for each in one.findings if each.rule == "write_repeated"]
    members = [(each, finding.evidence, None) for each in (one, other)]
    assert effect_text("write_repeated", members) == "2 extra writes in 2 episodes"
    assert one.row["extra_writes"] == [{"writes": 2, "episodes": 2}]
    assert not effect_text("write_repeated", [(one, finding.evidence, other)])
    assert not effect_text("hasty_retry", members)


def test_cost_within_the_noise_is_no_difference_and_less_is_less(tmp_path: Path) -> None:
    [example] = Episodes(tmp_path, "run-d").add_arm(failed_command(tmp_path).arm(None))
    control, slow = (replace(example, row={**example.row, "busy_s": s, "calls": 1}) for s in (10.0, 30.0))
    extra = extra_row(replace(example, row={**example.row, "busy_s": 10.5}), control)
    assert (extra.calls, extra.tokens) == ("+1 request", "–")
    assert extra.seconds == "no measurable difference in time"
    assert extra_row(slow, control).seconds == "+20.000 s"
    assert extra_row(control, slow).seconds == "20.000 s less"
    one, two = (replace(example, row={**example.row, "calls": n}) for n in (1, 3))
    assert extra_row(one, two).calls == "2 requests fewer"


def test_repeat_command_names_the_folder_of_the_run(tmp_path: Path) -> None:
    command = "A=b wirefault exec --seed 5 -- python agent.py"
    expected = f"A=b wirefault exec --out={tmp_path} --seed 5 -- python agent.py"
    assert with_folder(command, tmp_path / "logs") == expected


def test_provenance_names_what_only_one_arm_has(tmp_path: Path) -> None:
    summary = synthetic(tmp_path).arm(None).summary
    other = replace(summary, settings={**summary.settings, "error_prob": 1.0})
    rows = dict(provenance("x", open_recording(tmp_path, "run-a", {}).evidence, {"a": summary, "b": other}))
    assert (rows["also, in the arm a"], rows["also, in the arm b"]) == ("nothing", "error_prob 1.0")


def test_unknown_observation_and_few_requests_are_not_shown_as_figures(tmp_path: Path) -> None:
    content = page_content(failed_command(tmp_path))
    [faults] = [table for table in content.tables if table.title == "Faults"]
    row = dict(zip(faults.columns, faults.rows[0], strict=True))
    assert (row["observed"], row["delivered"]) == ("not recorded by the agent", "2")
    [chart] = [chart for chart in content.charts if chart.title == "Duration of requests by link"]
    assert "<circle" not in chart.picture and "too few for a median" in chart.picture


def test_statement_that_did_not_hold_comes_first_with_its_figures(tmp_path: Path) -> None:
    result = run_on_paper(planned(tmp_path, hypothesis=["success == all"]), PaperEngine())
    content = page_content(recording_of(result.saved))
    document = result.as_json()
    assert (content.verdict, content.kind) == (document["verdict"], "experiment")
    assert document["verdict"] != "held"
    open_checks = [check for check in document["checks"] if check["verdict"] != "held"]
    cards = content.findings[: len(open_checks)]
    assert [card.word for card in cards] == [check["verdict"] for check in open_checks]
    for card, check in zip(cards, open_checks, strict=True):
        assert card.text.startswith(f"“{check['statement']}” ")
    assert result.judged is not None
    figures = [each.figures for each in result.judged.checks if each.verdict != "held"]
    assert all(each in card.text for card, each in zip(cards, figures, strict=True))
    [statements] = [table for table in content.tables if table.title == "Statements"]
    assert [row[:2] for row in statements.rows] == [(c["arm"], c["statement"]) for c in document["checks"]]
    matrix = content.matrix
    words = {cell.word for _, cells in matrix.rows for cell in cells if cell} if matrix else set()
    assert words == {check["verdict"] for check in document["checks"]}


def test_verdict_held_does_not_hide_a_harmful_finding(tmp_path: Path) -> None:
    sentence = "".join(beyond_statements(page_content(doubled_order(tmp_path)).findings))
    assert sentence.startswith(" No statement excludes this HARM. Your agent ordered twice after ")
    assert sentence.endswith(" (in this episode).")
    assert list(beyond_statements([])) == []


def test_junit_links_each_failure_to_its_episode_on_the_page(tmp_path: Path) -> None:
    result = run_on_paper(planned(tmp_path), PaperEngine())
    content = page_content(recording_of(result.saved))
    path = tmp_path / "logs" / "pages" / result.saved.experiment_id / "page.html"
    assert page_links(result.saved) == {
        (episode.arm, episode.key): f"{path}#{episode.anchor}" for episode in content.episodes
    }
    last = content.episodes[-1]
    assert result.judged is not None
    failed = replace(result.judged.checks[0], arm=last.arm, verdict="deviated", episodes=(last.key,))
    result.judged = replace(result.judged, verdict="deviated", checks=[failed])
    assert f"page: {path}#ep/{len(content.episodes)}</failure>" in junit([result])


def test_repeated_order_is_counted_for_the_layer_that_sent_it(tmp_path: Path) -> None:
    [table, *_] = page_content(doubled_order(tmp_path)).tables
    assert [row[:4] for row in table.rows] == [
        ["shop", "without faults", "1", "0"],
        ["shop", "with a fault", "1", "1"],
    ]
    assert [row[5] for row in table.rows] == ["code 1", "–"]


def test_console_names_the_event_of_a_finding_on_the_page(tmp_path: Path) -> None:
    doubled_order(tmp_path / "logs")
    words = ["show", "run-b", "1", f"--out={tmp_path}"]
    assert "page: " not in CliRunner().invoke(main, words).output
    path = Path(page_line(tmp_path / "logs", "run-b", {}).removeprefix("page: "))
    [link] = re.findall(r"^page: (.*)$", CliRunner().invoke(main, words).output, re.M)
    anchor = link.removeprefix(f"{path}#")
    assert re.fullmatch(r"ep/1/gateway-0:\d", anchor)
    assert f'id="{anchor}"' in path.read_text(encoding="utf-8")


def test_command_is_not_broken_at_hyphens() -> None:
    html = whole_words("wirefault run --again <x> --episode=1")
    assert '<span class="word">--again</span> <span class="word">&lt;x&gt;</span>' in html
    assert Markup(html).striptags() == "wirefault run --again <x> --episode=1"


@pytest.mark.parametrize("open_side", ["0 to 3", "unknown", "20 % to 50 %", "no data"])
def test_open_measures_have_no_difference(open_side: str) -> None:
    sides = {"duplicate": (open_side, "0"), "seconds": ("2 s", "1.5 s")}
    arm = SimpleNamespace(measures=sides)
    assert comparisons._differences(arm) == {"seconds": "-0.5 s"}  # type: ignore[arg-type]


def spanned(start: float, end: float, id: str, *injected: str) -> SimpleNamespace:
    return SimpleNamespace(start=start, end=end, ids=[id], injected=list(injected))


def test_cost_leaves_out_the_start_of_the_program() -> None:
    requests: Any = [spanned(107.8, 108.3, "gateway-0:1"), spanned(108.4, 108.9, "gateway-0:2")]
    trace = EpisodeTrace("001", [("agent-0:1", ended(ms=12_000.0))])
    assert (busy_seconds(trace.only(requests)), busy_seconds(trace)) == (1.1, 12)


def test_fault_on_the_repeated_request_is_not_its_cause() -> None:
    first, second = spanned(0, 1, "gateway-0:1", "rate_limit"), spanned(2, 3, "gateway-0:2", "unavailable")
    requests: Any = [first, second]
    placed: Any = SimpleNamespace(trace=EpisodeTrace("001", []).only(requests))
    assert causing_requests(placed, ["run/gateway-0:1", "run/gateway-0:2"]) == [first]
    assert causing_requests(placed, ["run/gateway-0:2"]) == [second]
