import json
from pathlib import Path

import pytest

import flask_tools.movie
from flask_tools.inputs import LANGUAGES
from flask_tools.movie import read_movies

FILM = {"name": "A", "original_name": "A", "year": 2000, "language": "en"}
SHIPPED = Path(flask_tools.movie.__file__).with_name("movies.json")


def names(world, **params):
    return [m["name"] for m in world.ask("movie", "GET", "/movie", params=params).json()["results"]]


def test_two_hundred_titles_ship():
    movies = read_movies(SHIPPED)
    assert len(movies) == len({(m.name, m.year) for m in movies}) == 200
    assert all(m.language in LANGUAGES and 1920 < m.year < 2025 for m in movies)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("godfather part", "The Godfather Part II"),
        ("CHIHIRO", None),
        ("città", "Rome, Open City"),
        ("七人", "Seven Samurai"),
    ],
)
def test_both_titles_are_searched_ignoring_case(world, query, name):
    assert names(world, query=query) == ([name] if name else [])


def test_language_filters_by_code_or_name(world):
    assert names(world, query="the hunt") == ["The Night of the Hunter", "The Hunt"]
    assert names(world, query="the hunt", language="DA") == ["The Hunt"]
    assert names(world, query="parasite", language="Korean") == ["Parasite"]
    assert names(world, query="parasite", language="en") == []


def test_pages_partition_results(world):
    whole = world.ask("movie", "GET", "/movie?query=the&per_page=50").json()
    parts = [world.ask("movie", "GET", f"/movie?query=the&per_page=20&page={n}").json() for n in (1, 2, 3, 4)]
    assert {part["total"] for part in parts} == {whole["total"]}
    assert [movie for part in parts for movie in part["results"]][:50] == whole["results"]
    assert names(world, query="the", page="1000") == []


def test_movie_file_with_only_names_works(start, tmp_path):
    (tmp_path / "mine.json").write_text('[{"name": "A", "original_name": "B"}]')
    answer = start("movie", MOVIES_FILE=str(tmp_path / "mine.json")).ask("movie", "GET", "/movie?query=b")
    assert answer.json()["results"] == [{"name": "A", "original_name": "B"}]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", "null", "[1]", '[{"name": "A"}]', "\xff", json.dumps([FILM | {"year": True}])],
)
def test_broken_file_is_clear_503_and_service_runs(start, tmp_path, content):
    (tmp_path / "mine.json").write_text(content, encoding="latin-1")
    lab = start("movie", MOVIES_FILE=str(tmp_path / "mine.json"))
    assert lab.ask("movie", "GET", "/").status_code == 200
    answer = lab.ask("movie", "GET", "/movie?query=a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "movies_unavailable")
    assert "mine.json" in answer.json()["error"]["message"]


def test_absent_file_can_be_supplied_while_service_runs(start, tmp_path):
    lab = start("movie", MOVIES_FILE=str(tmp_path / "mine.json"))
    assert lab.ask("movie", "GET", "/movie?query=a").status_code == 503
    (tmp_path / "mine.json").write_text(json.dumps([FILM]))
    assert lab.ask("movie", "GET", "/movie?query=a").json()["results"] == [FILM]
