"""delay, slow_body, flap: faults of time or of counts."""

from __future__ import annotations

import statistics

import pytest

from tests.faults.tries import a_try, act_of, always, done_to, keyed, why_not
from wirefault.core.errors import InputError
from wirefault.dialects.http import Reply, ReplyInPieces, Request
from wirefault.faults.base import Changed, Miss
from wirefault.faults.catalogue.http.body import SlowBody
from wirefault.faults.catalogue.http.delivery import PRESETS, Delay, Flap


def delays(fault: Delay, count: int = 2000) -> list[float]:
    """Milliseconds, over as many tries."""
    acts = [fault.act(a_try(chance=keyed(seed))) for seed in range(count)]
    return [0 if isinstance(act, Miss) else act.delay * 1000 for act in acts]


def test_fixed_delay_is_in_milliseconds_and_evident():
    act = act_of(Delay(ms=250))
    assert (act.delay, act.evidence, act.only_delays) == (0.25, {"delay_ms": 250}, True)


@pytest.mark.parametrize(
    ("fault", "mean", "low", "high"),
    [
        (Delay(kind="uniform", ms=200, spread_ms=100), 200, 100, 300),
        (Delay(kind="jitter", ms=500, spread_ms=50), 500, 200, 800),
        (Delay(kind="exponential", ms=100), 100, 0, 60_000),
        (Delay(kind="spike", ms=0, spike_ms=1000, spike_chance=0.2), 200, 0, 1000),
        (Delay(kind="jitter", ms=10, spread_ms=500, max_ms=100), 50, 0, 100),
    ],
    ids=lambda value: value.kind if isinstance(value, Delay) else "",
)
def test_drawn_delays_have_mean_and_bounds(fault, mean, low, high):
    drawn = delays(fault)
    assert statistics.mean(drawn) == pytest.approx(mean, rel=0.1)
    assert low <= min(drawn) and max(drawn) <= high


def test_degrading_delay_grows_up_to_bound():
    fault = Delay(kind="degrading", ms=10, step_ms=100, max_ms=250)
    assert [act_of(fault, a_try(ordinal=n)).evidence["delay_ms"] for n in (1, 2, 3, 4)] == [10, 110, 210, 250]


@pytest.mark.parametrize("chance", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("kind", ["uniform", "jitter", "exponential", "spike", "degrading"])
def test_any_draw_gives_valid_delay(kind, chance):
    act = Delay(kind=kind).act(a_try(chance=always(chance)))
    assert isinstance(act, Miss) or 0 < act.delay < 60


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_delay_stays_within_bounds(preset):
    drawn = delays(Delay(preset=preset), 200)
    assert statistics.median(drawn) > 0 and max(drawn) <= PRESETS[preset].get("max_ms", 60_000)


def test_delay_preset_excludes_other_parameters():
    with pytest.raises(InputError, match="preset excludes the other parameters"):
        Delay(preset="good", ms=3)


def test_explicit_delay_is_never_shortened():
    assert act_of(Delay(ms=312_000)).delay == 312
    assert act_of(Delay(kind="spike", ms=0, spike_ms=600_000, spike_chance=1)).delay == 600


@pytest.mark.parametrize("parameters", [{"ms": 312_000}, {"kind": "spike", "ms": 1, "spike_ms": 312_000}])
def test_limit_below_delay_is_refused(parameters):
    with pytest.raises(InputError, match=r"max_ms \(60000\) is below (spike_)?ms \(312000\)"):
        Delay(max_ms=60_000, **parameters)


def test_zero_delay_is_not_injected():
    assert Delay(ms=0).act(a_try()) == Miss("nothing_to_change")


def test_slow_body_arrives_complete_at_its_rate():
    done = done_to(SlowBody(bytes_per_second=1000), Reply(body=b"x" * 120))
    assert isinstance(done, Changed) and isinstance(done.reply, ReplyInPieces)
    pieces = [step for step in done.reply.pieces if isinstance(step, bytes)]
    waits = [step for step in done.reply.pieces if isinstance(step, float)]
    assert (b"".join(pieces), [len(piece) for piece in pieces]) == (b"x" * 120, [50, 50, 20])
    assert sum(waits) == pytest.approx(0.12) and done.reply.ending == "keep"


def test_huge_slow_body_has_limited_pieces():
    done = done_to(SlowBody(bytes_per_second=1), Reply(body=b"x" * 1_000_003))
    assert isinstance(done, Changed) and done.evidence["pieces"] <= 1000


def test_head_request_has_no_body_to_slow():
    assert why_not(SlowBody(), Reply(body=b"x"), a_try(request=Request(method="HEAD"))) == "nothing_to_change"


def test_flap_fails_and_passes_in_turns():
    fault = Flap(fails=2, passes=3)
    passed = [fault.act(a_try(ordinal=n)) is None for n in range(1, 11)]
    assert passed == [False, False, True, True, True] * 2


def test_flap_may_close_connection():
    assert act_of(Flap(kind="close")).answer == ReplyInPieces(ending="close")
