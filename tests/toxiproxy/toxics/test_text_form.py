"""The text form of toxics."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wirefault.toxiproxy.toxics import TOXICS, toxic
from wirefault.toxiproxy.toxics.base import STREAMS
from wirefault.toxiproxy.toxics.text_form import ToxicSpec, parse, parse_list


@pytest.mark.parametrize(
    ("text", "kind", "attributes", "streams"),
    [
        ("timeout:400", "timeout", {"timeout": 400}, STREAMS),
        ("timeout", "timeout", {"timeout": 400}, STREAMS),
        ("timeout:0", "timeout", {"timeout": 0}, STREAMS),
        ("latency@upstream:300", "latency", {"latency": 300, "jitter": 0}, ("upstream",)),
        (" latency : latency = 300 ; jitter = 50 ", "latency", {"latency": 300, "jitter": 50}, STREAMS),
        ("latency@downstream:jitter=5", "latency", {"latency": 300, "jitter": 5}, ("downstream",)),
        ("limit_data:7", "limit_data", {"bytes": 7}, STREAMS),
        ("down", "down", {}, ("downstream",)),
    ],
)
def test_spec_has_all_attributes_and_streams(text, kind, attributes, streams):
    assert parse(text) == ToxicSpec(kind, attributes, streams)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("tmeout:1", "unknown toxic 'tmeout'; did you mean 'timeout'"),
        ("", "unknown toxic ''; valid: "),
        ("latency:latncy=3", "unknown attribute 'latncy' of latency; did you mean 'latency'"),
        ("latency:rate=3", "unknown attribute 'rate' of latency; valid: latency, jitter|did you mean"),
        ("latency@upstrem:3", "unknown stream 'upstrem'; did you mean 'upstream'"),
        ("latency@:3", "unknown stream ''"),
        ("timeout:-1", "timeout = -1 is out of range; it must be in 0 .. 3600000 ms"),
        ("bandwidth:0", "rate = 0 is out of range"),
        ("timeout:4s", "timeout must be a whole number, not '4s'"),
        ("latency:1.5", "whole number"),
        ("latency:latency=1;latency=2", "duplicate latency"),
        ("latency:jitter=1;2", "'2' must be attribute=value"),
        ("timeout:", "missing value after the colon"),
        ("slicer:average_size=10;size_variation=10", "size_variation must be less than average_size"),
        ("down@upstream", "down has no stream"),
        ("down:1", "down takes no value"),
    ],
)
def test_error_names_problem(text, error):
    with pytest.raises(ValueError, match=error):
        parse(text)


def test_list_is_separated_by_commas():
    assert [str(spec) for spec in parse_list("timeout:400, latency:300,down,")] == [
        "timeout:400",
        "latency:300",
        "down",
    ]


def test_empty_list_is_error():
    with pytest.raises(ValueError, match="for example"):
        parse_list(" , ")


@st.composite
def specs(draw):
    known = draw(st.sampled_from(TOXICS))
    attributes = {
        a.name: draw(st.just(a.default) | st.integers(a.minimum, a.maximum)) for a in known.attributes
    }
    assume(known.problem(attributes) is None)
    streams = st.sampled_from([STREAMS, STREAMS[:1], STREAMS[1:]])
    return ToxicSpec(known.kind, attributes, draw(streams) if known.has_stream else ("downstream",))


@given(specs())
def test_canonical_text_parses_to_same(spec):
    assert parse(str(spec)) == spec
    assert str(parse(str(spec))) == str(spec)


@given(st.text(max_size=30))
def test_arbitrary_text_is_value_error_or_spec(text):
    try:
        assert parse(str(parse(text)))
    except ValueError as error:
        assert str(error)


def test_catalogue_lists_each_kind_once_with_valid_defaults():
    assert len({known.kind for known in TOXICS}) == len(TOXICS)
    for known in TOXICS:
        assert toxic(known.kind) is known
        assert known.main in (None, *(attribute.name for attribute in known.attributes))
        assert known.complete({}) == {a.name: a.default for a in known.attributes}


@pytest.mark.parametrize("value", [True, 1.5, "1", None])
def test_attributes_are_whole_numbers(value):
    with pytest.raises(ValueError, match="whole number"):
        toxic("timeout").complete({"timeout": value})
