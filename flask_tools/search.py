"""The search engine: results from a small built-in corpus, the same for a query at any time."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import query, text
from flask_tools.service import Service

MAX_QUERY_LENGTH = 300
MAX_RESULTS = 4
# a result with less than this share of the best one's score is left out
_RELEVANT = 0.5
_NOT_COUNTED = """
    a an and are as at be by can did do does find for from give how i in is it look me much my of on or please
    search tell that the there this to up was web were what when where which who whose with you
"""
_STOP_WORDS = frozenset(_NOT_COUNTED.split())


@dataclass(frozen=True)
class Entry:
    """One page of the corpus; ``words`` are further words that people search it by."""

    title: str
    snippet: str
    words: str = ""


def blueprint(_: Service) -> Blueprint:
    """``GET /serp?q=``."""
    routes = Blueprint("search", __name__)
    corpus = load_corpus()

    @routes.get("/serp")
    def serp() -> Response:
        asked = text(query(request, "q"), "q", MAX_QUERY_LENGTH)
        return jsonify(results_page(corpus, asked))

    return routes


def load_corpus() -> list[Entry]:
    """The pages that can be found."""
    rows = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
    return [Entry(**row) for row in rows]


def results_page(corpus: Sequence[Entry], asked: str) -> dict[str, Any]:
    """The answer to a query, with one to four results, best first."""
    found = best_matches(corpus, asked) or _nothing_known(asked)
    return {
        "search_metadata": {
            "id": hashlib.blake2b(asked.encode(), digest_size=8).hexdigest(),
            "status": "Success",
        },
        "search_parameters": {"engine": "windtunnel", "q": asked},
        "organic_results": [
            {
                "position": position,
                "title": entry.title,
                "link": f"https://example.org/{_slug(entry.title)}",
                "snippet": entry.snippet,
            }
            for position, entry in enumerate(found, start=1)
        ],
    }


def words_of(phrase: str) -> set[str]:
    """The words that count in a phrase, in lower case, plural endings cut off."""
    words = re.findall(r"\w+", phrase.casefold())
    return {_singular(word) for word in words if word not in _STOP_WORDS}


def best_matches(corpus: Sequence[Entry], asked: str) -> list[Entry]:
    """The entries that share words with the query, rare words counting more; ties in corpus order."""
    pages = [words_of(f"{entry.title} {entry.snippet} {entry.words}") for entry in corpus]
    frequency = Counter(word for words in pages for word in words)
    wanted = words_of(asked)
    scores = [
        math.fsum(math.log(1 + len(pages) / frequency[word]) for word in sorted(wanted & words))
        for words in pages
    ]
    threshold = max(scores, default=0) * _RELEVANT
    ranked = sorted(range(len(corpus)), key=lambda index: (-scores[index], index))
    return [corpus[i] for i in ranked if scores[i] > 0 and scores[i] >= threshold][:MAX_RESULTS]


def _nothing_known(asked: str) -> list[Entry]:
    return [
        Entry(f"{asked} - overview", f"A page about {asked}. It states no facts or figures."),
        Entry(f"{asked} - discussion", f"People talk about {asked}. No answer has been accepted."),
    ]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:80] or "page"
