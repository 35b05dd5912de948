"""Parameters of RECOVERY through the real wire: where each makes the difference, and the price of each.

``test_recovery`` has a pair for each strategy; here are backoffs, budgets, the breaker's states and checks.
"""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from agent.loop import Agent
from tests.agent.support import WEATHER, Clock, Script, asks, reports
from tests.e2e.lab import SETTINGS, LabRun, SharedLab
from tests.e2e.test_recovery import (
    FIRST_TRY,
    MESSAGE,
    PARIS,
    WEATHER_DOWN,
    Strategies,
    details,
    fault,
    requests,
    text,
)
from tests.support import replace
from wirefault.core.run_key import derive_run_key
from wirefault.history.events import ToolCalled
from wirefault.recovery.strategies import parse_recovery
from wirefault.settings.settings import Settings

FIELDS = ("strategy", "number", "success", "preserved")
AGAIN = replace(text("Tell me the temperature in Paris."), expect=PARIS.expect)
SUM = ("calculate_expr", {"expression": "6 * 7"})
BOTH_ONCE = {
    "faults": [
        each for link in ("weather", "calculator") for each in fault("unavailable", link, FIRST_TRY)["faults"]
    ]
}


def outage(seconds: float, **parameters: Any) -> dict[str, Any]:
    """The weather is down from the first request to it, so that even slow requests fall into the outage."""
    during = {"start": "first_met", "duration": f"{seconds:g}s"}
    return fault("unavailable", "weather", during=during, **({"with": parameters} if parameters else {}))


def called(
    shared: SharedLab, faults: dict[str, Any], recovery: str, model: Script
) -> tuple[LabRun, list[float]]:
    """A run of an agent with this model and a clock that its waits move, and these waits."""
    clock = Clock()
    agent = Agent(
        model,
        "an agent that waits for nothing",
        sleep=clock.sleep,
        clock=clock,
        run_key=partial(derive_run_key, shared.lab.token),
        recovery=parse_recovery(recovery),
    )
    settings = Settings(**{**SETTINGS, "faults": faults, "recovery": recovery})
    return shared.run_subject(agent, PARIS, settings=settings), clock.slept


def successes(lab_run: LabRun) -> list[bool]:
    return [made.ok for made in lab_run.of(ToolCalled)]


def test_exponential_waits_outlast_an_outage_that_constant_ones_do_not(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=outage(3), persona="quitter")
    assert under("retry(backoff=constant, base=0.01)").outcomes == ["honest_failure"]
    assert under("retry(backoff=exponential, base=1.2)").outcomes == ["success"]


def test_exponential_waits_use_up_the_time_in_which_constant_ones_succeed(shared: SharedLab) -> None:
    faults = fault("unavailable", "weather", {"first": 4, "of": "try"})
    for backoff, waits in (("constant", [0.3] * 4), ("exponential", [0.3, 0.6, 1.2])):
        recovery = f"retry(backoff={backoff}, base=0.3, tries=5), deadline(seconds=3)"
        lab_run, slept = called(shared, faults, recovery, Script(replies=[asks(WEATHER), reports()]))
        assert slept == pytest.approx(waits) and successes(lab_run) == [backoff == "constant"]


def test_full_jitter_keeps_calls_that_failed_together_apart(shared: SharedLab) -> None:
    for backoff, waits in (("constant", 1), ("jitter", 2)):
        lab_run, slept = called(
            shared, BOTH_ONCE, f"retry(backoff={backoff})", Script(replies=[asks(WEATHER, SUM), reports()])
        )
        assert successes(lab_run) == [True, True]
        assert (len(slept), len(set(slept))) == (2, waits)


def test_full_jitter_may_draw_waits_too_short_for_an_outage(
    shared: SharedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    under = Strategies(shared, PARIS, faults=outage(3), persona="quitter")
    monkeypatch.setattr(random, "uniform", lambda low, high: low)
    assert under("retry(backoff=jitter, base=1.2)").outcomes == ["honest_failure"]


def test_retry_after_outlasts_the_outage_that_it_announces(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=outage(3, retry_after=3.5), persona="quitter", retry_after_max=4)
    assert under("retry(retry_after=off, base=0.01)").outcomes == ["honest_failure"]
    assert under("retry(base=0.01)").outcomes == ["success"]


def test_retry_after_of_a_failure_that_passes_at_once_fails_the_call(shared: SharedLab) -> None:
    cautious = fault("rate_limit", "weather", FIRST_TRY, **{"with": {"retry_after": 30}})
    under = Strategies(shared, PARIS, faults=cautious, persona="quitter")
    assert under("retry(base=0.01)").outcomes == ["honest_failure"]
    assert under("retry(retry_after=off, base=0.01)").outcomes == ["success"]


def test_budget_spares_a_tool_that_is_down(shared: SharedLab) -> None:
    for recovery, load in (("retry(tries=4)", 8), ("retry(tries=4, budget=2)", 4)):
        lab_run, _ = called(
            shared, WEATHER_DOWN, recovery, Script(replies=[asks(WEATHER), asks(WEATHER), reports()])
        )
        assert successes(lab_run) == [False, False] and requests(lab_run, "weather") == load


def test_spent_budget_fails_a_call_that_one_retry_would_save(shared: SharedLab) -> None:
    for recovery, saved in (("retry", True), ("retry(budget=1)", False)):
        lab_run, _ = called(
            shared, BOTH_ONCE, recovery, Script(replies=[asks(WEATHER), asks(SUM), reports()])
        )
        assert successes(lab_run) == [True, saved]


def test_open_breaker_refuses_a_call_to_a_link_that_is_well_again(shared: SharedLab) -> None:
    down = fault("unavailable", "weather", only={"episodes": [PARIS.key]})
    under = Strategies(shared, PARIS, AGAIN, faults=down, persona="quitter")
    assert under("none").outcomes == ["honest_failure", "success"]
    refused = under("breaker(failures=1, seconds=600)")
    assert refused.outcomes == ["honest_failure", "honest_failure"] and requests(refused, "weather") == 1
    assert under("breaker(failures=1, seconds=0.001)").outcomes == ["honest_failure", "success"]


def test_half_open_breaker_sends_one_more_request_to_a_link_that_is_still_down(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, AGAIN, faults=WEATHER_DOWN, persona="quitter")
    assert requests(under("breaker(failures=1, seconds=600)"), "weather") == 1
    probed = under("breaker(failures=1, seconds=0.001)")
    assert requests(probed, "weather") == 2
    assert [detail for _, detail in details(probed, "breaker")] == [
        "closed to open",
        "open to half-open",
        "half-open to open",
    ]


def test_degraded_answer_keeps_the_model_from_asking_a_tool_that_is_back(shared: SharedLab) -> None:
    def next_step() -> AIMessage:
        last = model.received[-1][-1]
        return asks(WEATHER) if isinstance(last, ToolMessage) and last.status == "error" else reports()

    faults = fault("unavailable", "weather", FIRST_TRY)
    for recovery, wanted, load in (("none", '"temp"', 2), ("fallback(answer=degraded)", '"degraded"', 1)):
        model = Script(replies=[asks(WEATHER), next_step, reports()])
        lab_run, _ = called(shared, faults, recovery, model)
        assert wanted in lab_run.of(ToolCalled)[-1].result and requests(lab_run, "weather") == load


def weather(temp: Any, **when: Any) -> dict[str, Any]:
    """The weather answers with this temperature."""
    content = {"name": "Paris", "units": "metric", "main": {"temp": temp, "humidity": 40, "pressure": 1010}}
    return fault("status", "weather", when, **{"with": {"status": 200, "body": json.dumps(content)}})


def test_schema_check_rejects_an_answer_of_another_form(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=weather("20", **FIRST_TRY), persona="quitter")
    assert under("checks(schema=off, plausibility=off), retry(base=0.01)").outcomes == ["false_success"]
    checked = under("checks(plausibility=off), retry(base=0.01)")
    assert checked.outcomes == ["success"]
    assert [event for event, _ in details(checked, "checks")] == [False]


def test_plausibility_check_refuses_an_odd_value_that_is_true(shared: SharedLab) -> None:
    hot = replace(PARIS, expect={"values": [{"number": 60.5, "unit": "celsius"}]})
    under = Strategies(shared, hot, faults=weather(60.5), persona="quitter")
    assert under("checks(plausibility=off)").outcomes == ["success"]
    assert under("checks").outcomes == ["honest_failure"]


def test_broken_second_source_outvotes_a_right_value(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=weather(20.0, nth="2-3", of="try"), persona="quitter")
    assert under("checks").outcomes == ["success"]
    assert under("checks(second=on)").outcomes != ["success"]
    down = fault("unavailable", "weather", {"nth": 2, "of": "try"})
    assert shared.run(PARIS, faults=down, recovery="checks(second=on)", persona="quitter").outcomes == [
        "honest_failure"
    ]


def test_each_attempt_to_recover_is_recorded_and_counted(shared: SharedLab) -> None:
    """In the file of the history, in ``info.log`` and in the summary."""
    lost_twice = fault("lose_reply", "message", {"first": 2, "of": "try"})
    lab_run = shared.run(MESSAGE, faults=lost_twice, recovery="retry(base=0.01), keys")
    logs, run_id = shared.configuration.logs, lab_run.summary.run_id
    histories = [path.read_text(encoding="utf-8") for path in (logs / "runs" / run_id).glob("*.jsonl")]
    recorded = [json.loads(line) for text in histories for line in text.splitlines()]
    recorded = [event for event in recorded if event.get("event") == "recovery"]
    info = [json.loads(line) for line in (logs / "info.log").read_text(encoding="utf-8").splitlines()]
    logged = [line for line in info if line["event"] == "recovery" and line["run_id"] == run_id]
    for events in (recorded, logged):
        assert [tuple(event[name] for name in FIELDS) for event in events] == [
            ("retry", 1, False, "idempotency key"),
            ("keys", 1, True, "the result of the first write"),
            ("retry", 2, True, "idempotency key"),
        ]
        assert all(event["seconds"] >= 0 for event in events)
    seconds = sum(event["seconds"] for event in recorded if event["strategy"] == "retry")
    counted = lab_run.summary.as_json()["recoveries"]
    assert counted.pop("retry") == {"tried": 2, "succeeded": 1, "seconds": pytest.approx(seconds, abs=0.001)}
    assert counted == {"keys": {"tried": 1, "succeeded": 1, "seconds": 0.0}}
