"""Prompts of promptfoo and of OpenAI's evals, with their assertions as oracles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.oracle.value import judge_answer
from wirefault.wiring.prompts import Prompts, PromptsError, load_prompts

CONFIGURATION = """\
description: Capitals
prompts:
  - 'What is the capital of {{country}}?'
  - file://more.txt
providers: [openai:gpt-5-mini]
defaultTest:
  vars: {style: short}
  assert:
    - {type: not-contains, value: AI language model}
tests:
  - description: France
    vars: {country: France}
    metadata: {topic: geo}
    assert:
      - {type: contains, value: Paris}
      - {type: llm-rubric, value: Is polite}
  - vars: {country: [Spain, Italy]}
    options: {transform: output.trim()}
"""


def load(folder: Path, name: str, content: object) -> Prompts:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return load_prompts(path, check_expect=parse_expect)


def test_promptfoo_prompts_run_with_every_test(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("{{country}}, {{ style }}\n---\nAbout {{country}}\n")
    loaded = load(tmp_path, "promptfooconfig.yaml", CONFIGURATION)
    assert loaded.problems == []
    assert [each.text for each in loaded.entries] == [
        "What is the capital of France?",
        "France, short",
        "About France",
        "What is the capital of Spain?",
        "What is the capital of Italy?",
        "Spain, short",
        "Italy, short",
        "About Spain",
        "About Italy",
    ]
    first, spain = loaded.entries[0], loaded.entries[3]
    forbidden = {"not_contains": "AI language model"}
    assert first.expect == {"answer": {"all_of": [forbidden, {"contains": "Paris"}]}}
    assert first.metadata == {"topic": "geo", "description": "France"}
    assert spain.expect == {"answer": forbidden}
    where = f"{tmp_path}/promptfooconfig.yaml"
    assert loaded.notes == [
        f"{where}:11: entry 1: assert 2 (llm-rubric) is not checked: this type has no counterpart here",
        f"{where}:17: entry 4: options.transform is not read",
    ]


PASSES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"type": "contains", "value": "Paris"}, ["It is Paris."], ["It is Rome.", "It isn't Paris."]),
    ({"type": "icontains", "value": "PARIS"}, ["It is Paris."], ["It is Rome."]),
    ({"type": "contains", "value": 42}, ["The result is 42."], ["The result is 43."]),
    ({"type": "contains-all", "value": ["tea", "milk"]}, ["I bought tea and milk."], ["I bought tea."]),
    ({"type": "contains-any", "value": ["tea", "milk"]}, ["I bought milk."], ["I bought eggs."]),
    ({"type": "not-contains", "value": "IT"}, ["I did it"], ["Ask IT"]),
    ({"type": "not-icontains", "value": "sorry?"}, ["Sorry"], ["SORRY? no"]),
    ({"type": "not-contains-any", "value": ["a.b", "c"]}, ["axb"], ["a.b", "c"]),
    ({"type": "not-contains-all", "value": ["x", "y"]}, ["x alone"], ["x and y"]),
    ({"type": "not-icontains-all", "value": ["x", "y"]}, ["X alone"], ["X and Y"]),
    ({"type": "regex", "value": r"\d{4}"}, ["in 2026"], ["in 26"]),
    ({"type": "not-regex", "value": r"\d{4}"}, ["in 26"], ["in 2026"]),
    ({"type": "equals", "value": "4 (four)"}, ["4 (four)\n"], ["It is 4 (four)", "4"]),
    ({"type": "not-equals", "value": "no"}, ["not yet"], ["no"]),
    ({"type": "starts-with", "value": "Yes, "}, ["Yes, it is"], ["Well, Yes, "]),
    ({"type": "assert-set", "assert": [{"type": "equals", "value": "a"}]}, ["a"], ["b"]),
    ({"type": "contains", "value": "{{word}}"}, ["It is green."], ["It is red."]),
]


@pytest.mark.parametrize(("assertion", "good", "bad"), PASSES)
def test_assertion_becomes_answer_rule(
    tmp_path: Path, assertion: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    test = {"vars": {"prompt": "Hi", "word": "green"}, "assert": [assertion]}
    loaded = load(tmp_path, "tests.json", [test])
    assert (loaded.problems, loaded.notes) == ([], [])
    expect = loaded.entries[0].expect
    assert expect is not None
    rule = parse_expect(expect).answer
    assert rule is not None
    assert {judge_answer(rule, answer).axis for answer in good} == {"right"}
    assert {judge_answer(rule, answer).axis for answer in bad} <= {"wrong", "none"}


UNREAD: list[tuple[Any, str]] = [
    (
        {"type": "llm-rubric", "value": "polite"},
        r"\(llm-rubric\) is not checked: this type has no counterpart",
    ),
    ({"type": "regex", "value": "(?=x)"}, r"\(regex\) is not checked: "),
    ({"type": "contains"}, "missing value"),
    ({"type": "contains", "value": {"a": 1}}, "must be a text or a number"),
    ({"type": "contains", "value": "x", "transform": "y"}, "transform has no counterpart here"),
    ({"type": "contains", "value": "x", "weight": 0}, "its weight is 0"),
    ({"type": "contains", "value": "{{wrod}}"}, "unknown variable 'wrod'; did you mean 'word'"),
    ({"type": "contains", "value": "{{word | upper}}"}, "only {{name}} is read"),
    ({"type": "contains", "value": ["a", "b"]}, "value must be one text"),
    ("contains", "must be an object with a type"),
]


@pytest.mark.parametrize(("assertion", "message"), UNREAD)
def test_unsupported_assertion_is_named_and_prompt_runs(tmp_path: Path, assertion: Any, message: str) -> None:
    test = {"vars": {"prompt": "Hi", "word": "green"}, "assert": [assertion]}
    loaded = load(tmp_path, "tests.jsonl", json.dumps(test))
    assert [(each.text, each.expect) for each in loaded.entries] == [("Hi", None)]
    [note] = loaded.notes
    assert note.startswith(f"{tmp_path}/tests.jsonl:1: entry 1: assert 1 (")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(note)


def test_promptfoo_csv_has_vars_and_expectations(tmp_path: Path) -> None:
    rows = (
        "question,__expected,__expected2,__description,__metadata:level,__threshold\n"
        'Capital of France?,"contains: Paris",,France,easy,\n'
        'Two drinks?,"contains-all: tea, milk",not-contains: beer,,,0.5\n'
        "Which is it?,blue: or green,,,,\n"
    )
    loaded = load(tmp_path, "tests.csv", rows)
    assert [(each.text, each.expect) for each in loaded.entries] == [
        ("Capital of France?", {"answer": {"contains": "Paris"}}),
        ("Two drinks?", {"answer": {"all_of": [{"contains": ["tea", "milk"]}, {"not_contains": "beer"}]}}),
        ("Which is it?", None),
    ]
    assert loaded.entries[0].metadata == {"description": "France", "level": "easy"}
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        "entry 2: __threshold is not read",
        "entry 3: assert 1 (blue) is not checked: this type has no counterpart here",
    ]


def test_tests_are_read_from_named_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,__expected\nAnn,contains: Ann\n")
    (tmp_path / "b.json").write_text('[{"vars": {"name": "Bob"}}]')
    (tmp_path / "c.yaml").write_text("- vars: {name: Cid}\n")
    tests = {"prompts": ["Hello {{name}}"], "tests": ["file://a.csv", "b.json", "file://*.yaml"]}
    assert [each.text for each in load(tmp_path, "p.json", tests).entries] == [
        "Hello Ann",
        "Hello Bob",
        "Hello Cid",
    ]


def test_chat_prompt_is_sent_as_turns(tmp_path: Path) -> None:
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "About {{topic}}?"},
        {"role": "user", "content": "And more?"},
    ]
    configuration = {"prompts": [json.dumps(chat)], "tests": [{"vars": {"topic": "tea"}}]}
    [prompt] = load(tmp_path, "p.json", configuration).entries
    assert prompt.turns == ("Be brief.\n\nAbout tea?", "And more?")


UNUSABLE: list[tuple[Any, str]] = [
    ({"vars": {"a": "x", "b": "y"}}, "which of the vars a, b is the prompt"),
    ({"vars": "file://vars.yaml"}, '"vars" must be an object'),
    ({"vars": {"prompt": "file://big.txt"}}, "files of variables are not read"),
    ({"vars": {"prompt": "x"}, "assert": {"type": "contains"}}, "assert must be a list"),
    ({"input": [], "ideal": "x"}, '"input" must be a text or a list of messages'),
    ({"instruction": "Sum up", "input": "x"}, 'has "instruction" and "input": which is the prompt?'),
    ({"input": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a message that is not text"),
    (
        {"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        "role 'assistant' that cannot be replayed",
    ),
]


@pytest.mark.parametrize(("entry", "message"), UNUSABLE)
def test_entry_that_cannot_run_is_skipped_with_reason(tmp_path: Path, entry: Any, message: str) -> None:
    loaded = load(tmp_path, "p.json", ["first", entry])
    assert [each.text for each in loaded.entries] == ["first"]
    [problem] = loaded.problems
    assert problem.startswith(f"{tmp_path}/p.json:1: entry 2 is skipped: ")
    assert message in problem


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"prompts": ["{{q}}"], "tests": "file://nowhere.csv"}, "nowhere.csv: cannot be read: No such file"),
    ({"prompts": ["{{q}}"], "tests": "file://tests.py"}, "tests.py: only .csv, .json, .jsonl and .yaml"),
    ({"prompts": ["{{q}}"], "tests": "https://example.com/x.csv"}, "only files are read"),
    ({"prompts": ["file://p.py"], "tests": []}, "only .txt, .md and .json files are read"),
    ({"prompts": [5], "tests": []}, "prompts must be texts or files, not 5"),
    ({"prompts": ["x"], "defaultTest": "file://d.yaml"}, "defaultTest must be an object"),
    ({"prompts": ["{{a}}{{b}}"], "tests": [{"vars": dict.fromkeys("ab", [1] * 200)}]}, "more than 10,000"),
]


@pytest.mark.parametrize(("configuration", "message"), BROKEN)
def test_unreadable_configuration_is_error(
    tmp_path: Path, configuration: dict[str, Any], message: str
) -> None:
    with pytest.raises(PromptsError) as caught:
        load(tmp_path, "p.json", configuration)
    assert message in str(caught.value)


def test_eval_samples_become_prompts_with_answers(tmp_path: Path) -> None:
    samples = [
        {"input": [{"role": "system", "content": "One word."}, {"role": "user", "content": "Capital?"}],
         "ideal": "Paris"},
        {"input": "2 + 2?", "ideal": ["4", "four"], "difficulty": 1},
        {"input": [{"role": "system", "name": "example_user", "content": "1 + 1?"}], "ideal": 2},
        {"input": "Write a poem."},
    ]  # fmt: skip
    loaded = load(tmp_path, "samples.jsonl", "\n".join(map(json.dumps, samples)))
    assert loaded.problems == []
    assert [(each.text, each.expect) for each in loaded.entries] == [
        ("One word.\n\nCapital?", {"answer": {"contains": "Paris"}}),
        ("2 + 2?", {"answer": {"any_of": ["4", "four"]}}),
        ("example_user: 1 + 1?", {"answer": {"contains": "2"}}),
        ("Write a poem.", None),
    ]
    assert loaded.entries[1].metadata == {"difficulty": 1}


IDEAL = "Paris is the capital of France since the tenth century."
SAMPLES: list[tuple[str, str, dict[str, Any] | None, list[str]]] = [
    (
        "list.json",
        '[{"input": "Capital?", "expected": "Paris", "kind": "geo"}, {"input": "25 * 4?", "expected": 100}]',
        {"contains": "Paris"},
        [
            ':1: prompt from "input", expected answer from "expected"; not shown to the agent: kind',
            ':1: prompt from "input", expected answer from "expected"',
        ],
    ),
    (
        "golden.jsonl",
        '{"question": "Capital?", "expected_tool_calls": ["search"], "reference": "Paris"}',
        {"contains": "Paris"},
        [
            ':1: prompt from "question", expected answer from "reference";'
            " not shown to the agent: expected_tool_calls"
        ],
    ),
    (
        "deepeval.json",
        '[{"input": "Capital?", "actual_output": null, "expected_output": "Paris", "context": []}]',
        {"contains": "Paris"},
        [':1: prompt from "input", expected answer from "expected_output"'],
    ),
    (
        "pydantic.yaml",
        "name: capitals\nevaluators: [IsInstance]\ncases:\n- inputs: Capital?\n  expected_output: Paris\n"
        "  evaluators: [EqualsExpected]\n",
        {"contains": "Paris"},
        [
            ":4: entry 1: the evaluators of the whole file are not read",
            ":4: entry 1: its evaluators are not read",
            ':4: prompt from "inputs", expected answer from "expected_output"',
        ],
    ),
    (
        "langsmith.json",
        '{"examples": [{"inputs": {"q": "Capital?"}, "outputs": {"a": "Paris"}, "metadata": {"a": 1}}]}',
        {"contains": "Paris"},
        [':1: prompt from "inputs", expected answer from "outputs"'],
    ),
    (
        "qa.csv",
        "Question,Answer\nCapital?,Paris\n",
        {"contains": "Paris"},
        [':2: prompt from "Question", expected answer from "Answer"'],
    ),
    (
        "io.csv",
        "input,output\nCapital?,Paris\n",
        {"contains": "Paris"},
        [':2: prompt from "input", expected answer from "output"'],
    ),
    (
        "sentence.csv",
        f"input,expected_output\nCapital?,{IDEAL}\n",
        None,
        [
            ":2: entry 1: expected_output is not checked: it has 10 words, and only answers of at most 6 are"
            ' compared word for word: say in "expect" what the answer must contain',
            ':2: prompt from "input"; not shown to the agent: expected_output',
        ],
    ),
]


@pytest.mark.parametrize(("name", "content", "answer", "notes"), SAMPLES)
def test_sample_is_read_with_line_about_its_columns(
    tmp_path: Path, name: str, content: str, answer: dict[str, Any] | None, notes: list[str]
) -> None:
    loaded = load(tmp_path, name, content)
    assert loaded.problems == []
    assert loaded.entries[0].text == "Capital?"
    assert loaded.entries[0].expect == (answer and {"answer": answer})
    assert loaded.notes == [f"{tmp_path / name}{note}" for note in notes]


def test_unexpanded_list_is_one_prompt(tmp_path: Path) -> None:
    test = {"vars": {"cities": ["Paris", "Rome"], "party": "two"}}
    configuration = {
        "defaultTest": {"options": {"disableVarExpansion": True, "provider": "x"}},
        "prompts": ["Go to {{cities}} for {{party}}."],
        "tests": [test, {**test, "options": {"disableVarExpansion": False}}],
    }
    loaded = load(tmp_path, "p.json", configuration)
    assert [each.text for each in loaded.entries] == [
        "Go to Paris,Rome for two.",
        "Go to Paris for two.",
        "Go to Rome for two.",
    ]
    assert [note.partition(": ")[2] for note in loaded.notes] == [
        "entry 1: defaultTest, options.provider is not read"
    ]
