"""The prompts file: valid entries run, invalid ones are reported with their place."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import ROOT
from wirefault.judging.oracle.expect import parse_expect
from wirefault.wiring.prompts import (
    NextTurn,
    Prompt,
    PromptsError,
    PromptsSource,
    check_next_turns,
    check_tool_links,
    check_turns,
    load_prompts,
    prompts_from_entries,
    prompts_name,
    text_key,
)

SHIPPED = ROOT / "agent" / "prompts.json"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "prompts.json"


def load(path, data):
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return load_prompts(path, check_expect=parse_expect)


def test_prompts_keep_file_order_and_oracles(path):
    loaded = load(
        path, [{"prompt": " one "}, {"prompt": "two", "expect": {}}, {"prompt": "one", "expect": None}]
    )
    one, two = text_key("one"), text_key("two")
    assert loaded.entries == [
        Prompt(one, "one", None, 1),
        Prompt(two, "two", {}, 2),
        Prompt(f"{one}-2", "one", None, 3),
    ]
    assert loaded.problems == []


ENTRIES = [
    {"prompt": "first"},
    {"prompt": "twice"},
    {"prompt": "named", "id": "mine"},
    {"prompt": "twice"},
    {"prompt": "last", "expect": {"value": []}},
]


def keys(path, entries):
    return {prompt.place: prompt.key for prompt in load(path, entries).entries}


def test_key_ignores_place_other_entries_and_oracle(path):
    first, twice, named, again = keys(path, ENTRIES).values()
    assert (named, again) == ("mine", f"{twice}-2")
    assert list(keys(path, ENTRIES[::-1]).values()) == [twice, "mine", f"{twice}-2", first]
    assert list(keys(path, ENTRIES[1:3]).values()) == [twice, "mine"]
    assert keys(path, [{"prompt": " first\n", "expect": {}}]) == {1: first}


def test_fixed_entry_keeps_numbers_of_equal_prompts(path):
    twice = [{"prompt": "x", "expect": {"value": []}}, {"prompt": "x"}]
    broken = keys(path, twice)[2]
    assert keys(path, [{"prompt": "x"}, {"prompt": "x"}])[2] == broken


@pytest.mark.parametrize(
    ("selection", "picked"),
    [
        ({"only": ["2"]}, [2]),
        ({"only": ["mine", "1"]}, [1, 3]),
        ({"only": [f"{text_key('twice')}-2"]}, [4]),
        ({"match": "TWICE"}, [2, 4]),
        ({"match": "first", "only": ["mine", "1"]}, [1]),
    ],
)
def test_selected_prompt_keeps_key(path, selection, picked):
    whole = keys(path, ENTRIES)
    loaded = load_prompts(path, check_expect=parse_expect, **selection)
    assert {prompt.place: prompt.key for prompt in loaded.entries} == {
        place: whole[place] for place in picked
    }
    assert loaded.source.picked


def test_numeric_id_precedes_place(path):
    load(path, [{"prompt": "a", "id": "2"}, {"prompt": "b"}])
    assert [prompt.text for prompt in load_prompts(path, ["2"]).entries] == ["a"]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"only": ["mime"]}, "--only='mime': unknown id.* from 1 to 4; did you mean 'mine'"),
        ({"only": ["9"]}, "--only='9'"),
        ({"only": ["5"]}, r"--only='5'(.|\n)*entry 5 is skipped: expect\.value"),
        ({"match": "third"}, "--match='third': no prompt contains it"),
        ({"match": "first", "only": ["mine"]}, "no prompt of those that --only names contains it"),
    ],
)
def test_unknown_selection_is_error(path, selection, message):
    load(path, ENTRIES)
    with pytest.raises(PromptsError, match=message):
        load_prompts(path, check_expect=parse_expect, **selection)


def test_source_has_named_file_and_hash(path):
    data = b'[{"prompt": "x"}]\n'
    assert load(path, data).source == PromptsSource(str(path), sha256(data).hexdigest())


def test_problem_names_line_of_entry(path):
    text = '\n[{"prompt":\n  "one"},\n\n {"prompt": "two", "expect": {"vals": []}}, 5,\n{}]'
    starts = [problem.removeprefix(str(path))[:10] for problem in load(path, text.encode()).problems]
    assert starts == [":5: entry ", ":5: entry ", ":6: entry "]


@pytest.mark.parametrize("first", [{"prompt": "a", "id": "x"}, {"prompt": "a"}])
def test_id_equal_to_other_key_is_invalid(path, first):
    key = first.get("id", text_key("a"))
    loaded = load(path, [first, {"prompt": "b", "id": key}])
    assert [prompt.text for prompt in loaded.entries] == ["a"]
    assert f"\"id\" '{key}' is the key of entry 1" in loaded.problems[0]


BAD = [
    (" \n", '"prompt" must be'),
    (None, "must be a text or an object"),
    (["prompt"], "must be a text or an object"),
    ({}, '"prompt" must be'),
    ({"prompt": ""}, '"prompt" must be'),
    ({"prompt": " \n"}, '"prompt" must be'),
    ({"prompt": 5}, '"prompt" must be'),
    ({"prompt": "\ud800"}, "half a character"),
    ({"promt": "x"}, "did you mean 'prompt'"),
    ({"prompt": "x", "expects": {}}, "did you mean 'expect'"),
    ({"prompt": "x", "id": 1.5}, '"id" must be 1 to 64'),
    ({"prompt": "x", "id": True}, '"id" must be 1 to 64'),
    ({"prompt": "x", "metadat": {}}, "did you mean 'metadata'"),
    ({"prompt": "x", "metadata": "easy"}, '"metadata" must be an object'),
    ({"prompt": "x", "id": "a/b"}, '"id" must be 1 to 64'),
    ({"prompt": "x", "id": ""}, '"id" must be 1 to 64'),
    ({"prompt": "x", "expect": []}, '"expect" must be an object'),
    ({"prompt": "x", "expect": "42"}, '"expect" must be an object'),
    ({"prompt": "x", "expect": {"value": []}}, "did you mean 'values'"),
    ({"prompt": "x", "expect": {"values": [{"number": "42"}]}}, r"expect\.values\[0\]"),
    ({"prompt": "x", "expect": {"values": [{"number": float("nan")}]}}, r"expect\.values\[0\]"),
    ({"prompt": "x", "expect": {"effects": [{"kind": "mail_sent"}]}}, "did you mean 'message_sent'"),
]


@pytest.mark.parametrize(("entry", "message"), BAD)
def test_invalid_entry_is_skipped_and_reported_with_place(path, entry, message):
    loaded = load(path, [{"prompt": "first"}, entry, {"prompt": "last"}])
    assert [prompt.text for prompt in loaded.entries] == ["first", "last"]
    [problem] = loaded.problems
    assert problem.startswith(f"{path}:1: entry 2 is skipped: ")
    assert re.search(message, problem)


def test_every_bad_entry_is_reported(path):
    loaded = load(path, [entry for entry, _ in BAD] + [{"prompt": "good"}])
    assert [problem.split("entry ")[1].split()[0] for problem in loaded.problems] == [
        str(number) for number in range(1, len(BAD) + 1)
    ]


def test_problems_have_the_name_that_the_file_has_outside_the_container(path):
    path.write_text('[{"prompt": "x"}, {"prompt": ""}]')
    loaded = load_prompts(path, name=Path("mine/tasks.json"))
    assert loaded.problems == [
        'mine/tasks.json:1: entry 2 is skipped: "prompt" must be a text that is not empty'
    ]
    assert loaded.source.file == str(path)


@pytest.mark.parametrize(
    ("environ", "file", "name"),
    [
        ({}, SHIPPED, SHIPPED),
        ({"HOST_PROMPTS_FILE": ""}, SHIPPED, Path("agent/prompts.json")),
        ({"HOST_PROMPTS_FILE": "mine.csv"}, SHIPPED, Path("mine.csv")),
        ({"HOST_PROMPTS_FILE": "mine.csv"}, Path("other.json"), Path("other.json")),
    ],
)
def test_only_the_mounted_file_has_another_name_outside_the_container(environ, file, name):
    assert prompts_name(file, environ) == name


def test_file_without_valid_entry_is_error_that_lists_problems(path):
    with pytest.raises(PromptsError, match=r"all 2 entries are skipped(.|\n)*entry 1 (.|\n)*entry 2 "):
        load(path, [{}, 5])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r":1: not JSON"),
        (b'[\n{"prompt": "x"}\n{}]', r":3: not JSON: .*column 1"),
        (b"\xff\xfe", r"not UTF-8 text \(byte 0\)"),
        (b'\xef\xbb\xbf[{"prompt": "x"}]', "not JSON: .*BOM"),
        (b"[]", "missing prompts"),
        (b'{"name": "x"}', "must be a list.* not an object with name"),
        (b"null", "must be a list"),
        (b"What is it?", "not JSON: .*JSON Lines"),
        (b'[{"prompt": "x", "prompt": "y"}]', "duplicate key prompt"),
        (b"[" * 100_000, ":1: nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "limit"),
    ],
)
def test_broken_file_error_has_place(path, data, message):
    with pytest.raises(PromptsError, match=message) as caught:
        load(path, data)
    assert str(caught.value).startswith(str(path))


def test_missing_file_error_has_advice(path):
    with pytest.raises(PromptsError, match="no such file; name one with --prompts or PROMPTS_FILE"):
        load_prompts(path)
    with pytest.raises(PromptsError, match="cannot be read: Is a directory"):
        load_prompts(path.parent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "prompt",
                    "expect",
                    "values",
                    "effects",
                    "kind",
                    "fields",
                    "number",
                    "any_of",
                    "message_sent",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.one_of(JSON, st.fixed_dictionaries({"prompt": st.just("p"), "expect": JSON})), max_size=4))
def test_arbitrary_list_gives_no_traceback(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("any") / "prompts.json"
    try:
        loaded = load(path, entries)
    except PromptsError:
        return
    assert len(loaded.entries) + len(loaded.problems) == len(entries)


def test_shipped_prompts_are_valid_with_oracles():
    loaded = load_prompts(SHIPPED, check_expect=parse_expect)
    assert loaded.problems == [] and len(loaded.entries) >= 24
    assert all(prompt.expect is not None and parse_expect(prompt.expect) for prompt in loaded.entries)
    assert len({prompt.text for prompt in loaded.entries}) == len(loaded.entries)


def test_conversation_key_depends_on_turns(tmp_path):
    path = tmp_path / "prompts.json"
    turns = ["Add lunch.", "Move it to 1 pm."]
    entries = [{"turns": turns}, {"turns": turns[::-1]}, {"turns": turns[:1]}, {"prompt": turns[0]}]
    path.write_text(json.dumps(entries))
    prompts = load_prompts(path)
    assert [prompt.turns for prompt in prompts.entries] == [tuple(turns), tuple(turns[::-1]), (), ()]
    assert prompts.entries[0].text == "Add lunch.\nMove it to 1 pm."
    keys = [prompt.key for prompt in prompts.entries]
    assert len(set(keys)) == 4 and keys[3] == f"{keys[2]}-2"
    check_turns(prompts, holds_them=True)
    with pytest.raises(PromptsError, match="entry 1 has 2 turns, and this subject takes one prompt"):
        check_turns(prompts, holds_them=False)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"turns": []}, "a list of 1 to 50 texts"),
        ({"turns": "Add lunch."}, "a list of 1 to 50 texts"),
        ({"turns": ["Add lunch.", " "]}, "texts that are not empty"),
        ({"turns": ["Add lunch."], "prompt": "x"}, "remove one"),
        ({"prompt": "Hi", "next_turn": "user:more"}, '"next_turn" needs an "id"'),
        ({"prompt": "Hi", "id": "a", "next_turn": "more"}, "must be module:function or file.py:function"),
        ({"prompt": "Hi", "id": "a", "next_turn": "user:more", "max_turns": 1}, "must be 2 to 50, not 1"),
        ({"prompt": "Hi", "id": "a", "max_turns": 3}, 'no "next_turn" to make turns'),
        ({"id": "a", "next_turn": "user:more"}, '"prompt" must be a text'),
    ],
)
def test_invalid_turns_are_skipped(tmp_path, entry, message):
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps([entry, {"prompt": "x"}]))
    [problem] = load_prompts(path).problems
    assert message in problem


def test_generated_turns_need_function_and_conversational_subject(tmp_path):
    (tmp_path / "user.py").write_text("def more(conversation): return None")
    path = tmp_path / "prompts.json"
    entry = {"id": "talk", "prompt": "Hello", "next_turn": "user.py:more"}
    path.write_text(json.dumps([entry]))
    prompts = load_prompts(path)
    assert prompts.entries[0].next_turn == NextTurn(f"{tmp_path}/user.py:more", 10)
    check_next_turns(prompts)
    with pytest.raises(PromptsError, match="entry 1 has a next_turn, and this subject takes one prompt"):
        check_turns(prompts, holds_them=False)
    path.write_text(json.dumps([{**entry, "next_turn": "user.py:less"}]))
    with pytest.raises(PromptsError, match=r"entry 1: next_turn: .*user.py:less: unknown function"):
        check_next_turns(load_prompts(path))


def test_tool_links_are_read_and_checked() -> None:
    entries = [
        {"prompt": "a", "tool_links": ["weather", "weather"]},
        {"prompt": "b"},
        {"prompt": "c", "tool_links": []},
    ]
    loaded = prompts_from_entries(entries, "here")
    assert [prompt.tool_links for prompt in loaded.entries] == [("weather",), None, ()]
    check_tool_links(loaded, ["weather"])
    with pytest.raises(
        PromptsError, match="entry 1: tool_links: unknown link 'weather'; did you mean 'wether'"
    ):
        check_tool_links(loaded, ["wether"])
    with pytest.raises(PromptsError, match='"tool_links" must be a list of links, not "weather"'):
        prompts_from_entries([{"prompt": "a", "tool_links": "weather"}], "here")
