import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    judge_episode,
    latency,
    model_call,
    run_finished,
    run_started,
    started,
    timeout,
    tried,
)
from tests.support import replace
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.rules import RULES
from wirefault.judging.summary import summarise
from wirefault.report.console import ConsoleAudience, episode_line
from wirefault.report.summary import findings_block, print_summary
from wirefault.settings.settings import Settings

CLOSED = tried(error="connection_closed", ms=402)


def line(*events, expect=ASK_BOB, index=3, total=24, prompt=None):
    whole = episode(*events, expect=expect)
    if prompt is not None:
        whole[0] = started(expect, prompt=prompt)
    return episode_line(judge_episode(whole), index, total).plain


def printed(events, width=100, *, verbose=True, **options):
    out = io.StringIO()
    console = Console(file=out, width=width, **options)
    print_summary(console, summarise(events), "reproduce: wirefault demo --seed 7", verbose=verbose)
    return out.getvalue()


def test_line_has_number_outcome_prompt_and_faults():
    assert line(armed(timeout(), latency("search")), CLOSED, exchange(), expect={}) == (
        " 3/24  success         Message Bob                         message timeout 400 down"
    )


def test_selected_prompts_keep_their_numbers():
    out = io.StringIO()
    audience = ConsoleAudience(Console(file=out, width=100), whole=["a", "b", "c"])
    audience.episode_judged(1, 2, judge_episode(episode(name="c", expect={})))
    audience.close()
    assert out.getvalue().startswith("3/3  success")


def test_line_has_reason_of_failure():
    assert line() == " 3/24  false_success   Message Bob                         message_sent missing"


def test_line_has_unobserved_and_unexplained():
    assert "message timeout 400 down (not observed)" in line(armed(timeout()), tried(), expect={})
    assert "1 unexplained" in line(CLOSED, expect={})


def test_line_counts_faults_and_attempts():
    refused = {"error": "http_503", "status": 503}
    tries = [tried(try_=n, **refused) for n in (1, 2)]
    tries += [exchange(try_=n, status=503, fault=fault_met()) for n in (1, 2)]
    again = [ended("failed"), healed(), armed(attempt=2), ended(attempt=2), healed(attempt=2)]
    assert line(*tries, *again, expect={}).endswith("message 503 x2; 2 attempts")


def test_line_names_injected_faults_only():
    lost = fault_met("lose_reply", id="lose_reply", shows={"lost": True})
    passed = fault_met("stale", id="stale", injected=False, why_not="no_earlier_answer", shows=None)
    done = [
        exchange(faults=[lost, passed]),
        exchange("weather", faults=[lost]),
        exchange("weather", try_=2, faults=[lost]),
    ]
    assert line(*done, expect={}).endswith("message lose_reply; weather lose_reply x2")


def test_summary_has_row_per_entry():
    faults = [
        {"fault": "truncate", "links": "message"},
        {"fault": "empty", "links": "message", "id": "void", "when": {"probability": 0.5}},
        {"fault": "stale", "links": "weather"},
    ]
    passed = fault_met("empty", id="void", injected=False, why_not="already_faulted", shows=None)
    tries = [exchange(faults=[fault_met("truncate", id="truncate"), passed])]
    start = run_started(faults=Settings(seed=1, faults={"faults": faults}).faults)
    rows = [" ".join(row.split()) for row in printed([start, *episode(*tries), run_finished()]).splitlines()]
    assert "truncate 1 1 1 0 1 delivered as injected; always on: held" in rows
    assert "void: empty 1 1 0 0 0 already_faulted x1" in rows
    assert not any(row.startswith("toxic") for row in rows)
    assert "stale 0 0 0 0 0 always on: unknown" in rows


def test_unknown_toxic_has_its_reason_once():
    first, *others = episode(armed(timeout()), ended())
    text = printed([run_started(), replace(first, recorded=False), *others, run_finished()])
    assert "no_record" not in text
    assert " ".join(text.split()).count("unknown: no record of what the agent's connections got") == 1


def test_drawn_errors_have_their_own_row():
    own = fault_met("rate_limit")
    events = [exchange(faults=[own]), exchange(try_=2, faults=[fault_met("rate_limit", id="rate_limit")])]
    rows = [
        " ".join(r.split()) for r in printed([run_started(), *episode(*events), run_finished()]).splitlines()
    ]
    assert "rate_limit (ERROR_PROB) 2 1 1 0 1 delivered as injected" in rows
    assert "rate_limit unknown 1 1 0 1 delivered as injected" in rows


def test_upstream_evidence_is_labelled():
    doubled = fault_met("duplicate_request", id="d", shows=None, answered=True)
    rows = [
        " ".join(row.split())
        for row in printed([run_started(), *episode(exchange(fault=doubled))]).splitlines()
    ]
    assert "d: duplicate_request unknown 1 1 1 observed at the upstream" in rows


def test_repeat_line_is_not_wrapped():
    out, command = io.StringIO(), "wirefault demo --faults " + "word " * 60
    print_summary(Console(file=out, width=100), summarise(a_run()), command)
    assert command in out.getvalue()


def test_invalid_run_is_labelled():
    always_on = {"faults": [{"fault": "truncate", "links": "message"}]}
    start = run_started(faults=Settings(seed=1, faults=always_on).faults)
    out = io.StringIO()
    events = [start, *episode(exchange()), run_finished()]
    print_summary(Console(file=out, width=100), summarise(events))
    assert "this run is invalid" in out.getvalue()
    assert "fault truncate: 1 of 1 calls passed without it" in " ".join(out.getvalue().split())


@pytest.mark.parametrize("prompt", ["Say hi", "word " * 60, "x" * 500, "東京の天気" * 30])
def test_line_wraps_at_100_columns(prompt):
    links = ("search", "weather", "movie", "calendar", "message")
    events = [armed(*(timeout(link) for link in links)), *(tried(link, ms=402) for link in links)]
    first, *below = line(*events, prompt=prompt).splitlines()
    assert max(map(cell_len, (first, *below))) <= 100
    assert all(row.startswith(" " * 59) for row in below)
    whole = " ".join(row.strip() for row in (first, *below))
    assert all(f"{link} timeout 400 down" in whole for link in links)


def test_exception_text_wraps_and_is_whole():
    events = [exchange(faults=[fault_met("lose_reply", id="lose_reply", shows={"lost": True})])]
    crash = replace(ended(ended_by="exception"), error_type="ValueError", error="bad " * 60)
    rows = line(*events, crash, expect={}).splitlines()
    assert max(map(len, rows)) <= 100 and " ".join(rows).split().count("bad") == 60


def test_all_faults_on_link_are_named():
    kinds = ("delay", "lose_reply", "truncate", "malformed", "schema_drift")
    tries = [exchange(try_=n, faults=[fault_met(kind, id=kind)]) for n, kind in enumerate(kinds, start=1)]
    rows = line(*tries, expect={}).splitlines()
    assert max(map(len, rows)) <= 100
    assert all(kind in " ".join(rows) for kind in kinds)


def test_fault_stays_with_its_count():
    lost = fault_met("lose_reply", id="lose_reply", shows={"lost": True})
    drift = fault_met("schema_drift_of_it", id="drift")
    tries = [exchange(try_=n, faults=[one]) for n, one in enumerate((lost, lost, drift, drift), start=1)]
    first, below = line(*tries, expect={}).splitlines()
    assert first.endswith("message lose_reply x2,") and below.strip() == "schema_drift_of_it x2"


def test_control_characters_and_markup_are_inert():
    text = line(prompt="a\x1b[2Jb\r\nc [bold red]d[/]")
    assert "a[2Jb c [bold red]d[/]" in text


def a_run():
    first = episode(armed(timeout()), CLOSED, exchange(), model_call(), expect={})
    second = [replace(event, episode="002") for event in episode()]
    return [run_started(3), *first, *second, run_finished()]


def test_summary_is_complete():
    text = printed(a_run())
    for part in (
        "run run-1",
        "seed 7",
        "langchain agent, self-test subject: scripted model",
        "success",
        "world and value are as asked, no contrary claim",
        "success        100 % (1 of 1 judged); of the 1 that met a fault 1",
        "95 % interval 2 % to 100 %; of all 3 planned: between 33 % and 100 %",
        "first attempt  100 % (1 of 1 judged), 95 % interval 2 % to 100 %",
        "the interval describes prompts like this one that could be judged, drawn independently",
        "eligible  drawn  met  observed",
        "timeout (TOXIC_PROB)",
        "p50",
        "p95",
        "p99",
        "toxics left: 0",
        "reproducible: yes",
        "note: 1 prompt unjudged: the prompt has no oracle",
        "reproduce: wirefault demo --seed 7",
    ):
        assert part in text


def test_summary_fits_100_columns_without_colour():
    text = printed(a_run())
    assert max(len(row) for row in text.splitlines()) <= 100
    assert "\x1b" not in text


@pytest.mark.parametrize("link", ["message", "search"])
def test_headline_counts_faults_on_expected_links(link):
    events = [run_started(2)]
    for number, at in enumerate(("message", link)):
        struck = exchange(at, method="POST" if at == "message" else "GET", fault=fault_met())
        events += [replace(e, episode=str(number)) for e in episode(struck, ended("failed"), expect=ASK_BOB)]
    text = printed([*events, run_finished()], width=200)
    assert "of the 2 that met a fault 0" in text
    assert (", of the 1 where it touched what is asked for 0" in text) is (link == "search")


def test_headline_counts_prompts_with_faults():
    attempts = [(), (tried(),), (CLOSED, exchange()), (CLOSED, exchange(), ended("failed"))]
    events = [run_started(4)]
    for number, more in enumerate(attempts):  # the second one's toxic let its try pass
        events += [replace(e, episode=str(number)) for e in episode(armed(timeout()), *more, expect={})]
    assert "success        75 % (3 of 4); of the 2 that met a fault 1" in printed([*events, run_finished()])
    assert "met a fault 1, and none where it touched what is asked for" in " ".join(
        printed([*events, run_finished()], width=200).split()
    )
    assert "100 % (1 of 1); none met a fault" in printed([run_started(), *episode(expect={}), run_finished()])


def test_headline_excludes_unknown_toxic_effects():
    summary = summarise([run_started(), *episode(armed(timeout()), expect={}), run_finished()])
    [row] = summary.faults
    for count, text in ((0, "; none met a fault"), (None, "; none is known to have met a fault")):
        out = io.StringIO()
        print_summary(
            Console(file=out, width=200), replace(summary, faults=[replace(row, met=count)]), "reproduce: x"
        )
        assert text in out.getvalue()


def test_summary_without_oracle_has_no_success_line():
    text = printed([run_started(), *episode(), run_finished()])
    assert "nothing to judge it by" in text
    assert "success" not in text
    assert "claims, not checked: 1 of 1 said done\n" in text  # one episode rules out nothing


def test_empty_summary_has_no_data():
    text = printed([run_started(0), run_finished(toxics_left=None)])
    assert "no data: none of 0 could be judged" in text
    assert "toxics left: unknown" in text


def test_colours_appear_on_terminal_only():
    assert "\x1b[32m" in printed(a_run(), force_terminal=True, color_system="standard")


def test_few_tries_have_no_percentile():
    row = next(one for one in printed(a_run()).splitlines() if one.startswith("message"))
    assert row.split()[2:4] == ["-", "-"]


def test_summary_has_findings_with_example():
    key = {"status": 201, "method": "POST"}
    twice = [
        tried(error="read_timeout", ms=400, idempotency_key="a"),
        exchange(**key),
        tried(start=103.9, call=2, idempotency_key="b"),
        exchange(start=103.9, call=2, **key),
    ]
    text = printed([run_started(1), *episode(*twice, expect={}), run_finished()])
    assert "HARM  The lab's agent made the same write, POST /, twice after one lost reply\n" in text
    assert "Evidence: POST / was sent again 500 ms after its reply was lost" in text
    assert "[gateway-0:1, agent-0:3, gateway-0:2, agent-0:4]" in " ".join(text.split())
    assert text.index("HARM") < text.index("outcome")
    assert "wirefault runs verify run-1 --json; an event: --event ID" in text


def test_findings_name_run_folder(tmp_path):
    out = io.StringIO()
    table = findings_block([Finding("r", "risky", "text", "001", ())], "run-1", tmp_path / "logs")
    Console(file=out, width=300).print(table)
    assert f"all of them: wirefault runs verify run-1 --out={tmp_path} --json; an event" in out.getvalue()


def test_summary_without_findings_has_no_table():
    assert "findings" not in printed([run_started(1), *episode(expect={}), run_finished()])


def test_many_findings_are_four_kinds_with_one_example_each():
    ids = tuple(f"gateway-0:{n}" for n in range(9))
    kinds = [Finding(rule.name, rule.severity, "word " * 16, "001", ids, "It did") for rule in RULES]
    console = Console(file=io.StringIO(), width=100)
    assert len(console.render_lines(findings_block(kinds, "run-1"))) <= 21


def test_stages_of_faults_and_the_labs_own_figures_only_with_verbose():
    detailed, text = printed(a_run()), printed(a_run(), verbose=False)
    for part in ("eligible  drawn  met  observed", "request to armed", "toxics left"):
        assert part in detailed and part not in text
    assert "faults that acted: timeout (TOXIC_PROB) 1" in text
    one = [run_started(1), *episode(expect={}), run_finished()]
    assert "95 % interval" in printed(one) and "95 % interval" not in printed(one, verbose=False)
    assert "success        100 % (1 of 1)" in printed(one, verbose=False)
    left = [run_started(1), *episode(expect={}), run_finished(toxics_left=2)]
    assert "toxics left: 2" in printed(left, verbose=False)
