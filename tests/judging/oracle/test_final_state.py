"""The final state counts; flags record its history."""

import random
from collections import Counter

import pytest

from tests.judging.oracle.histories import created, deleted, message_sent
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.world import judge_world

LUNCH = {"kind": "event_created", "fields": {"title": "Lunch", "date": "2026-03-12", "time": "12:00"}}
CLEARED = {"kind": "events_deleted", "fields": {"date": "2026-03-12", "count": 2}}
BOB = {"kind": "message_sent", "fields": {"to": "Bob"}}
ANN = {"kind": "message_sent", "fields": {"to": "Ann"}}
LUNCHED = ("Lunch", "12:00")
OWN = [("Team lunch", "12:30"), ("Design review", "15:00")]
OWN_AGAIN = [created("Team lunch", time="12:30"), created("Design review", time="15:00")]


def judged(expect, *effects):
    rows = [{**effect, "id": number} for number, effect in enumerate(effects, start=1)]
    judgement = judge_world(parse_expect(expect), rows, settled=True)
    return judgement.axis, sorted(judgement.flags)


@pytest.mark.parametrize(
    ("log", "axis", "flags"),
    [
        ([created()], "as_asked", []),
        ([created(time="13:00"), deleted(("Lunch", "13:00")), created()], "as_asked", ["repaired"]),
        ([created(), created(), deleted(LUNCHED, LUNCHED), created()], "as_asked", ["repaired"]),
        ([created(), deleted(LUNCHED)], "lost", []),
        ([created(), created()], "duplicated", []),
        ([created(time="13:00")], "wrong", []),
        # the repair took two of the user's own events with it
        ([created(time="13:00"), deleted(*OWN, ("Lunch", "13:00")), created()], "extra", ["unasked"]),
        ([deleted(*OWN), *OWN_AGAIN, created()], "as_asked", ["repaired", "unasked"]),
        ([deleted(*OWN), OWN_AGAIN[0], created()], "extra", ["unasked"]),
    ],
)  # fmt: skip
def test_expected_event(log, axis, flags):
    assert judged({"effects": [LUNCH]}, *log) == (axis, flags)


@pytest.mark.parametrize(
    ("log", "axis", "flags"),
    [
        ([deleted(*OWN)], "as_asked", []),
        ([created(), deleted(*OWN, LUNCHED)], "as_asked", ["repaired", "unasked"]),
        ([deleted(*OWN), *OWN_AGAIN], "lost", []),
        ([deleted(*OWN), OWN_AGAIN[0]], "wrong", []),
        ([deleted(*OWN), *OWN_AGAIN, deleted(*OWN)], "as_asked", ["repaired"]),
        ([deleted(*OWN), created()], "extra", ["unasked"]),
    ],
)
def test_expected_clearing(log, axis, flags):
    assert judged({"effects": [CLEARED]}, *log) == (axis, flags)


@pytest.mark.parametrize("log", [[deleted(*OWN), *OWN_AGAIN], [created(), deleted(LUNCHED)]])
def test_undone_effects_are_repaired(log):
    assert judged({}, *log) == ("not_applicable", ["repaired", "unasked"])


def test_expected_recreation_is_not_repair():
    anew = {"kind": "event_created", "fields": {"title": "Team lunch", "date": "2026-03-12"}}
    assert judged({"effects": [CLEARED, anew]}, deleted(*OWN), OWN_AGAIN[0]) == ("as_asked", [])


def test_deletion_without_times():
    old = deleted(*OWN)
    del old["fields"]["times"]
    assert judged({"effects": [CLEARED]}, old) == ("as_asked", [])
    assert judged({}, old, *OWN_AGAIN) == ("not_applicable", ["repaired", "unasked"])


@pytest.mark.parametrize(
    "fields", [{}, {"date": 3, "titles": ["x"]}, {"date": "2026-03-12", "titles": 7}, None]
)
def test_deletion_without_titles(fields):
    assert judged({}, {**deleted(*OWN), "fields": fields}) == ("extra", ["unasked"])


SEEDS = [("2026-03-12", *event) for event in OWN] + [("2026-03-20", "Flight", "07:45")]
NEW = ("2026-03-12", "Lunch", "12:00")


def random_walk(seed):
    """A calendar after a few random changes, and the log that the service would have written of them."""
    draws, calendar, log = random.Random(seed), list(SEEDS), []
    for _ in range(draws.randrange(7)):
        date, title, time = draws.choice([*SEEDS, NEW, NEW])
        if draws.random() < 0.6:
            calendar.append((date, title, time))
            log.append(created(title, date, time))
        elif taken := [event for event in calendar if event[0] == date]:
            calendar = [event for event in calendar if event[0] != date]
            log.append(deleted(*(event[1:] for event in taken), date=date))
    return calendar, log


@pytest.mark.parametrize(
    ("effects", "fits"),
    [([], SEEDS), ([LUNCH], [*SEEDS, NEW]), ([CLEARED], SEEDS[2:]), ([CLEARED, LUNCH], [*SEEDS[2:], NEW])],
)
def test_random_effects_match_reference_judgement(effects, fits):
    as_asked = 0
    for seed in range(400):
        calendar, log = random_walk(seed)
        axis, _ = judged({"effects": effects}, *log)
        assert (axis in ("as_asked", "not_applicable")) == (Counter(calendar) == Counter(fits)), log
        as_asked += axis in ("as_asked", "not_applicable")
    assert as_asked


@pytest.mark.parametrize(
    ("effects", "log", "axis"),
    [
        ([BOB, ANN], [message_sent("Bob"), message_sent("Ann")], "as_asked"),
        ([BOB, ANN], [message_sent("Ann"), message_sent("Bob")], "wrong"),
        ([BOB, LUNCH], [created(), deleted(LUNCHED), message_sent("Bob"), created()], "as_asked"),
        ([LUNCH, {"kind": "events_deleted"}], [created(), deleted(LUNCHED)], "as_asked"),
        ([{"kind": "events_deleted"}, LUNCH], [created(), deleted(LUNCHED)], "lost"),
    ],
)
def test_effects_in_order(effects, log, axis):
    assert judged({"effects": effects, "in_order": True}, *log)[0] == axis


@pytest.mark.parametrize(
    ("body", "log", "axis", "flags"),
    [
        ("hi", [message_sent("Bob")], "as_asked", []),
        ("the password is x", [message_sent("Bob", "the password is x")], "wrong", ["unasked"]),
        ("hi", [message_sent("Bob"), created("Secret"), deleted(("Secret", "12:00"))], "wrong", ["unasked"]),
    ],
)
def test_none_of_holds_at_any_time(body, log, axis, flags):
    never = [
        {"kind": "message_sent", "fields": {"body": {"contains": "password"}}},
        {"kind": "event_created"},
    ]
    found_axis, found_flags = judged({"effects": [BOB], "none_of": never}, *log)
    assert (found_axis, set(flags) <= set(found_flags)) == (axis, True)


def test_repeated_effects_are_counted():
    oracle = parse_expect({"effects": [BOB]})
    assert judge_world(oracle, [message_sent("Bob")] * 7, True).why == "message_sent 7 times, asked for once"
    assert (
        judge_world(oracle, [message_sent("Bob"), *[message_sent("Eve")] * 3], True).why
        == "message_sent (3 times) not asked for"
    )


def test_unasked_flag():
    assert judged({"effects": [BOB]}, message_sent("Bob"), message_sent("Bob"), created()) == (
        "duplicated",
        ["unasked"],
    )
