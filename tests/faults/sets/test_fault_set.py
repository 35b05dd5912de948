"""Fault sets: read, refused with file and key, written and read again."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.pages import page_section
from wirefault.core.spans import Span
from wirefault.faults.base import Fault
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.conditions import Window
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError, build_set, load_set
from wirefault.faults.sets.presets import preset
from wirefault.wiring.links import Links, found_link, lab_links

ALL = tuple(link.name for link in lab_links())
TOOL_NAMES = tuple(link.name for link in lab_links().tools)


def one(**entry):
    return build_set({"faults": [{"fault": "truncate", **entry}]}, "f.yaml", REGISTRY, lab_links()).faults[0]


@pytest.mark.parametrize(
    ("links", "chosen"),
    [
        (None, ALL),
        ("all", ALL),
        ("tools", TOOL_NAMES),
        ("model", ("model",)),
        ("weather", ("weather",)),
        (["model", "weather"], ("weather", "model")),
        (["tools", "model"], ALL),
    ],
)
def test_entry_links(links, chosen):
    assert one(links=links).links == chosen


def test_tool_selects_its_link_method_and_path():
    entry = one(only={"tool": "send_message"})
    assert (entry.links, entry.only.method, entry.only.path) == (("message",), "POST", "/message")


WRONG_TEXTS = [
    ("[", "f.yaml:1: not YAML"),
    ("3", "f.yaml: must be a mapping, not 3"),
    ("fautls: []", "f.yaml: unknown key 'fautls'; did you mean 'faults'?"),
    ("faults: {}", "f.yaml: faults: must be a list, not {}"),
    ("faults: [3]", "f.yaml: faults[1]: must be a mapping, not 3"),
    ("faults: [{fault: trunkate}]", "faults[1]: unknown fault 'trunkate'; did you mean 'truncate'?"),
    ("faults: [{}]", "f.yaml: faults[1]: missing fault; valid: status, "),
    ("faults: [{fault: [a]}]", "faults[1]: fault: must be a non-empty text, not ['a']"),
    ("faults: [{fault: noise, with: {roles: [usr]}}]", "noise: with: roles[1]: Input should be 'user'"),
    ("toxics: [{}]", "toxics[1]: missing toxic; valid: latency, "),
    ("description: [a]", "f.yaml: description: must be a non-empty text"),
    ("toxics: [{toxic: latncy}]", "toxics[1]: unknown toxic 'latncy'; did you mean 'latency'?"),
    (
        "toxics: [{toxic: latency, with: {ltency: 1}}]",
        "unknown attribute 'ltency' of latency; did you mean",
    ),
    ("toxics: [{toxic: latency, with: {latency: x}}]", "toxics[1]: latency: with: latency must be a whole"),
    ("toxics: [{toxic: latency, with: 0}]", "toxics[1]: latency: with: must be a mapping, not 0"),
    ("toxics: [{toxic: latency, stream: sideways}]", "latency: stream: unknown stream 'sideways'"),
    ("toxics: [{toxic: latency, stream: 'upstream:5'}]", "did you mean 'upstream'?"),
    ("toxics: [{toxic: down, stream: upstream}]", "down: stream: down has no stream"),
    ("toxics: [{toxic: latency, whem: {}}]", "toxics[1]: unknown key 'whem'; did you mean 'when'?"),
    ("toxics: [{toxic: latency, when: {nth: 1}}]", "when: unknown key 'nth'"),
    ("toxics: [{toxic: latency, together: 1}]", "latency: together: Input should be a valid boolean, not 1"),
    ("toxics: [{toxic: latency, duration: -1}]", "duration: Input should be greater than or equal to 0"),
    ("toxics: [{toxic: latency, duration: 2s}]", "duration: Input should be a valid number, not '2s'"),
    ("toxics: [{toxic: latency, during: 2s}]", "during: must be an outage such as {start: 2s"),
    ("toxics: [{toxic: latency, during: {}}]", "during[1]: must have a start, a duration or a ramp"),
    ("toxics: [{toxic: latency, during: {strat: 1}}]", "unknown key 'strat'; did you mean 'start'?"),
    ("toxics: [{toxic: latency, during: {start: soon}}]", "during[1].start: must be seconds such as 2s"),
    ("toxics: [{toxic: latency, during: {start: 9h}}]", "during[1].start: must be seconds such as 2s"),
    ("toxics: [{toxic: latency, during: {start: 5000s}}]", "during[1].start: must be in 0 .. 3600 s"),
    ("toxics: [{toxic: latency, during: {start: 1.5 calls}}]", "must be a whole number of calls"),
    ("toxics: [{toxic: latency, during: {start: 0 calls}}]", "calls are counted from 1"),
    ("toxics: [{toxic: latency, during: {duration: 0}}]", "duration and ramp must be more than 0"),
    ("toxics: [{toxic: latency, during: {start: 1s, ramp: 2 calls}}]", "all in seconds, or all in calls"),
    (
        "toxics: [{toxic: latency, during: {ramp: 2s, duration: 1s}}]",
        "the ramp must not be longer than the duration",
    ),
    ("toxics: [{toxic: latency, during: [{start: 1s}, {start: 2s}]}]", "two of its outages overlap"),
    (
        "toxics: [{toxic: latency, during: [{duration: 1s}, {start: 2 calls}]}]",
        "all its outages must be in seconds, or all in calls",
    ),
    ("toxics: [{toxic: latency, duration: 1, during: {start: 1}}]", "use duration or during, not both"),
    ("toxics: [{toxic: down, during: {ramp: 1s}}]", "down has no partial dose"),
    ("toxics: [{toxic: down, during: {start: 2 calls}}]", "down keeps requests from the gateway"),
    (
        "toxics: [{toxic: timeout, stream: upstream, during: {start: 2 calls}}]",
        "timeout upstream keeps requests from the gateway, which cannot count the calls",
    ),
    (
        "toxics: [{toxic: timeout, during: {start: 3 calls, duration: 2 calls}}]",
        "the end of timeout closes the connection of the next call too",
    ),
    (
        "toxics: [{toxic: latency, during: {start: first_met, duration: 2s}}]",
        "latency: during: start: first_met is for faults",
    ),
    ("toxics: [{toxic: latency, when: {after: {write: executed}}}]", "when: unknown key 'after'"),
    ("toxics: [{toxic: latency, only: {path: /x}}]", "only: unknown key 'path'"),
    ("toxics: [{toxic: latency, duraton: 2}]", "unknown key 'duraton'; did you mean 'duration'?"),
]
WRONG_ENTRIES = [
    ("whem: {}", "faults[1]: unknown key 'whem'; did you mean 'when'?"),
    ("with: {fractoin: 1}", "truncate: with: unknown key 'fractoin'; did you mean 'fraction'?"),
    ("with: {fraction: 1.5}", "with: fraction: Input should be less than 1"),
    ("with: {fraction: true}", "with: fraction: Input should be a valid number"),
    ("with: {fraction: '0.5'}", "with: fraction: Input should be a valid number"),
    ("with: [1]", "with: must be a mapping"),
    ("when: {probability: 2}", "when: probability: Input should be less than"),
    ("when: {probability: 50%}", "when: probability: Input should be a valid number, not '50%'"),
    ("when: {of: tries}", "when: of: Input should be 'call' or 'try', not 'tries'"),
    ("when: {nth: 3-2}", "when: nth: the range 3-2 is empty"),
    ("when: {nth: 0}", "when: nth: counts begin with 1"),
    ("when: {nth: 2, after: 3}", "truncate: when: can never be met: nth, after"),
    ("when: {after: -1}", "when: after: must be a count such as 2, or {write: executed}"),
    ("when: {after: {write: done}}", "when: after: must be a count such as 2, or {write: executed}"),
    ("when: {after: {wrte: executed}}", "when: after: unknown key 'wrte'; did you mean 'write'?"),
    ("during: {start: first_mat, duration: 1s}", "during[1].start: must be seconds such as 2s or 500ms, or"),
    ("during: {start: first_met}", "during[1]: start: first_met changes nothing without a duration"),
    ("during: {start: first_met, duration: 2 calls}", "start: first_met starts a clock: give duration"),
    (
        "during: [{start: first_met, duration: 1s}, {start: 3s}]",
        "during: an outage with start: first_met must be the only one",
    ),
    ("when: {nth: 2.5}", "when: nth: must be a count such as 3, a range"),
    ("when: {nth: [2]}", "when: nth: must be a count such as 3, a range"),
    ("when: {turns: true}", "when: turns: must be a count such as 3, a range"),
    ("when: {turn: 0}", "when: turn: counts begin with 1"),
    (
        "when: {turns: 1, model_requests: 1}",
        "turns is the former name of model_requests: use only one of them",
    ),
    ("only: {episodes: ['']}", "only: episodes: invalid prompt id ''"),
    ("when: {evry: 2}", "faults[1]: truncate: when: unknown key 'evry'; did you mean 'every'?"),
    ("when: {window: {strat: 1}}", "truncate: when: window: unknown key 'strat'; did you mean 'start'?"),
    ("when: {window: 3}", "when: window: Input should be an object"),
    ("when: false", "when: must be a mapping, not False"),
    ("only: []", "only: must be a mapping, not []"),
    ("only: {pth: /x}", "only: unknown key 'pth'; did you mean 'path'?"),
    ("only: {path: message}", "only: path: must begin with / or *"),
    ("only: {path: '/message?to=Bob'}", "only: path: must not have a query"),
    ("only: {method: ''}", "only: method: must be a method such as POST"),
    ("only: {header: {'X Team': a}}", "only: header: invalid header name 'X Team'"),
    ("only: {tool: send_mail}", "tool: unknown tool 'send_mail'; did you mean 'send_message'?"),
    ("only: {tool: send_message, method: GET}", "send_message is called by POST, never by GET"),
    ("links: weather, only: {tool: translate}", "translate is on the link translator"),
    ("links: wheather", "links: unknown link 'wheather'; did you mean 'weather'?"),
    ("links: []", "links: must be a link"),
    ("links: {}", "links: must be a link"),
    ("id: 3", "truncate: id: must be a non-empty text, not 3"),
    ("id: a-2}, {fault: truncate, id: a}, {fault: truncate, id: a", "duplicate id a-2"),
]


@pytest.mark.parametrize(
    ("text", "says"),
    [*WRONG_TEXTS, *((f"faults: [{{fault: truncate, {entry}}}]", says) for entry, says in WRONG_ENTRIES)],
)
def test_error_names_problem(text, says):
    with pytest.raises(FaultSetError) as error:
        load_set(text, "f.yaml", REGISTRY, lab_links())
    assert str(error.value).startswith("f.yaml:") and says in str(error.value)


@pytest.mark.parametrize(("entry", "says"), WRONG_ENTRIES)
def test_python_objects_have_same_errors(entry, says):
    value = yaml.safe_load(f"faults: [{{fault: truncate, {entry}}}]")
    with pytest.raises(FaultSetError) as error:
        build_set(value, "here", REGISTRY, lab_links())
    assert str(error.value).startswith("here: ") and says in str(error.value)


@pytest.mark.parametrize("names", [["weather", "model"], ("model", "weather")])
def test_named_impossible_link_is_refused(names):
    with pytest.raises(FaultSetError, match="slow_tokens is impossible on weather, possible only on model"):
        build_set({"faults": [{"fault": "slow_tokens", "links": names}]}, "f", REGISTRY, lab_links())


class Nested(Fault):
    """With a mapping as a parameter."""

    name = "nested"
    family = "http"
    window: Window | None = None


def test_parameter_keys_are_checked():
    entry = {"fault": "nested", "with": {"window": {"strat": 1}}}
    pattern = r"^f: faults\[1\]: nested: with: window: unknown key 'strat'; did you mean 'start'\?$"
    with pytest.raises(FaultSetError, match=pattern):
        build_set({"faults": [entry]}, "f", {"nested": Nested}, lab_links())


def test_zero_probability_set_cannot_be_met():
    never = {"when": {"probability": 0}}
    entries = {"faults": [{"fault": "empty", **never}], "toxics": [{"toxic": "latency", **never}]}
    assert not build_set(entries, "f", REGISTRY, lab_links()).can_be_met
    assert build_set({"toxics": [{"toxic": "latency"}]}, "f", REGISTRY, lab_links()).can_be_met


def test_repeated_fault_gets_number():
    result = build_set({"faults": [{"fault": "truncate"}] * 3}, "f", REGISTRY, lab_links())
    assert [entry.id for entry in result.faults] == ["truncate", "truncate-2", "truncate-3"]


def test_toxic_dose_is_dumped_only_if_set():
    entries = {"toxics": [{"toxic": "down", "together": True, "duration": 2}, {"toxic": "latency"}]}
    result = build_set(entries, "f", REGISTRY, lab_links())
    assert [(t.dose.together, t.dose.duration) for t in result.toxics] == [(True, 2.0), (False, 0.0)]
    outage, latency = json.loads(result.dump())["toxics"]
    assert (outage["together"], outage["duration"]) == (True, 2.0)
    assert not {"together", "duration"} & latency.keys()


def test_outages_survive_round_trip():
    outages = [{"start": "500ms", "duration": 2.5, "ramp": "1s"}, {"start": "1200s"}]
    toxic = {"toxic": "latency", "during": outages, "when": {"turn": "2-"}, "only": {"episodes": "mail"}}
    fault = {"fault": "truncate", "during": {"start": "3 calls", "duration": "1 call"}, "together": True}
    result = build_set({"toxics": [toxic], "faults": [fault]}, "f", REGISTRY, lab_links())
    assert load_set(result.dump(), "f", REGISTRY, None) == result
    [written] = json.loads(result.dump())["toxics"]
    assert written["during"] == [{"start": "0.5s", "duration": "2.5s", "ramp": "1s"}, {"start": "1200s"}]
    assert (written["when"]["turn"], written["only"]) == ([2, None], {"episodes": ["mail"]})
    [entry] = result.faults
    assert not entry.certain and entry.dose.spans == (Span(3.0, 1.0, unit="calls"),)


def test_in_calls_toxic_without_stream_is_downstream():
    result = build_set(
        {"toxics": [{"toxic": "timeout", "during": {"start": "3 calls"}}]}, "f", {}, lab_links()
    )
    assert [toxic.spec.streams for toxic in result.toxics] == [("downstream",)]


def test_old_trigger_name_is_written_as_new_one():
    result = build_set({"faults": [{"fault": "empty", "when": {"turns": 2}}]}, "f", REGISTRY, lab_links())
    assert json.loads(result.dump())["faults"][0]["when"] == {"model_requests": [2, 2]}


def test_empty_set_is_empty_text():
    for text in ("", "{}", "faults: []", "# nothing"):
        assert load_set(text, "f", REGISTRY, lab_links()).dump() == ""


WHEN = st.fixed_dictionaries(
    {},
    optional={
        "probability": st.floats(0, 1),
        "nth": st.sampled_from([[12, 12], "2-4", "3-"]),
        "every": st.integers(1, 4),
        "of": st.sampled_from(["call", "try"]),
        "window": st.fixed_dictionaries({"start": st.floats(0, 9), "end": st.floats(10, 99)}),
        "persistent": st.booleans(),
    },
)
ENTRY = st.fixed_dictionaries(
    {"fault": st.just("truncate")},
    optional={
        "links": st.sampled_from(["tools", "model", "all", ["weather", "model"]]),
        "with": st.fixed_dictionaries(
            {}, optional={"fraction": st.floats(0, 0.9), "at_byte": st.integers(0, 99)}
        ),
        "when": WHEN,
        "together": st.booleans(),
        "during": st.sampled_from(
            [{"start": 1.25, "ramp": "20ms"}, [{"duration": "2 calls"}, {"start": "4 calls"}]]
        ),
        "only": st.fixed_dictionaries(
            {}, optional={"method": st.just("GET"), "json": st.just({"to": "Bob"})}
        ),
    },
)
TOXIC = st.fixed_dictionaries(
    {"toxic": st.just("latency")},
    optional={
        "stream": st.sampled_from(["upstream", "downstream"]),
        "with": st.just({"latency": 5}),
        "when": st.fixed_dictionaries({"probability": st.floats(0, 1)}),
        "together": st.booleans(),
        "duration": st.floats(0, 600),
    },
)


@given(st.lists(ENTRY, max_size=4), st.lists(TOXIC, max_size=3))
def test_set_survives_round_trip(faults, toxics):
    result = build_set({"faults": faults, "toxics": toxics}, "f", REGISTRY, lab_links())
    assert load_set(result.dump(), "again", REGISTRY, lab_links()) == result
    assert result.dump() == "" or json.loads(result.dump())


def test_outages_page_set_is_valid():
    [example] = re.findall(
        r"```yaml\n(.*?)```", page_section("fault-sets.md", "Outages inside an attempt"), re.DOTALL
    )
    result = load_set(example, "the page", REGISTRY, lab_links())
    assert all(entry.dose.during or entry.dose.together for entry in (*result.faults, *result.toxics))


TO_FIND = Links((), grows=True)
SHOP = found_link("127.0.0.1", 9000, "http", ())


def to_find(kind: str = "status", group: str = "faults", **entry: Any) -> FaultSet:
    return build_set({group: [{group[:-1]: kind, **entry}]}, "f.yaml", REGISTRY, TO_FIND)


def test_unfound_link_keeps_name_and_acts_once_found() -> None:
    fault_set = to_find(links=["port_9000", "openai", "model"])
    assert fault_set.faults[0].links == ("found:model", "port_9000", "openai")
    assert load_set(fault_set.dump(), "again", REGISTRY, TO_FIND).dump() == fault_set.dump()
    assert "port_9000" in fault_set.on(TO_FIND.adding([SHOP])).faults[0].links
    assert fault_set.awaited_names(TO_FIND.adding([SHOP])) == (("openai",), ())


def test_toxic_skips_links_not_yet_found() -> None:
    fault_set = to_find("latency", "toxics", links=["port_9000", "port_9001"])
    assert fault_set.on(TO_FIND).toxics[0].links == ()
    assert fault_set.on(TO_FIND.adding([SHOP])).toxics[0].links == ("port_9000",)
    assert fault_set.awaited_names(TO_FIND.adding([SHOP])) == ((), ("port_9001",))


@pytest.mark.parametrize(
    ("kind", "group", "links", "problem"),
    [
        ("status", "faults", "port-9000", "links: unknown link 'port-9000'"),
        ("status", "faults", "localhost:9000", "name the link, not the server: port_9000"),
        ("wrong_value", "faults", "openai", "wrong_value is possible only on tools"),
        ("latency", "toxics", "writes", "a toxic acts on a connection, also on the reads on it"),
    ],
)
def test_impossible_link_name_is_refused(kind: str, group: str, links: str, problem: str) -> None:
    with pytest.raises(FaultSetError, match=problem):
        to_find(kind, group, links=links)


def test_writes_selects_probable_writes_of_unnamed_links() -> None:
    links = TO_FIND.adding([SHOP])
    assert to_find(links="writes").on(links).faults[0].writes_only == {"port_9000"}
    assert not to_find(links=["writes", "tools"]).on(links).faults[0].writes_only
    assert not to_find(links=["writes", "port_9000"]).on(links).faults[0].writes_only


def test_preset_has_no_toxic_for_probable_writes() -> None:
    assert "found:writes" in preset("lost-replies", TO_FIND).faults[0].links
    assert all("found:writes" not in toxic.links for toxic in preset("lost-replies", TO_FIND).toxics)


@pytest.mark.parametrize(
    ("fault", "only", "problem"),
    [
        ("tool_error", {}, "links: tool_error is impossible on calls of functions"),
        ("ws_cut", {}, "links: ws_cut is impossible on calls of functions"),
        ("stream_cut", {}, "links: stream_cut is impossible on calls of functions"),
        ("delay", {"method": "GET"}, "only: method: a function is called by POST, or by QUERY"),
        ("delay", {"tool": "send", "method": "GET"}, "send is called by POST or tools/call, never by GET"),
    ],
)
def test_selector_that_no_function_matches_is_refused(fault: str, only: Any, problem: str) -> None:
    entry = {"fault": fault, "links": "functions", "only": only}
    with pytest.raises(FaultSetError, match=re.escape(problem)):
        build_set({"faults": [entry]}, "f", REGISTRY, Links([], grows=True))
