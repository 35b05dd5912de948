"""Every number of every fault, toxic, trigger and setting: obeyed at its bounds, refused beyond them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from tests.dialects.forms import FORMS, STREAMS, TEXT, events
from tests.faults.catalogue.mcp.messages import RESULT, made_of, mcp_request, mcp_try
from tests.faults.tries import a_try, act_of, always, done_to, model_try
from wirefault.dialects.http import Reply, ReplyInPieces, Step, json_reply
from wirefault.faults.base import Act, Changed, Fault, Try
from wirefault.faults.plan import act_of as planned_act
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.conditions import When
from wirefault.faults.sets.fault_set import FaultSetError, build_set
from wirefault.settings.settings import Settings, SettingsError
from wirefault.settings.sources import Source, merge_sources
from wirefault.toxiproxy.toxics import TOXICS
from wirefault.wiring.links import Link, Links

LINKS = Links(
    [Link("shop", "http://127.0.0.1:9"), Link("model", "http://127.0.0.1:9", "openai_chat")], grows=True
)
LARGE = 10**9  # for a number without an upper bound
# Bounds that hold only beside these other parameters.
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("delay", "max_ms"): {"ms": 0},
    ("api_timeout", "at_least"): {"limit": 3600},
}
LARGEST = {("api_timeout", "at_least"): 3600}  # another parameter is its bound


def _bounds(model: type[BaseModel], field: str) -> tuple[float | None, float | None, bool, bool]:
    """The least and the largest value, and whether each itself is refused."""
    low = high = None
    below = above = False
    for bound in model.model_fields[field].metadata:
        if isinstance(bound, (Ge, Gt)):
            low, below = float(getattr(bound, "ge", getattr(bound, "gt", 0))), isinstance(bound, Gt)
        elif isinstance(bound, (Le, Lt)):
            high, above = float(getattr(bound, "le", getattr(bound, "lt", 0))), isinstance(bound, Lt)
    return low, high, below, above


def _cases(model: type[BaseModel], of: str) -> Iterator[Any]:
    for field, info in model.model_fields.items():
        low, high, below, above = _bounds(model, field)
        if low is None and high is None:
            continue
        whole = "int" in str(info.annotation) and "float" not in str(info.annotation)
        step = 1 if whole else 1e-9
        high = LARGEST.get((of, field), high)
        least = None if low is None else low + step if below else low
        most = LARGE if high is None else high - step if above else high
        number = int if whole else float
        for value in (least, most):
            if value is not None:
                yield pytest.param(of, field, number(value), True, id=f"{of}-{field}-{value:g}")
        for value in (
            None if least is None else least - step,
            None if high is None else most + max(step, 1e-6),
        ):
            if value is not None:
                yield pytest.param(of, field, number(value), False, id=f"{of}-{field}-not-{value:g}")
        if not whole:
            for value in (math.nan, math.inf):
                yield pytest.param(of, field, value, False, id=f"{of}-{field}-not-{value}")


def _entry(fault: str, parameters: dict[str, Any], when: dict[str, Any]) -> Any:
    entry = {"fault": fault, "with": parameters, "when": when, "links": "all"}
    return build_set({"faults": [entry]}, "faults.yaml", REGISTRY, LINKS).faults[0]


@pytest.mark.parametrize(
    ("fault", "field", "value", "is_valid"),
    [case for name, kind in sorted(REGISTRY.items()) for case in _cases(kind, name)],
)
def test_number_of_a_fault(fault: str, field: str, value: float, is_valid: bool) -> None:
    parameters = {**BESIDE.get((fault, field), {}), field: value}
    if is_valid:
        assert getattr(_entry(fault, parameters, {}).fault, field) == value
        return
    with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{field}"):
        _entry(fault, parameters, {})


@pytest.mark.parametrize(("of", "field", "value", "is_valid"), list(_cases(When, "when")))
def test_number_of_a_trigger(of: str, field: str, value: float, is_valid: bool) -> None:
    if is_valid:
        assert getattr(_entry("delay", {}, {field: value}).when, field) == value
        return
    with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{field}"):
        _entry("delay", {}, {field: value})


@pytest.mark.parametrize("toxic", TOXICS, ids=lambda toxic: str(toxic.kind))
def test_numbers_of_a_toxic(toxic: Any) -> None:
    for attribute in toxic.attributes:
        values = {each.name: each.default for each in toxic.attributes}
        for value in (attribute.minimum, attribute.maximum):
            chosen = values | {attribute.name: value}
            if toxic.problem(chosen):  # its bound is another attribute
                with pytest.raises(FaultSetError, match=attribute.name):
                    _toxic(toxic.kind, chosen)
                continue
            assert dict(_toxic(toxic.kind, chosen).attributes) == chosen
        for value in (attribute.minimum - 1, attribute.maximum + 1, 0.5, math.inf):
            with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{attribute.name}"):
                _toxic(toxic.kind, values | {attribute.name: value})


def _toxic(kind: str, attributes: dict[str, Any]) -> Any:
    entry = {"toxic": kind, "with": attributes, "links": "all"}
    return build_set({"toxics": [entry]}, "faults.yaml", REGISTRY, LINKS).toxics[0].spec


@pytest.mark.parametrize(("of", "field", "value", "is_valid"), list(_cases(Settings, "settings")))
def test_number_of_a_setting(of: str, field: str, value: float, is_valid: bool) -> None:
    source = Source("wirefault.yaml", {"seed": 1, field: value})
    if is_valid:
        assert getattr(merge_sources([source]), field) == value
        return
    with pytest.raises(SettingsError, match=rf"(?i){field}.*wirefault\.yaml|wirefault\.yaml.*{field}"):
        merge_sources([source])


def test_delay_that_would_be_negative_is_refused() -> None:
    with pytest.raises(FaultSetError, match=r"spread_ms.*cannot be negative"):
        _entry("delay", {"kind": "uniform", "ms": 200, "spread_ms": 201}, {})
    with pytest.raises(FaultSetError, match="jitter must be at most latency"):
        _toxic("latency", {"latency": 300, "jitter": 301})


@pytest.mark.parametrize(
    ("fault", "parameters", "seconds"),
    [
        ("delay", {"ms": 600_000}, 600),
        ("delay", {"kind": "spike", "spike_ms": 600_000, "spike_chance": 1}, 600),
        ("delay", {"kind": "degrading", "ms": 600_000, "step_ms": 600_000}, 600 * LARGE),
    ],
)
def test_longest_delay_is_not_cut(fault: str, parameters: dict[str, Any], seconds: float) -> None:
    act = act_of(REGISTRY[fault](**parameters), a_try(ordinal=LARGE, chance=always(0.0)))
    assert act.delay == pytest.approx(seconds, rel=1e-6)


BODY = json_reply(200, {"items": list(range(40))})


def _fault(name: str, **parameters: Any) -> Fault:
    kind: Any = REGISTRY[name]
    return kind(**parameters)  # type: ignore[no-any-return]


def _in_pieces(done: object) -> ReplyInPieces:
    reply = done.reply if isinstance(done, Changed) else done
    assert isinstance(reply, ReplyInPieces)
    return reply


def _seconds(reply: ReplyInPieces) -> float:
    """How long the gateway waits in it, all pieces together."""
    return reply.wait + math.fsum(step for step in reply.pieces if not isinstance(step, bytes))


@pytest.mark.parametrize("bytes_per_second", [1e-9, 0.5, 500, 1e9])
def test_slow_body_takes_its_rate_for_every_byte(bytes_per_second: float) -> None:
    made = _in_pieces(done_to(_fault("slow_body", bytes_per_second=bytes_per_second), BODY))
    assert b"".join(piece for piece in made.pieces if isinstance(piece, bytes)) == BODY.body
    assert _seconds(made) == pytest.approx(len(BODY.body) / bytes_per_second, rel=1e-6)


@pytest.mark.parametrize("ms", [1, 600_000])
def test_first_token_of_a_whole_reply_waits(ms: int) -> None:
    made = done_to(_fault("slow_first_token", ms=ms), BODY, model_try(FORMS[0]))
    assert _seconds(_in_pieces(made)) == ms / 1000


@pytest.mark.parametrize(("fault", "tokens"), [("slow_first_token", 1), ("slow_tokens", None)])
@pytest.mark.parametrize("ms", [1, 600_000])
def test_tokens_of_a_stream_wait(fault: str, tokens: int | None, ms: int) -> None:
    form = next(form for form in STREAMS if form.dialect == "openai_chat")
    more = {"jitter_ms": 600_000} if fault == "slow_tokens" else {}
    made = act_of(_fault(fault, ms=ms, **more), model_try(form, chance=always(0.5)))
    assert made.events is not None
    editor, steps = made.events(), list[Step]()
    for event in events(TEXT, form):
        steps += editor.event(event)
    waits = [step for step in steps if not isinstance(step, bytes)]
    assert len(waits) == (tokens or editor.evidence["events"]) >= 1
    assert waits == [pytest.approx((ms + more.get("jitter_ms", 0) / 2) / 1000)] * len(waits)


def _mcp(fault: str, tried: Try, **parameters: Any) -> ReplyInPieces:
    made = planned_act(_fault(fault, **parameters), tried)
    assert isinstance(made, Act)
    return _in_pieces(made_of(made, RESULT))


ASKED_FOR_PROGRESS = mcp_request(name="add", _meta={"progressToken": 7})


@pytest.mark.parametrize("ms", [0, 0.5, 600_000])
@pytest.mark.parametrize(
    ("fault", "tried", "more"),
    [
        ("late_response", mcp_try(), {}),
        ("slow_progress", mcp_try(ASKED_FOR_PROGRESS), {"steps": 1}),
        ("slow_progress", mcp_try(ASKED_FOR_PROGRESS), {"steps": 1000}),
        ("split_line", mcp_try(lines=True), {"kind": "pause"}),
    ],
)
def test_response_of_mcp_waits(fault: str, tried: Try, more: dict[str, Any], ms: float) -> None:
    made = _mcp(fault, tried, ms=ms, **more)
    assert _seconds(made) == pytest.approx(ms / 1000)
    if fault == "slow_progress":
        assert sum(isinstance(step, bytes) for step in made.pieces) == more["steps"] + 1


SIZE = len(BODY.body)


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        *(("at_byte", at, at) for at in (0, 1, SIZE - 1)),
        ("fraction", 0.0, 0),
        ("fraction", 0.999, int(SIZE * 0.999)),
    ],
)
def test_reply_is_cut_at_its_byte(field: str, value: float, at: int) -> None:
    made = _in_pieces(done_to(_fault("truncate", **{field: value}), BODY))
    assert (made.pieces, made.length) == ((BODY.body[:at],), SIZE)


@pytest.mark.parametrize(
    ("fault", "parameters", "header"),
    [
        ("unavailable", {"retry_after": 0}, "0"),
        ("unavailable", {"retry_after": 3600}, "3600"),
        ("rate_limit", {"retry_after": 3600}, "3600"),
    ],
)
def test_retry_after_is_sent_as_it_is_given(fault: str, parameters: dict[str, Any], header: str) -> None:
    answer = act_of(_fault(fault, **parameters)).answer
    assert isinstance(answer, Reply) and float(answer.header("retry-after")) == float(header)


@pytest.mark.parametrize("status", [200, 599])
def test_status_is_sent_as_it_is_given(status: int) -> None:
    answer = act_of(_fault("status", status=status)).answer
    assert isinstance(answer, Reply) and answer.status == status
