"""The search service: results from a small built-in corpus, always the same for a query."""

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

from flask_tools.inputs import query, required_text
from flask_tools.store import Service

_MAX_QUERY_LENGTH = 300
_MAX_RESULTS = 4
_RELEVANT_SHARE = 0.5  # of the best score; pages that score less are omitted
_STOP_WORD_LIST = """
    a an and are as at be by can did do does find for from give how i in is it look me much my of on or please
    search tell that the there this to up was web were what when where which who whose with you
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())


@dataclass(frozen=True)
class CorpusPage:
    """One page of the corpus."""

    title: str
    snippet: str
    words: str = ""  # further search words


def blueprint(_: Service) -> Blueprint:
    """Return the route ``GET /serp?q=``."""
    routes = Blueprint("search", __name__)
    corpus = load_corpus()

    @routes.get("/serp")
    def serp() -> Response:
        return jsonify(_results_page(corpus, required_text(query(request, "q"), "q", _MAX_QUERY_LENGTH)))

    return routes


def load_corpus() -> list[CorpusPage]:
    """Load all pages."""
    rows = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
    return [CorpusPage(**row) for row in rows]


def _results_page(corpus: Sequence[CorpusPage], phrase: str) -> dict[str, Any]:
    """Build the reply to a query, with one to four results, best first."""
    pages = _best_matches(corpus, phrase) or _placeholder_pages(phrase)
    return {
        "search_metadata": {
            "id": hashlib.blake2b(phrase.encode(), digest_size=8).hexdigest(),
            "status": "Success",
        },
        "search_parameters": {"engine": "wirefault", "q": phrase},
        "organic_results": [
            {
                "position": position,
                "title": page.title,
                "link": f"https://example.org/{_slug(page.title)}",
                "snippet": page.snippet,
            }
            for position, page in enumerate(pages, start=1)
        ],
    }


def _words(phrase: str) -> set[str]:
    """Return the words of a phrase in lower case, without stop words and plural endings."""
    words = re.findall(r"\w+", phrase.casefold())
    return {_singular(word) for word in words if word not in _STOP_WORDS}


def _best_matches(corpus: Sequence[CorpusPage], phrase: str) -> list[CorpusPage]:
    """Return the pages that share words with the query, best first; equal scores keep the corpus order.

    A page scores ln(1 + pages / pages with the word) for each shared word: rare words count more.
    """
    page_words = [_words(f"{page.title} {page.snippet} {page.words}") for page in corpus]
    frequency = Counter(word for words in page_words for word in words)
    query_words = _words(phrase)
    scores = [
        math.fsum(math.log(1 + len(corpus) / frequency[word]) for word in sorted(query_words & words))
        for words in page_words
    ]
    threshold = max(scores, default=0) * _RELEVANT_SHARE
    ranked = sorted(range(len(corpus)), key=lambda index: (-scores[index], index))
    return [corpus[i] for i in ranked if scores[i] > 0 and scores[i] >= threshold][:_MAX_RESULTS]


def _placeholder_pages(phrase: str) -> list[CorpusPage]:
    return [
        CorpusPage(f"{phrase} - overview", f"A page about {phrase}. It states no facts or figures."),
        CorpusPage(f"{phrase} - discussion", f"People talk about {phrase}. No answer has been accepted."),
    ]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:80] or "page"
