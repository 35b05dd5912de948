import json

import pytest

from tests.judging.oracle.histories import (
    ASK_BOB,
    armed,
    ended,
    episode,
    exchange,
    fault_met,
    healed,
    latency,
    model_call,
    run_finished,
    run_started,
    started,
    timeout,
    tried,
)
from tests.support import replace
from wirefault.faults.sets.presets import find_set
from wirefault.history.events import BudgetSpent, BudgetUnknown
from wirefault.judging.rates import rate
from wirefault.judging.summary import summarise
from wirefault.stats.rates import Share
from wirefault.wiring.links import Link
from wirefault.wiring.prompts import PromptsSource


def run(*episodes, prompts=None, end=None, **settings):
    """A run of these lists of events, each one an episode."""
    events = [run_started(len(episodes) if prompts is None else prompts, **settings)]
    for number, one in enumerate(episodes, start=1):
        events += [replace(event, episode=f"{number:03}") for event in one]
    return [*events, end or run_finished()]


GOOD, BAD, NO_ORACLE = episode(expect={}), episode(expect=ASK_BOB), episode()
INVALID = episode(healed(invalid="disturbed"), expect={})


def test_outcomes_are_counted():
    assert summarise(run(GOOD, GOOD, BAD)).outcomes == {"success": 2, "false_success": 1}


def test_rate_counts_judged_and_bounds_count_planned():
    success = summarise(run(GOOD, GOOD, BAD, INVALID, NO_ORACLE, prompts=6)).success
    assert (success.k, success.n, success.planned) == (2, 3, 6)
    assert success.rate == pytest.approx(2 / 3)
    assert (success.worst, success.best) == (pytest.approx(2 / 6), pytest.approx(5 / 6))
    assert success.low == pytest.approx(0.0943, abs=1e-4)
    assert "prompts like these 3 that could be judged" in success.population


def test_no_data_is_none():
    summary = summarise([run_started(0), replace(run_finished(), toxics_left=None)])
    assert (summary.success.rate, summary.success.low, summary.success.worst) == (None, None, None)
    assert summary.arming_ms == {"p50": None, "p99": None, "n": 0}
    assert (summary.toxics_left, summary.latency_ms, summary.faults) == (None, {}, [])
    assert summarise([run_started()]).duration_s is None


def test_rate_without_judged_episodes():
    result = rate(["invalid", "unjudged"], 2)
    assert (result.rate, result.low, result.high, result.worst, result.best) == (None, None, None, 0.0, 1.0)


def test_exposed_and_unexposed_shares():
    lost = [tried(error="connection_closed", ms=402), exchange(), ended("failed")]
    met_it = episode(armed(timeout()), *lost, expect={})
    missed_it = episode(armed(timeout()), tried(), expect={})
    summary = summarise(run(GOOD, met_it, missed_it, NO_ORACLE))
    assert (summary.exposed, summary.unexposed) == (Share(0, 1), Share(2, 2))
    assert summary.touched == Share(0, 0)  # nothing is asked for
    data = summary.as_json()
    assert data["exposed"] == {"k": 0, "n": 1, "rate": 0.0}
    assert data["unexposed"] == {"k": 2, "n": 2, "rate": 1.0}
    assert summarise(run(NO_ORACLE)).exposed == Share(0, 0)


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ({}, {}, "prompts like these 2, drawn independently, each sent once under its own fault draws"),
        ({}, {"prompt_limit": 3}, "each sent with up to 3 attempts under"),
        ({}, {}, "not the same prompts sent again (1 here was, so it may be too narrow)"),
        ({"only": ["x"]}, {}, "these 2 alone: hand-picked prompts"),
        ({"match": "x"}, {}, "these 2 alone: hand-picked prompts"),
    ],
)
def test_population_of_interval(source, settings, message):
    first, *rest = run(GOOD, episode(expect={}), **settings)
    summary = summarise([replace(first, prompts_source=PromptsSource(**source)), *rest])
    assert message in summary.success.population
    assert "up to" not in summary.first_attempt.population


def test_first_attempt_rate():
    again = [ended("failed"), healed(), armed(attempt=2), ended(attempt=2), healed(attempt=2)]
    summary = summarise(run(episode(*again, expect={}), prompt_limit=2))
    assert (summary.success.rate, summary.first_attempt.rate) == (1.0, 0.0)


def test_fault_rows_by_kind_toxics_first():
    broken = [
        armed(timeout(), latency("search"), timeout("weather")),
        tried(error="connection_closed", ms=402),
        exchange(),
        tried("calendar", error="http_503", status=503),
        exchange("calendar", status=503, fault=fault_met()),
    ]
    counts = summarise(run(episode(*broken, expect={}))).faults
    assert [(one.kind, one.drawn, one.met, one.delivered) for one in counts] == [
        ("latency", 1, 0, 0),
        ("timeout", 2, 1, 1),
        ("unavailable", 1, 1, 1),
    ]


def test_latency_by_link():
    tries = [tried("search", ms=ms, call=ms) for ms in range(1, 101)]
    tries += [tried("search", error="read_timeout", ms=1000), tried("search", route="direct", ms=900)]
    latency = summarise(run(episode(*tries, model_call(ms=7.0), expect={}))).latency_ms
    assert list(latency) == ["search", "model"]
    search = latency["search"]
    assert (search.p50, search.p95, search.p99, search.n, search.failed) == (50, 95, 99, 100, 1)


def test_arming_duration_and_toxics_left():
    summary = summarise(run(episode(armed(arming_ms=8.0), expect={}), GOOD))
    assert summary.arming_ms == {"p50": 4.0, "p99": 8.0, "n": 2}
    assert (summary.duration_s, summary.toxics_left, summary.completed) == (60.0, 0, True)


AT_ONCE = [exchange(), exchange(start=103.001)]
# notifications of an MCP server are separate from calls
STREAM = exchange(identity="counted", ms=500.0, dialect="mcp")
CALLED = exchange(identity="counted", start=103.1, dialect="mcp", message="tools/call", tool="add")


def armed_set(links="all", **when):
    """The settings of a run under a fault set of one."""
    return canonical({"fault": "truncate", "links": links, "when": when})


def canonical(*faults):
    return {"faults": find_set(json.dumps({"faults": faults})).dump()}


@pytest.mark.parametrize(
    ("events", "settings", "reason"),
    [
        ([armed(latency(ms=1100))], {}, "a latency of 1100 ms is within 20 % of the client's timeout, 1000"),
        ([armed(timeout(ms=800))], {}, "a timeout of 800 ms is within 20 %"),
        ([armed(latency(ms=300, jitter=50))], {}, "latency has jitter (50 ms)"),
        ([], {"model": "groq"}, "the model is not scripted"),
        ([healed(invalid="disturbed")], {}, "the lab failed in 1 of 1 episodes"),
        ([exchange("model", unavailable=True, status=503)], {}, "the model failed in 1 of 1 episodes"),
        ([exchange("weather", unavailable=True, status=503)], {}, "a server failed in 1 of 1 episodes"),
        ([ended(ended_by="limit", ms=30001.0)], {}, "ended by its time limit, 30 s"),
        (
            [exchange(identity="counted"), exchange(identity="counted", start=103.001)],
            {},
            "counted while they overlapped",
        ),
        ([], armed_set(window={"start": 1}), "truncate depends on the clock (window)"),
        (AT_ONCE, armed_set(nth=2), "truncate counts calls, and some to message were made at once"),
        (AT_ONCE, canonical({"fault": "flap"}), "flap counts calls"),
        (
            AT_ONCE,
            canonical({"fault": "flap"}, {"fault": "flap"}),
            "flap, flap-2 count calls",
        ),
        ([exchange(fault=fault_met(delay_ms=900.0))], {}, "was within 20 % of the client's timeout, 1000 ms"),
    ],
)
def test_clock_and_order_prevent_repetition(events, settings, reason):
    summary = summarise(run(episode(*events, expect={}), **settings))
    assert not summary.reproducible
    assert reason in summary.not_reproducible_because[0]


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (
            "run.tokens",
            "the budget run.tokens was used up: the order of the episodes decides which one is affected",
        ),
        ("episode.time", "the budget episode.time depends on the clock, and was used up"),
        ("episode.tokens", None),
    ],
)
def test_shared_budget_prevents_repetition(budget, reason):
    spent = BudgetSpent(1.0, "001", 1, budget, 3, 3)
    assert summarise(run([*GOOD, spent])).not_reproducible_because == ([reason] if reason else [])


def test_uncounted_budget_has_remark():
    unknown = BudgetUnknown(1.0, "001", 1, "episode.cost", "no_price", "gpt-x")
    summary = summarise(run([*GOOD, unknown], [*GOOD, unknown]))
    assert "the budget episode.cost could not be counted in 2 episodes: a model has no price (gpt-x)" in str(
        summary.remarks
    )


@pytest.mark.parametrize(
    ("budgets", "kind", "counted"),
    [
        ('{"episode": {"calls": 9}, "links": "tools"}', "tool", "episode.calls"),
        ('{"episode": {"calls": 9}}', "model", "episode.calls"),
        ('{"run": {"tokens": 9}, "episode": {"calls": 9}, "links": "all"}', "model", "run.tokens"),
    ],
)
def test_budget_without_requests_has_remark(budgets, kind, counted):
    calls = {"tool": exchange(), "model": exchange("model")}
    message = f"no request went to a {kind}, so nothing was counted for {counted}"
    without = [call for place, call in calls.items() if place != kind]
    assert message in summarise(run([*GOOD, *without], budgets=budgets)).remarks
    assert not any(
        "counted" in remark for remark in summarise(run([*GOOD, *calls.values()], budgets=budgets)).remarks
    )


def test_opaque_subject_is_not_reproducible():
    started, *events = run(episode(expect={}))
    links = [Link("model", "https://api.openai.com/v1")]
    summary = summarise([replace(started, subject_kind="command", links=links), *events])
    assert summary.not_reproducible_because == [
        "the subject is opaque: the faults repeat, but its behaviour may not"
    ]
    assert "scripted" not in summary.subject


@pytest.mark.parametrize(
    "events",
    [
        [armed(latency(ms=300), timeout("search", ms=400), latency("weather", ms=1500))],
        [ended(ended_by="limit", ms=200.0)],
        [exchange(identity="counted"), exchange(identity="counted", start=103.1)],
        [exchange(), exchange(start=103.1)],
        [exchange(), exchange("search", start=103.001)],
        [STREAM, CALLED],
    ],
)
@pytest.mark.parametrize("when", [{"probability": 0.5}, {"nth": 2}, {"turns": 1}])
def test_default_toxics_and_limits_are_reproducible(events, when):
    summary = summarise(run(episode(*events, expect={}), **armed_set(links="message", **when)))
    assert summary.not_reproducible_because == []


def test_remarks():
    end = run_finished(completed=False, reason="interrupted", toxics_left=2)
    lost = episode(tried(error="read_timeout", ms=1000), expect={})
    events = run(lost, NO_ORACLE, INVALID, prompts=5, end=end, skipped_prompts=1)
    assert summarise([*events, exchange(episode="999")], torn=1).remarks == [
        "the run ended early: interrupted",
        "2 toxics left behind",
        "2 of 5 prompts not run",
        "1 bad entry of the prompts file left out",
        "1 prompt invalid: disturbed",
        "1 prompt unjudged: the prompt has no oracle",
        "1 failed try that no fault explains",
        "1 request at the gateway outside any episode",
        "1 cut-off last line of history files left out",
    ]


def test_clean_run_has_no_remarks():
    assert summarise(run(GOOD)).remarks == []
    assert summarise(run(GOOD, skipped_prompts=2)).remarks == ["2 bad entries of the prompts file left out"]


def test_unfinished_run_has_remark():
    summary = summarise(run(GOOD)[:-1])
    assert not summary.completed
    assert summary.remarks == ["the run has no end in its history: still running, or interrupted"]


def test_claims_without_oracle_are_counted():
    failed, unclear = episode(ended("failed")), episode(ended(ended_by="text", response="Well."))
    unended = episode(healed(invalid="disturbed"))
    claims = summarise(run(NO_ORACLE, NO_ORACLE, NO_ORACLE, failed, unclear, unended, GOOD)).claims
    assert (claims.n, claims.counts) == (5, {"done": 3, "failed": 1, "unclear": 1})
    assert claims.text == (
        "claims, not checked: 3 of 5 said done (60 %, 95 % interval 15 % to 95 %); 1 said failed, 1 unclear"
    )


def test_claims_with_oracle_are_not_counted():
    claims = summarise(run(GOOD, BAD)).claims
    assert (claims.n, claims.done_rate, claims.text) == (0, None, "")


def test_summary_as_json():
    events = run(episode(armed(timeout()), expect={}), GOOD)
    data = json.loads(json.dumps(summarise(events).as_json(), allow_nan=False))
    assert {
        *("run_id", "seed", "settings", "subject", "episodes", "outcomes", "toxics_left", "arming_ms"),
        *("duration_s", "reproducible"),
    } <= set(data)
    assert {"prompt", "outcome", "world", "claim", "value", "attempts", "faults"} <= set(data["episodes"][0])
    fault = data["episodes"][0]["faults"][0]
    assert (fault["kind"], fault["link"], fault["stream"], fault["stage"]) == (
        "timeout",
        "message",
        "downstream",
        "armed",
    )
    assert data["claims"] == {"n": 0, "counts": {}, "done_rate": None, "low": None, "high": None}
    assert (data["reproducible"], data["outcomes"], data["seed"]) == (True, {"success": 2}, 7)


def test_unfinished_prompts_widen_bounds():
    events = run(GOOD, [started({}), armed()], prompts=2)[:-1]
    success = summarise(events).success
    assert (success.k, success.n, success.worst, success.best) == (1, 1, 0.5, 1.0)


def test_unreadable_fault_set_does_not_stop_judging():
    summary = summarise(run(GOOD, faults='{"faults": [{"fault": "of_the_future"}]}'))
    assert summary.outcomes == {"success": 1}
    assert any("cannot read them: configuration 0" in remark for remark in summary.remarks)


def test_opaque_subject_has_no_known_timeout():
    started, *events = run(episode(exchange(fault=fault_met(delay_ms=900.0)), expect={}))
    summary = summarise([replace(started, subject_kind="command"), *events])
    assert summary.not_reproducible_because == [
        "the subject is opaque: the faults repeat, but its behaviour may not"
    ]


@pytest.mark.parametrize(
    ("prompt", "claim"), [("./agent 'Order tea'", "done"), ("./agent 'Cancel tea'", "unclear")]
)
def test_words_of_a_command_line_are_no_task_of_the_claim(prompt, claim):
    events = [
        replace(event, prompt=prompt) if hasattr(event, "prompt") else event
        for event in episode(ended(ended_by="text", response="I ordered 2 teas for you."))
    ]
    first, *others = run(events)
    first = replace(first, wiring_arguments=["exec", "--", "./agent", "Order tea"])
    assert summarise([first, *others]).claims.counts == {claim: 1}
    wired = replace(first, wiring_arguments=["wirefault.yaml"], subject="command: ./agent Order tea")
    assert summarise([wired, *others]).claims.counts == {claim: 1}
