import pytest

from flask_tools.search import load_corpus


def serp(world, q):
    return world.ask("search", "GET", "/serp", params={"q": q}).json()


@pytest.mark.parametrize(
    ("q", "fact"),
    [
        ("How tall is the Eiffel Tower?", "330 metres"),
        ("height of mount everest", "8849 metres"),
        ("speed of light in metres per second", "299792458"),
        ("What is the capital of Australia?", "Canberra"),
        ("capital of Japan", "Tokyo"),
        ("Who created Python?", "Guido van Rossum"),
        ("programming language by Dennis Ritchie", "C is a"),
        ("who painted the mona lisa", "Leonardo"),
        ("distance from earth to moon", "384400"),
    ],
)
def test_first_result_answers_question(world, q, fact):
    assert fact in serp(world, q)["organic_results"][0]["snippet"]


@pytest.mark.parametrize("entry", load_corpus(), ids=lambda entry: entry.title)
def test_each_entry_is_found_first_by_its_title(world, entry):
    assert serp(world, entry.title)["organic_results"][0]["title"] == entry.title


@pytest.mark.parametrize("q", ["capital", "zxqj", "the of", "日本", "metres", "<script>"])
def test_search_has_one_to_four_ordered_results(world, q):
    page = serp(world, q)
    results = page["organic_results"]
    assert page["search_metadata"]["status"] == "Success" and page["search_parameters"]["q"] == q
    assert [result["position"] for result in results] == list(range(1, len(results) + 1))
    assert 1 <= len(results) <= 4
    assert all(set(result) == {"position", "title", "link", "snippet"} for result in results)
    assert all(result["link"].startswith("https://example.org/") for result in results)


def test_unknown_query_has_no_facts(world):
    assert all(
        "No" in r["snippet"] or "no facts" in r["snippet"] for r in serp(world, "zxqj")["organic_results"]
    )
