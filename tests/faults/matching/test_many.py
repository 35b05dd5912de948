"""Many armed faults: the index finds the same as each entry alone."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.matching.test_draws import draw
from tests.faults.tries import eligible
from tests.support import examples
from wirefault.core.identity import digest
from wirefault.core.identity import draw as keyed_draw
from wirefault.dialects.http import Request
from wirefault.faults.matching.entry_index import chance_of
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.conditions import When, within
from wirefault.faults.sets.fault_set import build_set
from wirefault.wiring.links import lab_links

VALUES = st.sampled_from(["Bob", "a", "A", "a*", "*", "", 1, True, None, 1.5, [1], [True]])
HEADERS = st.sampled_from(["X-User", "x-user", "X-Other", "X-Seldom"])
SENT = HEADERS.filter(lambda name: name != "X-Seldom")  # so that a header is absent which some ask for
FIELDS = st.sampled_from(["to", "by.name", "by"])
PATHS = ["/", "/message", "/message/1", "/events"]
SMALL = st.integers(1, 4)
ONLY = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["GET", "post"]),
        "path": st.sampled_from([*PATHS, "/message*", "*", "/[me]*"]),
        "header": st.dictionaries(HEADERS, VALUES.filter(lambda value: isinstance(value, str)), max_size=2),
        "json": st.dictionaries(FIELDS, VALUES, max_size=2),
        "episodes": st.sampled_from(["e", ["d", "x"]]),
    },
)
DURING = [
    {"start": "2s", "duration": "2s"},
    {"ramp": "4s"},
    {"start": "2 calls", "duration": "1 call"},
    {"ramp": "4 calls"},
    [{"duration": "1s"}, {"start": "3s"}],
]
PROBABILITY = st.sampled_from([0, 0.3, 0.7, 1.0, 1.0])
TRIGGERS = {
    "nth": st.one_of(SMALL, st.sampled_from(["2-", "2-3"])),
    "after": st.integers(0, 3),
    "first": SMALL,
    "every": SMALL,
    "of": st.sampled_from(["call", "try"]),
    "turns": st.sampled_from([1, "1-2", "2-"]),
    "turn": st.sampled_from([1, "2-"]),
    "window": st.sampled_from([{"start": 2}, {"end": 3}, {"start": 0, "ramp": 4}, {"end": 4, "ramp": 2}]),
    "persistent": st.booleans(),
    "at_most": SMALL,
    "cooldown": SMALL,
}
# one trigger alone has only the counts that it needs; with others it could use theirs
ALONE = [st.fixed_dictionaries({name: value}) for name, value in TRIGGERS.items()]
ALONE += [st.fixed_dictionaries({"of": st.just("try"), name: TRIGGERS[name]}) for name in ("nth", "every")]
ALONE += [st.fixed_dictionaries({"probability": PROBABILITY}), st.just({})]
LASTING = {"persistent": st.just(True), "probability": st.sampled_from([0.3, 0.7])}
ALONE += [st.fixed_dictionaries(LASTING, optional={"window": TRIGGERS["window"]})]


def may_be_met(when: dict[str, object]) -> bool:
    try:
        When.model_validate(when)
    except ValueError:  # no call is left by its triggers together, which is refused
        return False
    return True


TOGETHER = st.fixed_dictionaries({"probability": PROBABILITY}, optional=TRIGGERS).filter(may_be_met)
WHEN = st.one_of(*ALONE, TOGETHER)
FAULTS = st.sampled_from(
    [
        {"fault": "status"},
        {"fault": "status"},
        {"fault": "flap"},
        {"fault": "delay", "with": {"kind": "degrading"}},
        {"fault": "delay"},
        {"fault": "stale"},
    ]
)
ENTRY = st.builds(
    lambda fault, more: {**fault, **more},
    FAULTS,
    st.fixed_dictionaries(
        {"when": WHEN, "only": st.one_of(st.just({}), ONLY)},
        optional={
            "links": st.sampled_from(["search", "all"]),
            "together": st.booleans(),
            "during": st.sampled_from(DURING),
        },
    ),
)
REQUESTS = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST"]),
    target=st.sampled_from(PATHS).map(lambda path: path + "?q=1"),
    headers=st.lists(st.tuples(SENT, st.sampled_from(["a", "Bob", ""])), max_size=3).map(tuple),
    body=st.one_of(
        st.sampled_from([b"", b"{", b"[" * 9000]),
        st.dictionaries(FIELDS, st.one_of(VALUES, st.just({"name": "Bob"}))).map(
            lambda value: json.dumps(value).encode()
        ),
    ),
)
TRIES = st.lists(
    st.tuples(
        REQUESTS,
        st.sampled_from(["search", "model"]),
        *(st.sampled_from("fg"), st.sampled_from("eed"), st.integers(1, 2)),
        *(SMALL, st.integers(1, 2)),
    ),
    max_size=12,
)


def one_by_one(entries, arrivals) -> Iterator[list[tuple[str, int]]]:
    """The entries that each try meets, with its ordinal, evaluated entry by entry."""
    calls, tries, met_before = defaultdict(dict), Counter(), defaultdict(list)
    turns = Counter()
    for one in arrivals:
        if one.link == "model":
            turns[one.episode, one.attempt] = max(turns[one.episode, one.attempt], one.call)
        met_entries = []
        for entry in entries:
            named = entry.only.in_episode(one.episode)
            if one.link not in entry.links or not named or not eligible(entry.only, one.read()):
                continue
            key = (entry.id, one.episode)
            before = met_before[key]
            last = before[-1] if before else 0
            turn = turns[one.episode, one.attempt]
            ordinal = 1
            moment = one.moment()
            if within(entry.when.turn, one.turn):
                call = (one.attempt, one.link, one.fingerprint, one.call)
                ordinal = calls[key].setdefault(call, len(calls[key]) + 1)
                tries[key] += 1
                moment = one.moment(ordinal, tries[key], turn)
            moment = moment._replace(met=len(before), last_met=last)
            named = (one.episode, one.attempt, one.link, one.fingerprint, one.call, one.try_)
            number = int.from_bytes(digest(1, *named), "big")
            chance = chance_of(draw(f"{entry.id}:when", number))
            if entry.dose.together:
                chance = keyed_draw(1, one.episode, one.attempt, "", "", 0, 0, f"{entry.id}:when")
            if entry.when.holds(moment, chance, entry.dose.share(one.attempt_s, one.link_call)):
                before.append(ordinal)
                met_entries.append((entry.id, ordinal if entry.fault.by_order else 1))
        yield met_entries


def together(entries, arrivals) -> list[list[tuple[str, int]]]:
    matcher = FaultMatcher(1, entries)
    return [[(entry.id, this.ordinal) for entry, this in matcher.match(one).met] for one in arrivals]


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(st.lists(ENTRY, min_size=1, max_size=2), st.lists(ENTRY, max_size=12)), TRIES)
def test_index_equals_single_entries(given_entries, tries):
    entries = build_set({"faults": given_entries}, "f", REGISTRY, lab_links()).faults
    arrivals = [
        IncomingTry(
            *(link, request.method, request.path, lambda r=request: r, *key, n * 0.5, link == "model"),
            attempt_s=n * 0.7,
            link_call=n // 2 + 1,
            turn=n // 4 + 1,
        )
        for n, (request, link, *key) in enumerate(tries)
    ]
    assert together(entries, arrivals) == list(one_by_one(entries, arrivals))


KINDS = [
    *({"nth": "2-3"}, {"after": 1}, {"first": 2}, {"every": 2}, {"every": 3, "of": "try"}, {"turns": "2-"}),
    *({"window": {"start": 5, "ramp": 20}}, {"persistent": True, "probability": 0.1}, {"at_most": 2}),
    *({"cooldown": 2}, {"probability": 0.3}, {}),
]


@pytest.mark.parametrize("when", KINDS, ids=str)
@pytest.mark.parametrize("fault", ["status", "flap"])
def test_each_trigger_counts_what_it_needs(when, fault):
    entries = build_set({"faults": [{"fault": fault, "when": when}]}, "f", REGISTRY, lab_links()).faults
    some, request = random.Random(1), Request()
    arrivals = [
        IncomingTry(link, "GET", "/", lambda: request, some.choice("fg"), *key, n / 2, link == "model")
        for n in range(80)
        for link in [some.choice(["search", "model"])]
        for key in [(some.choice("ed"), some.randint(1, 2), some.randint(1, 4), some.randint(1, 2))]
    ]
    assert together(entries, arrivals) == list(one_by_one(entries, arrivals))


@pytest.mark.parametrize(
    "body", [b'\xef\xbb\xbf{"a": 1}', '{"a": 1}'.encode("utf-16"), b'{"a": 1, "b": "\\ud800"}', b'{"a": 1}']
)
def test_index_accepts_json_values(body):
    entries = build_set(
        {"faults": [{"fault": "status", "only": {"json": {"a": 1}}}]}, "f", REGISTRY, lab_links()
    ).faults
    request = Request((), body, "POST", "/")
    one = IncomingTry("search", "POST", "/", lambda: request, "f", "e", 1, 1, 1, 0.0)
    assert eligible(entries[0].only, request) and FaultMatcher(1, entries).match(one).met
