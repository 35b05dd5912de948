"""Prompts files in every format: lists, JSON Lines, CSV, YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.wiring.prompts import Prompt, Prompts, PromptsError, load_prompts, text_key


def load(folder: Path, name: str, content: object) -> Prompts:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return load_prompts(path, check_expect=parse_expect)


ORACLE = {"answer": {"contains": "4"}}
ONE = {"prompt": "What is 2 + 2?", "id": "sum", "expect": ORACLE}
SAME_PROMPTS = [
    ("list.json", ["Name a colour, please", ONE]),
    ("object.json", {"prompts": ["Name a colour, please", ONE]}),
    ("lines.jsonl", f'"Name a colour, please"\n\n{json.dumps(ONE)}\n'),
    ("lines.json", f'{{"prompt": "Name a colour, please"}}\n{json.dumps(ONE)}'),
    ("table.csv", 'prompt,id,expect\n"Name a colour, please",,\nWhat is 2 + 2?,sum,4\n'),
    ("excel.csv", '\ufeffid;prompt;expect\r\n;"Name a colour, please";\r\nsum;What is 2 + 2?;4\r\n'),
    ("table.tsv", "prompt\tid\texpect\nName a colour, please\t\t\nWhat is 2 + 2?\tsum\t4\n"),
    (
        "list.yaml",
        "- Name a colour, please\n- {prompt: What is 2 + 2?, id: sum, expect: {answer: {contains: '4'}}}\n",
    ),
    ("csv.json", 'prompt,id,expect\n"Name a colour, please",,\nWhat is 2 + 2?,sum,4\n'),
    ("yaml.json", f"# ours\nprompts:\n- Name a colour, please\n- {json.dumps(ONE)}\n"),
    ("object.yml", f"prompts:\n- Name a colour, please\n- {json.dumps(ONE)}\n"),
]


@pytest.mark.parametrize(("name", "content"), SAME_PROMPTS, ids=[name for name, _ in SAME_PROMPTS])
def test_all_file_formats_give_same_prompts_and_keys(tmp_path: Path, name: str, content: object) -> None:
    loaded = load(tmp_path, name, content)
    text = "Name a colour, please"
    assert [(each.key, each.text, each.place) for each in loaded.entries] == [
        (text_key(text), text, 1),
        ("sum", "What is 2 + 2?", 2),
    ]
    assert loaded.entries[1].expect in (ORACLE, {"answer": "4"})
    assert (loaded.problems, loaded.notes) == ([], [])


def test_one_line_file_is_one_prompt(tmp_path: Path) -> None:
    assert [each.text for each in load(tmp_path, "p.jsonl", '{"prompt": "x"}').entries] == ["x"]
    assert [each.text for each in load(tmp_path, "p.json", {"prompt": "x"}).entries] == ["x"]


def test_whole_number_is_an_id(tmp_path: Path) -> None:
    loaded = load(tmp_path, "p.json", [{"id": 17, "prompt": "a"}, {"id": "17", "prompt": "b"}])
    assert [each.key for each in loaded.entries] == ["17"]
    assert "\"id\" '17' is the key of entry 1" in loaded.problems[0]


def test_metadata_and_unknown_keys_are_kept(tmp_path: Path) -> None:
    entry = {"prompt": "x", "category": "easy", "metadata": {"owner": "ann"}}
    assert load(tmp_path, "p.json", [entry]).entries[0].metadata == {"category": "easy", "owner": "ann"}
    row = 'prompt,category,metadata\nx,easy,"{""owner"": ""ann""}"\n'
    assert load(tmp_path, "p.csv", row).entries[0].metadata == {"category": "easy", "owner": "ann"}


def test_csv_cells_may_have_lines_and_oracles(tmp_path: Path) -> None:
    expect = json.dumps(ORACLE).replace('"', '""')
    loaded = load(
        tmp_path, "p.csv", f'prompt,expect\n"two\nlines","{expect}"\nx,"{{bad"\n,\ny,"{{""vals"": 1}}"\n'
    )
    assert [(each.text, each.expect) for each in loaded.entries] == [("two\nlines", ORACLE)]
    assert [problem.removeprefix(f"{tmp_path}/") for problem in loaded.problems] == [
        "p.csv:4: entry 2 is skipped: column 'expect': not JSON: Expecting property name enclosed in double"
        " quotes: line 1 column 2 (char 1)",
        "p.csv:6: entry 3 is skipped: expect.vals: unknown key; did you mean 'values'?",
    ]


LINES = [
    ("p.jsonl", '"a"\n\n{"prompt": "b", "expects": {}}\n', ":3: entry 2"),
    ("p.json", '{"name": 1,\n"prompts": [\n"a",\n{"promt": "b"}]}', ":4: entry 2"),
    ("p.yaml", "prompts:\n- a\n- prompt: b\n  expects: {}\n", ":3: entry 2"),
    ("p.csv", "prompt,id\na,\nb,bad id\n", ":3: entry 2"),
]


@pytest.mark.parametrize(("name", "content", "place"), LINES)
def test_problem_names_line_in_every_format(tmp_path: Path, name: str, content: str, place: str) -> None:
    [problem] = load(tmp_path, name, content).problems
    assert problem.startswith(f"{tmp_path}/{name}{place} is skipped: ")


BROKEN = [
    ("p.jsonl", '{"prompt": "a"}\n{"prompt": }\n', ":2: not JSON: Expecting value"),
    ("p.jsonl", '{"prompt": "a", "prompt": "b"}', ":1: duplicate key prompt"),
    ("p.json", '{"prompts": ["{{q}}"], "test": []}', ": unknown key 'test'; did you mean 'tests'?"),
    ("p.json", '[\n{"prompt": ' + "[" * 10**5, ":2: nested too deeply"),
    ("p.jsonl", '{"prompt": "a"}\n{"prompt": ' + "[" * 10**5, ":2: nested too deeply"),
    ("p.yaml", "prompts:\n  " + "[" * 10**4, ":2: nested too deeply"),
    ("p.json", '{"questions": ["a"]}', "not an object with questions"),
    ("p.json", "title,id\na,b", ":1: not JSON: .*; a prompts file is JSON, JSON Lines"),
    ("p.txt", "What is it?\nWhy?", ":1: not JSON: .*; a prompts file is JSON, JSON Lines"),
    ("p.csv", "promt,id\na,b\n", ":1: missing column 'prompt', found promt, id; did you mean 'prompt'"),
    ("p.csv", "prompt,prompt\na,b\n", ":1: two columns are named 'prompt'"),
    ("p.csv", "prompt\na, b\n", ":2: 2 cells, and the header has 1: put texts with commas in quotes"),
    ("p.csv", 'prompt\n"a\n', "not CSV: unexpected end of data"),
    ("p.csv", "", "missing prompts"),
    ("p.yaml", "- a\n- b: [\n", ":3: not YAML"),
    ("p.yaml", "a: 1\na: 2\n", ":2: duplicate key a"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN)
def test_broken_file_error_names_place(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(PromptsError, match=message) as caught:
        load(tmp_path, name, content)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_large_file_problem_names_line(tmp_path: Path) -> None:
    rows: list[Any] = [{"prompt": f"p{number}", "expects": 1} for number in range(3000)]
    content = json.dumps([*rows, "good"], indent=0)
    problems = load(tmp_path, "p.json", content).problems
    assert problems[-1].startswith(f"{tmp_path}/p.json:{3000 * 4 - 2}: entry 3000")


def test_csv_may_contain_turns(tmp_path: Path) -> None:
    [prompt] = load(tmp_path, "p.csv", 'turns\n"[""one"", ""two""]"\n').entries
    assert prompt == Prompt(prompt.key, "one\ntwo", None, 1, ("one", "two"))
