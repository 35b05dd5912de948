"""The services do no work for a caller that has given up."""

import pytest

from wirefault.state.effects import DEADLINE_HEADER

PAST, FUTURE = "1000", "99999999999999"
MESSAGE = {"to": "Bob", "body": "hi"}


@pytest.mark.parametrize(("deadline", "status", "effects"), [(PAST, 412, 0), (FUTURE, 201, 1)])
def test_late_write_does_nothing(world, deadline, status, effects):
    answer = world.ask("message", "POST", "/message", json=MESSAGE, headers={DEADLINE_HEADER: deadline})
    assert (answer.status_code, len(world.effects())) == (status, effects)


def test_refusal_names_its_reason(world):
    answer = world.ask("weather", "GET", "/weather?q=Paris", headers={DEADLINE_HEADER: PAST})
    assert answer.json()["error"]["code"] == "deadline_exceeded"


@pytest.mark.parametrize("deadline", ["soon", "-1", "1e3", ""])
def test_deadline_that_is_no_time_is_refused(world, deadline):
    answer = world.ask("message", "POST", "/message", json=MESSAGE, headers={DEADLINE_HEADER: deadline})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_deadline")
    assert world.effects() == []
