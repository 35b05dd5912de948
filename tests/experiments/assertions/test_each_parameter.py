"""Every parameter of an assertion that may be left out makes the difference once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiments.assertions.test_each import (
    FAILED,
    HASTY,
    ONCE_MORE,
    OTHER_WAY,
    RECORDED,
    ROME,
    STRUCK,
    opaque,
    request,
)
from tests.experiments.assertions.views import result
from wirefault.experiments.assertions.registry import ASSERTIONS
from wirefault.experiments.episode_view import EpisodeView

EVEN = opaque(request(103, 503), request(104, 503), request(105))
# covered by tests/experiments/assertions/test_turns.py and test_on_arm.py
OF_TURNS_AND_ARMS = {"turn", "episodes", "over"}

# name, parameters, the one more that makes the difference, and of which episode
ROWS: list[tuple[str, dict[str, Any], dict[str, Any], EpisodeView]] = [
    ("answer_contains", {"text": "rome"}, {"ignore_case": True}, ROME),
    ("answer_lacks", {"text": "rome"}, {"ignore_case": True}, ROME),
    ("tool_called", {"tool": "send"}, {"arguments": {"to": "eve"}}, RECORDED),
    ("tool_called", {"tool": "send"}, {"times": 2}, RECORDED),
    ("tool_called", {"tool": "send"}, {"at_least": 2}, RECORDED),
    ("tool_called", {"tool": "send"}, {"at_most": 0}, RECORDED),
    ("statement", {"text": "failed_calls <= 0"}, {"link": "model"}, ONCE_MORE),
    ("no_loop", {}, {"most": 1}, opaque(request(103), request(104))),
    ("recovered_after_failure", {}, {"link": "shop"}, FAILED),
    ("fallback_used", {"to": "shop"}, {"from": "model"}, OTHER_WAY),
    ("fallback_used", {}, {"to": "shop"}, OTHER_WAY),
    ("fallback_used", {"to": "shop"}, {"used": False}, OTHER_WAY),
    ("retry_spacing", {"at_most": 2}, {"at_least": 2}, ONCE_MORE),
    ("retry_spacing", {"at_least": 0}, {"at_most": 0.1}, ONCE_MORE),
    ("retry_spacing", {"at_least": 0}, {"growing": True}, EVEN),
    ("retry_spacing", {"at_least": 9}, {"link": "model"}, HASTY),
    ("statement", {"text": "faults_delivered >= 1"}, {"kind": "rate_limit"}, STRUCK),
    ("statement", {"text": "faults_delivered >= 1"}, {"link": "search"}, STRUCK),
]


@pytest.mark.parametrize(
    ("name", "parameters", "more", "of"), ROWS, ids=[f"{row[0]} {list(row[2])}" for row in ROWS]
)
def test_parameter_changes_result(
    name: str, parameters: dict[str, Any], more: dict[str, Any], of: EpisodeView
) -> None:
    assert result({name: parameters}, of).passed is not result({name: {**parameters, **more}}, of).passed


def test_each_parameter_is_tested() -> None:
    may_be_left_out = {
        (kind.name, field.alias or name)
        for kind in ASSERTIONS
        for name, field in kind.model_fields.items()
        if not field.is_required() and name not in OF_TURNS_AND_ARMS
    }
    assert {(name, key) for name, _, more, _ in ROWS for key in more} == may_be_left_out
