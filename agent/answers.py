"""Checks of the tools' answers to reads: their form, and whether their values are possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class _Form(BaseModel):
    """A part of an answer that the task needs; further fields are allowed, numbers must be numbers."""

    model_config = ConfigDict(strict=True)


class _Measurements(_Form):
    temp: float
    humidity: float
    pressure: float


class _Weather(_Form):
    name: str
    units: str
    main: _Measurements


class _Movie(_Form):
    name: str
    year: int


class _Movies(_Form):
    results: list[_Movie]


class _Event(_Form):
    title: str
    date: str
    time: str


class _Events(_Form):
    events: list[_Event]


class _Result(_Form):
    title: str
    link: str
    snippet: str


class _Results(_Form):
    organic_results: list[_Result]


class _Calculation(_Form):
    expression: str
    result: float


class _Translation(_Form):
    translated_text: str
    target_language: str


_FORMS: Mapping[str, type[_Form]] = {
    "get_weather": _Weather,
    "search_movie": _Movies,
    "get_event": _Events,
    "search_web": _Results,
    "calculate_expr": _Calculation,
    "translate": _Translation,
}
# in celsius: the lowest and highest ever measured near the ground, rounded outwards (WMO)
_COLDEST, _HOTTEST = -90, 57
_ZERO_KELVIN = 273.15
_FIRST_FILM, _LAST_FILM = 1888, 2100


def form_problem(tool: str, answer: Mapping[str, Any]) -> str:
    """Return where the answer does not have the tool's form; empty if it has, or if the form is unknown."""
    form = _FORMS.get(tool)
    if form is None:
        return ""
    try:
        form.model_validate(answer)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def implausible(tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """Return which value cannot be right; empty if none is known to be wrong, or if the form is wrong."""
    check = _CHECKS.get(tool)
    return check(arguments, answer) if check and not form_problem(tool, answer) else ""


def _weather(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    main = answer["main"]
    celsius = main["temp"] - (_ZERO_KELVIN if answer["units"] == "standard" else 0)
    if answer["units"] != arguments.get("units", "metric"):
        return "units differ from the requested ones"
    if not _COLDEST <= celsius <= _HOTTEST:
        return "main.temp was never measured on Earth"
    if not 0 <= main["humidity"] <= 100:
        return "main.humidity is not a percentage"
    return "" if 850 <= main["pressure"] <= 1100 else "main.pressure was never measured on Earth"


def _movies(_: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    years = [movie["year"] for movie in answer["results"]]
    return "" if all(_FIRST_FILM <= year <= _LAST_FILM for year in years) else "year of no film"


def _events(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    days = {event["date"] for event in answer["events"]}
    return "" if days <= {arguments["date"]} else "events of another day"


def _calculation(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    return "" if answer["expression"] == arguments["expression"] else "the result of another expression"


def _translation(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    same = answer["target_language"] == arguments["target_language"]
    return "" if same else "a translation into another language"


_Check = Callable[[Mapping[str, Any], Mapping[str, Any]], str]
_CHECKS: Mapping[str, _Check] = {
    "get_weather": _weather,
    "search_movie": _movies,
    "get_event": _events,
    "calculate_expr": _calculation,
    "translate": _translation,
}
