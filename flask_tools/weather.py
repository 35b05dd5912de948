"""The weather service, in OpenWeather's format. A city's weather never changes.

``cities.json`` has a city's mean temperature in March; a keyed hash of the city's name shifts it by up to
3 degrees and chooses sky, wind, pressure and humidity.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import ToolError, bad_value, query, required_text
from flask_tools.store import Service

_MAX_NAME_LENGTH = 100
_UNITS = ("standard", "metric", "imperial")
_KELVIN = 273.15
_MILES_PER_HOUR = 2.236936

# (id, main, description) as OpenWeather has them
_SKIES = (
    (800, "Clear", "clear sky"),
    (801, "Clouds", "few clouds"),
    (803, "Clouds", "broken clouds"),
    (804, "Clouds", "overcast clouds"),
    (500, "Rain", "light rain"),
    (701, "Mist", "mist"),
)


@dataclass(frozen=True)
class City:
    """One place."""

    name: str
    country: str
    country_name: str
    lat: float  # degrees north
    lon: float  # degrees east
    mean: float  # temperature in March, degrees Celsius
    aliases: tuple[str, ...] = ()


def blueprint(_: Service) -> Blueprint:
    """Return the route ``GET /weather?q=&units=``."""
    routes = Blueprint("weather", __name__)
    cities = load_cities()

    @routes.get("/weather")
    def weather() -> Response:
        values = query(request, "q", "units")
        units = values.get("units", "standard")
        if units not in _UNITS:
            raise bad_value(f"'units' must be one of {', '.join(_UNITS)}, not {units[:40]!a}.")
        return jsonify(observation(_find_city(cities, required_text(values, "q", _MAX_NAME_LENGTH)), units))

    return routes


def load_cities() -> dict[str, City]:
    """Load the cities by each normalised name."""
    rows = json.loads(Path(__file__).with_name("cities.json").read_text(encoding="utf-8"))
    cities = [City(**{**row, "aliases": tuple(row.get("aliases", ()))}) for row in rows]
    return {_normalised(name): city for city in cities for name in (city.name, *city.aliases)}


def _normalised(name: str) -> str:
    """Prepare a name for comparison: lower case, no accents, single spaces."""
    letters = unicodedata.normalize("NFKD", name.casefold())
    return " ".join("".join(c for c in letters if not unicodedata.combining(c)).split())


def _find_city(cities: dict[str, City], name: str) -> City:
    """Return the city for ``Paris``, ``paris, FR`` or ``Paris, France``. Raises ``ToolError`` 404."""
    place, _, country = name.partition(",")
    city = cities.get(_normalised(place))
    countries = {_normalised(city.country), _normalised(city.country_name)} if city else set()
    if city is None or (country.strip() and _normalised(country) not in countries):
        raise ToolError(404, "city_not_found", f"No weather station knows the city {name!r}.")
    return city


def observation(city: City, units: str) -> dict[str, Any]:
    """Return a city's weather in ``standard`` (kelvin, m/s), ``metric`` (Celsius, m/s) or ``imperial``."""
    # never change the key: the oracles of the shipped prompts depend on this weather
    draw = hashlib.blake2b(_normalised(city.name).encode(), key=b"windtunnel weather", digest_size=8).digest()
    celsius = round(city.mean + (draw[0] % 61 - 30) / 10, 1) + 0.0  # no minus zero
    speed = round(0.5 + (draw[1] % 90) / 10, 1)
    sky = _SKIES[draw[2] % len(_SKIES)]
    return {
        "coord": {"lon": city.lon, "lat": city.lat},
        "weather": [{"id": sky[0], "main": sky[1], "description": sky[2]}],
        "main": {
            "temp": _temperature(celsius, units),
            "feels_like": _temperature(round(celsius - speed / 4, 1), units),
            "pressure": 1000 + draw[3] % 31,
            "humidity": 40 + draw[4] % 51,
        },
        "wind": {
            "speed": round(speed * _MILES_PER_HOUR, 1) if units == "imperial" else speed,
            "deg": draw[5] % 36 * 10,
        },
        "sys": {"country": city.country},
        "name": city.name,
        "units": units,
    }


def _temperature(celsius: float, units: str) -> float:
    if units == "metric":
        return celsius
    # two decimals are exact: 273.15 plus a temperature with one decimal
    return round(celsius + _KELVIN, 2) if units == "standard" else round(celsius * 9 / 5 + 32, 1)
