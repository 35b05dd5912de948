"""Identity of a try on the wire."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.core.identity import (
    BAGGAGE_HEADER,
    TRACEPARENT_HEADER,
    Identity,
    foreign_members,
    new_run_id,
    parse_baggage,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNT = st.integers(0, 10**9)
OURS = "wirefault.run=r,wirefault.episode=1-1,wirefault.attempt=2"


@given(st.builds(Identity, TEXT, TEXT, COUNT, COUNT, COUNT))
def test_identity_header_round_trips(identity):
    header = identity.headers("search", "f")[BAGGAGE_HEADER]
    assert parse_baggage(header) == identity
    assert foreign_members(header) == ""


@given(st.builds(Identity, TEXT, TEXT, COUNT))
def test_header_has_standard_characters_only(identity):
    header = identity.headers("search")[BAGGAGE_HEADER]
    assert re.fullmatch(
        r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+(,[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+)*", header
    )


@given(
    st.lists(st.sampled_from(["user=1", " a = b;p=q", "k=%20", "wirefaultx=1"]), max_size=4),
    st.integers(0, 4),
)
def test_foreign_members_are_preserved(foreign, at):
    members = [*foreign[:at], *OURS.split(","), *foreign[at:]]
    assert foreign_members(",".join(members)) == ",".join(foreign).strip()
    assert parse_baggage(",".join(members)) == Identity("r", "1-1", 2)


@pytest.mark.parametrize(
    "header",
    [
        " wirefault.run = r , wirefault.episode\t=\t1-1,wirefault.attempt=2",
        "wirefault.run=r;ttl=3,wirefault.episode=1%2D1;a;b=c,wirefault.attempt=2",
        OURS + ",wirefault.later=thing,,",
    ],
)
def test_white_space_properties_and_unknown_members_are_ignored(header):
    assert parse_baggage(header) == Identity("r", "1-1", 2)


@pytest.mark.parametrize("attempt", ["", "x", "-1", "1_0", "1.0", "٣", "+1", "9" * 5000])
def test_invalid_count_breaks_identity(attempt):
    assert parse_baggage(f"wirefault.run=r,wirefault.episode=1-1,wirefault.attempt={attempt}") is None


@pytest.mark.parametrize("header", ["", ",", "user=1", "wirefault.run=r", "wirefault.run", OURS.upper()])
def test_incomplete_members_give_no_identity(header):
    assert parse_baggage(header) is None


@given(st.text())
def test_arbitrary_header_parses_without_error(header):
    assert parse_baggage(header) is None
    assert parse_baggage(header + "," + OURS) == Identity("r", "1-1", 2)


TRY = Identity("r", "1-1", 2, 1, 1)


def span(identity=TRY, link="search", fingerprint="f"):
    header = identity.headers(link, fingerprint)[TRACEPARENT_HEADER]
    match = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", header)
    return match[1], match[2]


def test_attempt_maps_to_trace_and_try_to_span():
    assert span() == span()
    others = [
        span(Identity("r", "1-1", 2, 1, 2)),
        span(Identity("r", "1-1", 2, 2, 1)),
        span(link="movie"),
        span(fingerprint="g"),
    ]
    assert {trace for trace, _ in others} == {span()[0]}
    assert len({span()[1], *(other for _, other in others)}) == 5


def test_runs_episodes_and_attempts_never_share_trace():
    identities = [
        Identity("r", "1-1", 2),
        Identity("s", "1-1", 2),
        Identity("r", "1-2", 2),
        Identity("r", "1-1", 3),
    ]
    assert len({span(identity)[0] for identity in identities}) == 4


def test_run_ids_sort_by_time_within_a_second() -> None:
    times = [1796022011.0 + place / 500 for place in range(400)]
    ids = [new_run_id(iter([moment]).__next__) for moment in times]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert re.fullmatch(r"20261130-070011-[0-9a-f]{6}", ids[0])
