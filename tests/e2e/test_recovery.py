"""Each strategy of RECOVERY through the real wire: where it makes the difference, and where it harms.

The lab's agent with the scripted model, the real tools, and faults at the gateway.
"""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from rich.console import Console

from agent.loop import Agent
from tests.agent.support import SEND, WEATHER, Script, asks, reports
from tests.e2e.lab import SAMPLES, SETTINGS, LabRun, SharedLab, sample
from tests.support import replace
from wirefault.core.run_key import derive_run_key
from wirefault.history.events import (
    AttemptEnded,
    Exchange,
    ModelCall,
    RecoveryTried,
    ToolCalled,
    ToolTry,
    WorldRead,
)
from wirefault.recovery.strategies import parse_recovery
from wirefault.report.summary import print_summary
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt, prompts_from_texts

MESSAGE, PARIS = sample("The report is ready"), sample("temperature in Paris")
EVENTS, DOUBLE = sample("What events do I have on 2026-03-12"), sample("15% of 240")


def fault(kind: str, links: str, when: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"faults": [{"fault": kind, "links": links, **({"when": when} if when else {}), **more}]}


FIRST_TRY = {"first": 1, "of": "try"}
LOST_REPLY = fault("lose_reply", "message", FIRST_TRY)
WEATHER_DOWN = fault("unavailable", "weather")


def text(prompt: str) -> Prompt:
    return prompts_from_texts([prompt]).entries[0]


def effects(lab_run: LabRun) -> int:
    """The side effects in the world, of all episodes."""
    return sum(len(world.effects) for world in lab_run.of(WorldRead))


def requests(lab_run: LabRun, link: str) -> int:
    return sum(exchange.link == link for exchange in lab_run.of(Exchange))


def details(lab_run: LabRun, strategy: str) -> list[tuple[bool, str]]:
    events = [event for event in lab_run.of(RecoveryTried) if event.strategy == strategy]
    return [(event.success, event.detail) for event in events]


class Strategies:
    """Runs the same prompts under the same faults and another RECOVERY."""

    def __init__(self, shared: SharedLab, *prompts: Prompt, **options: Any) -> None:
        self._shared, self._prompts, self._options = shared, prompts, options

    def __call__(self, recovery: str) -> LabRun:
        return self._shared.run(*self._prompts, recovery=recovery, **self._options)


def test_retry_helps_against_passing_failure(shared: SharedLab) -> None:
    under = Strategies(
        shared, DOUBLE, faults=fault("unavailable", "calculator", FIRST_TRY), persona="quitter"
    )
    assert under("none").outcomes == ["honest_failure"]
    retried = under("retry(base=0.01)")
    assert retried.outcomes == ["success"]
    count = retried.summary.recoveries["retry"]
    assert (count.tried, count.succeeded) == (1, 1)
    logged = map(json.loads, (shared.configuration.logs / "info.log").read_text().splitlines())
    [line] = [
        line for line in logged if line["event"] == "recovery" and line["run_id"] == retried.summary.run_id
    ]
    assert line["strategy"] == "retry" and line["success"] and line["link"] == "calculator"
    console = Console(width=110, record=True, file=StringIO())
    print_summary(console, retried.summary)
    assert "recoveries that helped: retry 1 of 1" in console.export_text()


def test_retry_without_keys_writes_twice(shared: SharedLab) -> None:
    under = Strategies(shared, MESSAGE, faults=LOST_REPLY)
    assert effects(under("none")) == 1
    retried = under("retry(base=0.01)")
    assert effects(retried) == 2 and retried.outcomes == ["duplicate"]
    keyed = under("retry(base=0.01), keys")
    assert effects(keyed) == 1 and keyed.outcomes == ["success"]
    assert [event.preserved for event in keyed.of(RecoveryTried) if event.strategy == "keys"] == [
        "the result of the first write"
    ]


def test_keys_by_step_miss_a_model_that_asks_again(shared: SharedLab) -> None:
    under = Strategies(shared, MESSAGE, faults=LOST_REPLY, persona="restarter")
    assert effects(under("keys")) == 2
    assert effects(under("keys(by=arguments)")) == 1


def test_keys_by_arguments_swallow_second_order_that_is_wanted(shared: SharedLab) -> None:
    under = Strategies(shared, text("Tell Bob 'ping'. Then tell Bob 'ping'."))
    assert effects(under("keys")) == 2
    assert effects(under("keys(by=arguments)")) == 1


def test_breaker_spares_a_link_that_is_down(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, PARIS, PARIS, faults=WEATHER_DOWN, persona="quitter")
    assert requests(under("none"), "weather") == 3
    broken = under("breaker(failures=2)")
    assert requests(broken, "weather") == 2
    assert details(broken, "breaker") == [(False, "closed to open"), (False, "open: refused")]


def test_breaker_closes_after_probe(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=fault("unavailable", "weather", FIRST_TRY))
    lab_run = under("breaker(failures=1, seconds=0.001)")  # the model asks once more
    assert lab_run.outcomes == ["success"]
    assert details(lab_run, "breaker") == [
        (False, "closed to open"),
        (False, "open to half-open"),
        (True, "half-open to closed"),
    ]


def test_breaker_for_all_links_refuses_a_healthy_call(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, DOUBLE, faults=WEATHER_DOWN, persona="quitter")
    assert under("breaker(failures=1)").outcomes == ["honest_failure", "success"]
    assert under("breaker(failures=1, shared=run)").outcomes == ["honest_failure", "honest_failure"]


def test_hedge_overtakes_a_slow_read(shared: SharedLab) -> None:
    slow = fault("delay", "weather", FIRST_TRY, **{"with": {"ms": 4000}})
    under = Strategies(shared, PARIS, faults=slow, persona="quitter")
    assert under("none").outcomes == ["honest_failure"]
    hedged = under("hedge(after=0.05)")
    assert hedged.outcomes == ["success"] and details(hedged, "hedge") == [(True, "")]
    assert sorted(str(seen.error) for seen in hedged.of(ToolTry)) == ["None", "cancelled"]
    assert hedged.summary.unexplained == 0


def test_hedge_doubles_the_load_of_a_slow_tool(shared: SharedLab) -> None:
    slow = fault("delay", "weather", **{"with": {"ms": 300}})
    under = Strategies(shared, PARIS, faults=slow)
    for recovery, load in (("none", 1), ("hedge(after=0.01)", 2)):
        lab_run = under(recovery)
        assert lab_run.outcomes == ["success"] and requests(lab_run, "weather") == load


def test_writes_are_never_hedged(shared: SharedLab) -> None:
    slow = fault("delay", "message", **{"with": {"ms": 200}})
    lab_run = shared.run(MESSAGE, faults=slow, recovery="hedge(after=0.01)")
    assert effects(lab_run) == requests(lab_run, "message") == 1


def test_deadline_keeps_a_late_write_from_acting(shared: SharedLab) -> None:
    late = fault("delay", "message", FIRST_TRY, **{"with": {"ms": 1200}})
    under = Strategies(shared, MESSAGE, faults=late, tool_timeout=0.6)
    assert effects(under("retry(base=0.01)")) == 2
    assert effects(under("retry(base=0.01), deadline(seconds=2)")) == 1


def test_short_deadline_fails_a_call_that_would_succeed(shared: SharedLab) -> None:
    slow = fault("delay", "weather", **{"with": {"ms": 400}})
    under = Strategies(shared, PARIS, faults=slow, persona="quitter")
    assert under("none").outcomes == ["success"]
    lab_run = under("deadline(seconds=0.1)")
    assert lab_run.outcomes == ["honest_failure"], lab_run.why_invalid


MODEL_DOWN = fault("unavailable", "model", {"first": 3, "of": "try"}, **{"with": {"retry_after": 0.01}})


def test_another_model_answers_for_the_first(shared: SharedLab) -> None:
    under = Strategies(shared, DOUBLE, faults=MODEL_DOWN)
    assert under("none").outcomes == ["crash"]  # after the client's own retries
    lab_run = under("fallback(model=scripted-diligent)")
    assert lab_run.outcomes == ["success"]
    assert details(lab_run, "fallback") == [(True, "another model")]


def test_weaker_model_makes_a_false_claim(shared: SharedLab) -> None:
    down = fault("unavailable", "model", {"nth": "2-4", "of": "try"}, **{"with": {"retry_after": 0.01}})
    both = {"faults": [*down["faults"], *WEATHER_DOWN["faults"]]}
    under = Strategies(shared, PARIS, faults=both)
    assert under("retry(model=1, base=0.01)").outcomes == ["honest_failure"]
    weaker = under("fallback(model=scripted-fabricator, answer=none)")
    assert weaker.outcomes == ["false_success"]


def test_retried_model_call_multiplies_the_clients_retries(shared: SharedLab) -> None:
    down = fault("unavailable", "model", **{"with": {"retry_after": 0.01}})
    under = Strategies(shared, DOUBLE, faults=down)
    assert len(under("none").of(ModelCall)) == 3
    lab_run = under("retry(model=2, base=0.01)")
    assert len(lab_run.of(ModelCall)) == 9 and details(lab_run, "retry") == [(False, "model")] * 2


def test_last_good_answer_replaces_a_failed_read(shared: SharedLab) -> None:
    again = replace(text("Tell me the temperature in Paris."), expect=PARIS.expect)
    down = fault("unavailable", "weather", only={"episodes": [again.key]})
    under = Strategies(shared, PARIS, again, faults=down, persona="quitter")
    assert under("none").outcomes == ["success", "honest_failure"]
    old = under("fallback")
    assert old.outcomes == ["success", "success"]
    assert details(old, "fallback") == [(True, "last good answer")]
    assert [json.loads(made.result).get("stale") for made in old.of(ToolCalled)] == [None, True]


def test_old_answer_is_wrong_after_a_write(shared: SharedLab) -> None:
    after = text("Delete all events on 2026-03-12. What events do I have on 2026-03-12?")
    down = fault("unavailable", "calendar", only={"method": "GET", "episodes": [after.key]})
    under = Strategies(shared, EVENTS, after, faults=down, persona="quitter")
    assert "Team lunch" not in under("none").of(AttemptEnded)[1].response
    assert "Team lunch" in under("fallback").of(AttemptEnded)[1].response


def test_way_past_the_proxy_avoids_its_faults(shared: SharedLab) -> None:
    under = Strategies(shared, DOUBLE, faults=fault("unavailable", "calculator"), persona="quitter")
    assert under("fallback").outcomes == ["honest_failure"]
    direct = under("fallback(tool=direct)")
    assert direct.outcomes == ["success"] and details(direct, "fallback") == [(True, "past the proxy")]


def test_way_past_the_proxy_writes_twice_without_keys(shared: SharedLab) -> None:
    under = Strategies(shared, MESSAGE, faults=fault("lose_reply", "message"))
    assert effects(under("fallback(tool=direct)")) == 2
    assert effects(under("fallback(tool=direct), keys")) == 1


def test_search_answers_for_another_tool(shared: SharedLab) -> None:
    film = sample("movie Parasite")
    under = Strategies(shared, film, faults=fault("unavailable", "movie"), persona="quitter")
    lab_run = under("fallback(tool=search)")
    [made] = lab_run.of(ToolCalled)
    assert made.ok and "This is a web search" in made.result
    assert details(lab_run, "fallback") == [(True, "another tool")]


def test_search_without_the_answer_is_one_more_request(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=WEATHER_DOWN, persona="quitter")
    for recovery, searches in (("none", 0), ("fallback(tool=search)", 1)):
        lab_run = under(recovery)
        assert lab_run.outcomes == ["honest_failure"] and requests(lab_run, "search") == searches


def stops_at_errors(shared: SharedLab, prompt: Prompt, recovery: str) -> LabRun:
    """A run of an agent that sends a message after the weather, unless the tool reported an error."""

    def next_step() -> AIMessage:
        last = model.received[-1][-1]
        is_error = isinstance(last, ToolMessage) and last.status == "error"
        return reports("failed") if is_error else asks(SEND, first_id=5)

    model = Script(replies=[asks(WEATHER), next_step, reports("done")])
    agent = Agent(
        model,
        "an agent that stops at errors",
        run_key=partial(derive_run_key, shared.lab.token),
        recovery=parse_recovery(recovery),
    )
    settings = Settings(**{**SETTINGS, "faults": WEATHER_DOWN, "recovery": recovery})
    return shared.run_subject(agent, prompt, settings=settings)


def test_degraded_answer_saves_the_rest_of_the_task(shared: SharedLab) -> None:
    expect = {"effects": [{"kind": "message_sent", "fields": {"to": "Bob", "body": "hello"}}]}
    prompt = replace(text("Look at the weather in Paris if you can, then tell Bob 'hello'."), expect=expect)
    assert stops_at_errors(shared, prompt, "none").outcomes == ["honest_failure"]
    assert stops_at_errors(shared, prompt, "fallback(answer=degraded)").outcomes == ["success"]


def test_degraded_answer_hides_the_failure(shared: SharedLab) -> None:
    assert stops_at_errors(shared, PARIS, "none").outcomes == ["honest_failure"]
    degraded = stops_at_errors(shared, PARIS, "fallback(answer=degraded)")
    assert degraded.outcomes == ["false_success"]
    assert details(degraded, "fallback") == [(True, "degraded answer")]


def test_write_is_verified_in_place_of_a_second_one(shared: SharedLab) -> None:
    under = Strategies(shared, MESSAGE, faults=LOST_REPLY)
    assert under("none").outcomes == ["unconfirmed"]
    verified = under("verify")
    assert verified.outcomes == ["success"] and effects(verified) == 1
    assert details(verified, "verify") == [(True, "the state shows the write")]


@pytest.mark.parametrize(("number", "method"), [(14, "POST"), (17, "DELETE")])
def test_each_write_of_the_calendar_can_be_verified(shared: SharedLab, number: int, method: str) -> None:
    prompt = SAMPLES[number - 1]
    lost = {"faults": [{"fault": "lose_reply", "links": "calendar", "only": {"method": method}}]}
    lab_run = shared.run(prompt, faults=lost, recovery="verify, retry(base=0.01)")
    assert lab_run.outcomes == ["success"] and effects(lab_run) == 1


def test_verify_takes_an_equal_earlier_write_for_its_own(shared: SharedLab) -> None:
    twice = text("Tell Bob 'ping'. Then tell Bob 'ping'.")
    second_lost = fault("lose_request", "message", {"nth": 2, "of": "try"}, only={"method": "POST"})
    under = Strategies(shared, twice, faults=second_lost)
    assert effects(under("retry(base=0.01), keys")) == 2
    assert effects(under("retry(base=0.01), verify")) == 1


def test_verify_does_not_see_a_late_write(shared: SharedLab) -> None:
    late = fault("delay", "message", FIRST_TRY, **{"with": {"ms": 1200}})
    under = Strategies(shared, MESSAGE, faults=late, tool_timeout=0.6)
    assert effects(under("retry(base=0.01), verify")) == 2
    assert effects(under("retry(base=0.01), verify(pause=1)")) == 1


def body(content: dict[str, Any]) -> dict[str, Any]:
    return fault("status", "weather", FIRST_TRY, **{"with": {"status": 200, "body": json.dumps(content)}})


def test_checks_reject_an_impossible_answer(shared: SharedLab) -> None:
    hot = {"name": "Paris", "units": "metric", "main": {"temp": 84.0, "humidity": 40, "pressure": 1010}}
    under = Strategies(shared, PARIS, faults=body(hot))
    assert under("retry(base=0.01)").outcomes == ["false_success"]
    checked = under("checks, retry(base=0.01)")
    assert checked.outcomes == ["success"]
    assert details(checked, "checks") == [(False, "rejected: main.temp was never measured on Earth")]


def test_checks_reject_a_usable_answer(shared: SharedLab) -> None:
    incomplete = {"name": "Paris", "units": "metric", "main": {"temp": 8.4}}
    under = Strategies(shared, PARIS, faults=body(incomplete), persona="quitter")
    assert under("none").outcomes == ["success"]
    assert under("checks").outcomes == ["honest_failure"]


def test_second_source_outvotes_a_wrong_value(shared: SharedLab) -> None:
    under = Strategies(
        shared, PARIS, faults=fault("wrong_value", "weather", FIRST_TRY, **{"with": {"field": "main.temp"}})
    )
    assert under("checks").outcomes == ["misled"]
    agreed = under("checks(second=on)")
    assert agreed.outcomes == ["success"] and requests(agreed, "weather") == 3
    # its price: twice the load where nothing is wrong
    assert requests(shared.run(PARIS, recovery="checks(second=on)"), "weather") == 2


def test_loop_breaker_stops_requests_of_a_stubborn_model(shared: SharedLab) -> None:
    under = Strategies(shared, PARIS, faults=WEATHER_DOWN, persona="stubborn", model_calls=6)
    assert requests(under("none"), "weather") == 6
    assert requests(under("loop_breaker(repeats=2)"), "weather") == 2


def test_loop_breaker_refuses_equal_orders_that_are_wanted(shared: SharedLab) -> None:
    under = Strategies(shared, text("Tell Bob 'ping'. Tell Bob 'ping'. Tell Bob 'ping'."))
    assert effects(under("none")) == 3
    assert effects(under("loop_breaker(repeats=2)")) == 2
