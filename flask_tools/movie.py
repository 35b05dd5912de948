"""The movie service: a file of titles (``MOVIES_FILE``), searched by a part of the name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, request
from msgspec import Struct, to_builtins

from flask_tools.inputs import ToolError, language_code, query, required_text, whole_number
from flask_tools.store import Service

_MAX_QUERY_LENGTH = 200
_MAX_PAGE = 100_000
_MAX_PER_PAGE = 50
_SHIPPED = Path(__file__).with_name("movies.json")
_NAMES = ("name", "original_name")
_OPTIONAL = {"year": int, "language": str}


class Movie(Struct, frozen=True, omit_defaults=True):
    """One film in the file."""

    name: str
    original_name: str
    year: int | None = None
    language: str | None = None  # ISO 639-1 code of the original


def blueprint(service: Service) -> Blueprint:
    """Return the route ``GET /movie?query=&language=&page=&per_page=``.

    It reads the file at each request, so the service starts without it and sees a repaired file.
    """
    routes = Blueprint("movies", __name__)
    path = Path(service.environ.get("MOVIES_FILE") or _SHIPPED)

    @routes.get("/movie")
    def movie() -> Response:
        values = query(request, "query", "language", "page", "per_page")
        part = required_text(values, "query", _MAX_QUERY_LENGTH)
        language = None
        if "language" in values:
            language = language_code("language", required_text(values, "language", 40))
        page = whole_number(values, "page", 1, 1, _MAX_PAGE)
        per_page = whole_number(values, "per_page", 10, 1, _MAX_PER_PAGE)
        movies = _matching(read_movies(path), part, language)
        results = to_builtins(movies[(page - 1) * per_page : page * per_page])
        return jsonify({"page": page, "per_page": per_page, "total": len(movies), "results": results})

    return routes


def _matching(movies: Iterable[Movie], part: str, language: str | None) -> list[Movie]:
    """Return the films in that language with ``part`` in either name, ignoring case, in file order."""
    part = part.casefold()
    return [
        movie
        for movie in movies
        if (part in movie.name.casefold() or part in movie.original_name.casefold())
        and language in (None, movie.language)
    ]


def read_movies(path: Path) -> list[Movie]:
    """Read the films of a JSON file. Raises ``ToolError`` 503 with the problem and its place."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unusable(path, f"cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"is not JSON ({error})") from None
    if not isinstance(rows, list) or not rows:
        raise _unusable(path, "has no list of films")
    return [_movie(path, number, row) for number, row in enumerate(rows, start=1)]


def _movie(path: Path, number: int, row: Any) -> Movie:
    if not isinstance(row, dict):
        raise _unusable(path, f"must have an object as film {number}")
    optional = {name: row[name] for name in _OPTIONAL if row.get(name) is not None}
    for name in (*_NAMES, *optional):
        kind = _OPTIONAL.get(name, str)
        if not isinstance(row.get(name), kind) or isinstance(row[name], bool):
            raise _unusable(path, f"has no {name} ({kind.__name__}) in film {number}")
    return Movie(row["name"], row["original_name"], **optional)


def _unusable(path: Path, reason: str) -> ToolError:
    message = f"The file of films {path.name} {reason}. Repair it, or set MOVIES_FILE to another."
    return ToolError(503, "movies_unavailable", message)
