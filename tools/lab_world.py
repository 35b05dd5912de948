"""Make ``docs/lab-world.md``, the data of the lab's tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from flask_tools import calendar, message, movie, search, translator, weather

_TOOLS = Path(weather.__file__).parent


def world_lines() -> Iterator[str]:
    """Yield the lines of the page below its introduction."""
    yield from _section(
        "Cities",
        "The weather of a city never changes. A country may follow the name (`Paris, FR`). Any other city is"
        " 404 `city_not_found`.",
    )
    yield from _table(
        ("city", "also", "°C", "feels like", "sky", "wind, m/s", "from, °", "hPa", "humidity, %"), _cities()
    )
    yield from _section(
        "Calendar", "Each episode begins with these events. They do not count as side effects."
    )
    events = sorted((day, time, title) for title, day, time in calendar.FIXTURES)
    yield from _table(("date", "time", "event"), events)
    yield from _section(
        "Contacts and inbox",
        "A message can go to any name. These people have written, and answer a message to them; a message to"
        " `me`, `myself` or `self` arrives in the inbox.",
    )
    yield from _table(
        ("from", "at", "message"), ((str(m["from"]), str(m["at"]), str(m["body"])) for m in message.INBOX)
    )
    pages = search.load_corpus()
    yield from _section(
        "Search", f"The search knows {len(pages)} pages; other queries get placeholder pages."
    )
    yield from _table(("page", "text"), ((page.title, page.snippet) for page in pages))
    movies = movie.read_movies(_TOOLS / "movies.json")
    yield from _section(
        "Movies", f"{len(movies)} movies, in `flask_tools/movies.json`; `MOVIES_FILE` names another file."
    )
    yield from _section(
        "Translator",
        "The offline phrasebook (`flask_tools/phrasebook.json`) has short phrases in English, French, German,"
        " Spanish and Italian, such as"
        f" {_phrases()}.",
    )


def _phrases() -> str:
    rows = json.loads(Path(translator.__file__).with_name("phrasebook.json").read_text(encoding="utf-8"))
    return ", ".join(f"“{row['en']}”" for row in rows[:5]) + f" ({len(rows)} in all)"


def _cities() -> Iterator[Sequence[str]]:
    cities = dict.fromkeys(weather.load_cities().values())
    for city in sorted(cities, key=lambda each: each.name):
        seen = weather.observation(city, "metric")
        main, wind = seen["main"], seen["wind"]
        figures = (main["temp"], main["feels_like"], seen["weather"][0]["description"], wind["speed"])
        others = (wind["deg"], main["pressure"], main["humidity"])
        yield (f"{city.name}, {city.country_name}", ", ".join(city.aliases), *map(str, (*figures, *others)))


def _section(title: str, text: str) -> Iterator[str]:
    yield from ("", f"## {title}", "", text)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from ("", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|")
    yield from (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
