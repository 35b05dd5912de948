"""Draws, fingerprints and plans."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from math import comb
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.planned_errors import PlannedError, plan_error
from wirefault.core.identity import KeyedDraws, _query, choose, digest, draw, fingerprint, identifier
from wirefault.faults.catalogue.http.errors import ERROR_KINDS
from wirefault.faults.sets.fault_set import build_set
from wirefault.toxiproxy.planned import plan_toxics
from wirefault.toxiproxy.toxics.text_form import parse_list
from wirefault.wiring.links import lab_links

PINNED_DRAW = 0.9973575308781923
PINNED_FINGERPRINT = "a3b21127680ccd6c"
TOXICS = parse_list("timeout:400,latency:300,latency@upstream:1500")
KEY = {
    "seed": 7,
    "episode": "3-1",
    "attempt": 1,
    "link": "search",
    "fingerprint": "ab",
    "call": 1,
    "try_": 1,
    "purpose": "toxic",
}


def draws(n, seed=20261121):
    return [draw(seed, str(i), 1, "search", "", 0, 0, "toxic") for i in range(n)]


def chi_square(counts, expected):
    return sum((count - expected) ** 2 / expected for count in counts)


def test_twenty_thousand_draws_are_uniform():
    bins = Counter(int(number * 100) for number in draws(20_000))
    assert set(bins) == set(range(100))
    # 99 degrees of freedom: 0.1 % of uniform samples exceed this
    assert 60 < chi_square(bins.values(), 200) < 149


def test_successive_draws_are_independent():
    numbers = draws(20_000)
    cells = Counter((int(a * 10), int(b * 10)) for a, b in zip(numbers[::2], numbers[1::2], strict=True))
    assert 60 < chi_square([cells[i, j] for i in range(10) for j in range(10)], 100) < 149


def binomial_interval(n, tenths, tail):
    """The exact central interval of a binomial(n, tenths/10), with 1/tail of the mass on each side."""
    mass, low = 0, None
    for k in range(n + 1):
        mass += comb(n, k) * tenths**k * (10 - tenths) ** (n - k)  # in units of 10**-n
        if low is None and mass * tail > 10**n:
            low = k
        if mass * tail >= (tail - 1) * 10**n:
            return low, k
    raise AssertionError("the mass is one in the end")


def test_share_of_2000_draws_is_inside_99_percent_interval():
    low, high = binomial_interval(2000, 3, 200)
    assert (low, high) == (548, 653)
    assert low <= sum(number < 0.3 for number in draws(2000)) <= high


def test_share_of_2000_planned_links_is_inside_99_percent_interval():
    episodes = [f"{i}-1" for i in range(286)]
    cells = [(e, row.name) for e in episodes for row in lab_links().tools][:2000]
    planned = {
        (e, toxic.link)
        for e in episodes
        for toxic in plan_toxics(11, 0.3, TOXICS, lab_links().tool_names, e, 1)
    }
    assert 548 <= sum(cell in planned for cell in cells) <= 653


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 8},
        {"episode": "3-2"},
        {"attempt": 2},
        {"link": "movie"},
        {"fingerprint": "abc"},
        {"call": 2},
        {"try_": 2},
        {"purpose": "error"},
    ],
)
def test_each_argument_changes_draw(changed):
    assert draw(**KEY) == draw(**KEY)
    assert draw(**KEY) != draw(**{**KEY, **changed})


def test_tries_draw_independently():
    pairs = [
        tuple(draw(**{**KEY, "episode": str(i), "try_": t}) < 0.3 for t in (1, 2)) for i in range(20_000)
    ]
    both, first, second = (sum(map(f, pairs)) for f in (all, lambda p: p[0], lambda p: p[1]))
    assert both / 20_000 == pytest.approx(first * second / 20_000**2, abs=0.008)


def test_draws_are_stable():
    # a recorded seed must give the same plan in the next version
    assert draw(**KEY) == PINNED_DRAW
    assert fingerprint("GET", "/serp?q=a") == PINNED_FINGERPRINT


def plain_digest(*parts):
    text = json.dumps([str(part) for part in parts], ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # lone surrogates too
COUNTS = st.integers(0, 1 << 40)


@given(st.tuples(st.integers(), ANY_TEXT, COUNTS, ANY_TEXT, ANY_TEXT, COUNTS, COUNTS, ANY_TEXT))
def test_draws_equal_plain_digest(parts):
    *names, purpose = parts
    draws = KeyedDraws(*names)
    assert draws.number() == int.from_bytes(plain_digest(*names), "big")
    whole = int.from_bytes(plain_digest(*parts), "big")
    assert draws.draw(purpose) == draw(*parts) == (whole >> 11) / (1 << 53)
    assert digest(*parts) == plain_digest(*parts)


@given(
    st.sampled_from(["GET", "post"]),
    st.text('a/"\\\xe9\x01', max_size=4),
    st.text("ab=&+%2c3;? \"'\\\xe9\x00", max_size=20),
    st.one_of(st.binary(max_size=8), st.sampled_from([b'{"b": 1, "a": [2]}', b" 1 ", b"[", b"NaN"])),
)
def test_fingerprint_equals_parsed_query(method, path, query, body):
    try:
        body_digest = json.dumps(json.loads(body), sort_keys=True) if body else ""
    except ValueError:
        body_digest = hashlib.blake2b(body, digest_size=8).hexdigest()
    pairs = sorted(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
    by_hand = plain_digest(method.upper(), path, pairs, body_digest).hex()
    assert fingerprint(method, f"{path}?{query}", body) == by_hand


@given(st.lists(st.text()), st.lists(st.text()))
def test_digests_are_unambiguous(a, b):
    assert (digest(*a) == digest(*b)) == (a == b)


def test_digest_and_id_sizes():
    assert len(digest("a")) == 8 and len(digest("a", size=16)) == 16
    assert identifier("\ud800", 1) == digest("\ud800", "1").hex()


@pytest.mark.parametrize(("number", "option"), [(0.0, "a"), (0.33, "a"), (0.34, "b"), (1 - 2**-53, "c")])
def test_choose_is_fair_and_stays_in_range(number, option):
    assert choose(number, "abc") == option


SAME = [
    (("GET", "/serp?a=1&b=2"), ("get", "/serp?b=2&a=1")),
    (("GET", "/serp?q=a+b"), ("GET", "/serp?q=a%20b")),
    (("POST", "/e", b'{"a": 1, "b": {"c": 2, "d": 3}}'), ("POST", "/e", b'{"b":{"d":3,"c":2},\n"a":1}')),
    (("POST", "/e", '{"a": "é"}'.encode()), ("POST", "/e", b'{"a": "\\u00e9"}')),
    (("POST", "/e", b"\xff\x00"), ("POST", "/e", b"\xff\x00")),
    (("POST", "/e", b'{"a": NaN}'), ("POST", "/e", b'{ "a" : NaN }')),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_requests_share_fingerprint(one, other):
    assert fingerprint(*one) == fingerprint(*other)


DIFFERENT = [
    (("GET", "/e"), ("DELETE", "/e")),
    (("GET", "/e"), ("GET", "/e/")),
    (("GET", "/e"), ("GET", "//e")),
    (("GET", "/e?q="), ("GET", "/e")),
    (("GET", "/e?q=a&r=b"), ("GET", "/e?q=b&r=a")),
    (("GET", "/e?q=a%26r=b"), ("GET", "/e?q=a&r=b")),
    (("GET", "/e?q=%ff"), ("GET", "/e?q=%fe")),
    (("GET", "/e?q=1"), ("GET", "/e", b'{"q": "1"}')),
    (("POST", "/e", b'{"a": 1}'), ("POST", "/e", b'{"a": "1"}')),
    (("POST", "/e", b'{"a": 1}'), ("POST", "/e", b'{"a": true}')),
    (("POST", "/e", b"[1, 2]"), ("POST", "/e", b"[2, 1]")),
    (("POST", "/e", b'""'), ("POST", "/e", b"")),
    (("POST", "/e", b"a b"), ("POST", "/e", b"a  b")),
    (("POST", "/e", b'{"a": NaN}'), ("POST", "/e", b'{"a": null}')),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_requests_differ_in_fingerprint(one, other):
    assert fingerprint(*one) != fingerprint(*other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_fingerprint_ignores_json_spacing_and_escapes(value):
    bodies = [json.dumps(value, indent=3), json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
    assert len({fingerprint("POST", "/e", body.encode("utf-8", "surrogatepass")) for body in bodies}) == 1


@given(st.text(), st.binary())
def test_arbitrary_request_has_fingerprint(target, body):
    assert len(fingerprint("POST", target, body)) == 16


@pytest.mark.parametrize("body", [b"[" * 100_000, b"9" * 5000, b"\xff\xfe\x00", b"{" * 500])
def test_hostile_body_has_fingerprint(body):
    assert len(fingerprint("POST", "//[", body)) == 16


def plans(seed, prob=0.3, n=200):
    return [plan_toxics(seed, prob, TOXICS, lab_links().tool_names, f"{i}-1", 1) for i in range(n)]


def test_only_same_seed_repeats_plan():
    assert plans(1) == plans(1)
    assert plans(1) != plans(2)


def test_next_attempt_has_other_plan():
    first, second = (
        plan_toxics(1, 0.5, TOXICS, lab_links().tool_names, "1-1", attempt) for attempt in (1, 2)
    )
    assert first != second


def test_link_has_one_toxic_at_most_in_catalogue_order():
    order = [row.name for row in lab_links().tools]
    for plan in plans(3, 0.8):
        places = [order.index(toxic.link) for toxic in plan]
        assert places == sorted(set(places))


def test_probability_0_plans_none_and_1_one_toxic_per_link():
    assert plans(5, 0.0, 50) == [[]] * 50
    assert all(
        [t.link for t in plan] == [row.name for row in lab_links().tools] for plan in plans(5, 1.0, 50)
    )


def test_rising_probability_only_adds_toxics():
    for few, many in zip(plans(9, 0.2), plans(9, 0.6), strict=True):
        assert all(toxic in many for toxic in few)


def test_kinds_and_streams_are_drawn_uniformly():
    drawn = Counter((t.kind, t.stream, t.attributes.get("latency")) for p in plans(4, 1.0, 2000) for t in p)
    assert len(drawn) == 5  # two of timeout, two of latency 300, one of latency@upstream 1500
    assert chi_square(drawn.values(), drawn.total() / 5) < 18.5  # 4 degrees of freedom, 0.1 %


def test_planned_toxic_has_all_attributes_and_name():
    [toxic] = [
        t
        for t in plan_toxics(1, 1.0, parse_list("latency@upstream:250"), lab_links().tool_names, "1-1", 1)
        if t.link == "movie"
    ]
    assert toxic.attributes == {"latency": 250, "jitter": 0}
    assert toxic.name == "wirefault_latency_upstream"


def test_errors_are_drawn_per_try_with_uniform_kinds():
    planned = [plan_error(1, 0.3, "1-1", 1, "search", "f", call, 1) for call in range(6000)]
    kinds = Counter(error for error in planned if error)
    assert set(kinds) == {PlannedError(kind, status) for kind, status in ERROR_KINDS}
    assert chi_square(kinds.values(), kinds.total() / 3) < 13.8  # 2 degrees of freedom, 0.1 %
    assert kinds.total() / 6000 == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(("prob", "planned"), [(0.0, 0), (1.0, 100)])
def test_error_probabilities_0_and_1(prob, planned):
    assert sum(plan_error(1, prob, "1-1", 1, "search", "f", c, 1) is not None for c in range(100)) == planned


def named(*entries):
    return build_set({"toxics": list(entries)}, "test", {}, lab_links()).toxics


def test_set_toxic_is_drawn_per_link():
    entry = {"toxic": "latency", "links": ["model", "search"], "stream": "upstream"}
    [entry] = named({**entry, "when": {"probability": 0.3}})
    drawn = [
        t for i in range(4000) for t in plan_toxics(1, 0, TOXICS, lab_links().tool_names, f"{i}", 1, [entry])
    ]
    assert {(toxic.link, toxic.kind, toxic.stream) for toxic in drawn} == {
        ("search", "latency", "upstream"),
        ("model", "latency", "upstream"),
    }
    assert len(drawn) / 8000 == pytest.approx(0.3, abs=0.02)


def test_set_toxics_leave_other_draws_unchanged():
    entries = named({"toxic": "down"}, {"toxic": "timeout", "when": {"probability": 0.5}})
    for i in range(100):
        plain = plan_toxics(1, 0.5, TOXICS, lab_links().tool_names, f"{i}", 1)
        whole = plan_toxics(1, 0.5, TOXICS, lab_links().tool_names, f"{i}", 1, entries)
        assert whole[: len(plain)] == plain
        assert len({(toxic.link, toxic.name) for toxic in whole}) == len(whole)
        assert {toxic.link for toxic in whole if toxic.kind == "down"} == {
            row.name for row in lab_links().tools
        }


def test_two_entries_of_one_kind_draw_separately():
    entry = {"toxic": "latency", "when": {"probability": 0.5}}
    one, two = named(entry, entry)
    alone = [
        plan_toxics(1, 0, TOXICS, lab_links().tool_names, f"{i}", 1, [each])
        for each in (one, two)
        for i in range(50)
    ]
    assert alone[:50] != alone[50:]


@given(st.text(st.sampled_from("ab=&+;%41 é"), max_size=12))
def test_query_parser_equals_library(text):
    assert _query(text) == parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
