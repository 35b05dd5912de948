"""The scorer, on small cases of our own."""

import json

import pytest

from tests.model_server.score_blind import main, matches, score

TOOLS = [
    {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {
        "name": "send_message",
        "description": "Send a message.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "body": {"type": "string"}},
            "required": ["to", "body"],
        },
    },
]


def weather(city, temp=7):
    return {"name": "get_weather", "arguments": {"city": city}, "result": {"main": {"temp": temp}}}


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / f"toolset_{name}.json").write_text(json.dumps(TOOLS))
    return tmp_path


def scored(folder, *cases):
    filled = [{"id": str(i), "tools": "a", "answer_contains": [], **case} for i, case in enumerate(cases)]
    (folder / "prompts.json").write_text(json.dumps(filled))
    return score(folder)


def test_a_case_passes_with_the_expected_calls_and_answer(folder):
    found = scored(
        folder,
        {"prompt": "What's the weather in Paris?", "calls": [weather("Paris")], "answer_contains": ["7"]},
    )
    assert (found.total, found.passed, found.per_toolset) == (1, 1, {"toolset_a": (1, 1)})


def test_parallel_calls_match_in_any_order(folder):
    case = {"prompt": "What's the weather in Paris and Rome?", "calls": [weather("Rome"), weather("Paris")]}
    assert scored(folder, case).passed == 1


@pytest.mark.parametrize(
    "change",
    [
        {"calls": []},
        {"calls": [weather("Rome")]},
        {"calls": [weather("Paris"), weather("Paris")]},
        {"calls": [{**weather("Paris"), "name": "send_message"}]},
        {"calls": [weather("Paris")], "answer_contains": ["42"]},
    ],
)
def test_surplus_missing_and_wrong_calls_and_answers_fail(folder, change):
    found = scored(folder, {"prompt": "What's the weather in Paris?", **change})
    assert (found.passed, list(found.failures)) == (0, ["0"])


@pytest.mark.parametrize(
    ("value", "wanted", "result"),
    [
        (" Paris", "paris", True),
        (3, 3.0, True),
        ("3", 3, True),
        ("4", 3, False),
        ("b", {"any_of": ["a", "b"]}, True),
        ("It is 7 degrees", {"contains": ["7", "DEGREES"]}, True),
        ("It is 8 degrees", {"contains": ["7"]}, False),
        ("2026-03-12T10:00", {"date": "2026-03-12"}, True),
        ("15 / 100 * 240", {"evaluates_to": 36}, True),
        ("sqrt(144) + pi * 0", {"evaluates_to": 12}, True),
        ("__import__('os')", {"evaluates_to": 12}, False),
        (True, True, True),
        (["a"], ["A"], True),
    ],
)
def test_matchers(value, wanted, result):
    assert matches(value, wanted) is result


def test_the_command_prints_the_score(folder, capsys):
    scored(folder, {"prompt": "What's the weather in Paris?", "calls": [weather("Paris")]})
    assert main([str(folder)]) == 0
    assert "total: 1/1" in capsys.readouterr().out


def test_an_unreadable_folder_is_said(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "cannot score" in capsys.readouterr().err
