"""Units of the values that a subject reports, and the conversion between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """One unit: ``value * factor + offset`` gives the value in its dimension's base unit."""

    dimension: str
    factor: float = 1.0
    offset: float = 0.0


# unit, its dimension's base, then every way to write it
_TABLE: tuple[tuple[Unit, str], ...] = (
    (Unit("temperature"), "k|kelvin|kelvins|degrees kelvin"),
    (Unit("temperature", 1.0, 273.15), "c|°c|℃|celsius|degree celsius|degrees celsius|deg c|centigrade"),
    (
        Unit("temperature", 5 / 9, 459.67 * 5 / 9),
        "f|°f|℉|fahrenheit|degree fahrenheit|degrees fahrenheit|deg f",
    ),
    (Unit("length", 0.001), "mm|millimetre|millimetres|millimeter|millimeters"),
    (Unit("length", 0.01), "cm|centimetre|centimetres|centimeter|centimeters"),
    (Unit("length"), "m|metre|metres|meter|meters"),
    (Unit("length", 1000.0), "km|kilometre|kilometres|kilometer|kilometers"),
    (Unit("time"), "s|sec|secs|second|seconds"),
    (Unit("time", 60.0), "min|mins|minute|minutes"),
    (Unit("time", 3600.0), "h|hr|hrs|hour|hours"),
    (Unit("speed"), "m/s|meter/sec|metres per second|meters per second"),
    (Unit("speed", 1 / 3.6), "km/h|kph|kmh|kilometres per hour|kilometers per hour"),
    (Unit("pressure"), "hpa|hectopascal|hectopascals|mbar"),
    (Unit("share"), "%|percent|per cent"),
    (Unit("euro"), "€|eur|euro|euros"),
    (Unit("dollar"), "$|usd|dollar|dollars"),
)
UNITS: dict[str, Unit] = {name: unit for unit, names in _TABLE for name in names.split("|")}


def normalised(unit: str | None) -> str:
    """Case folded, white space reduced; an absent unit is the empty text."""
    return " ".join((unit or "").casefold().split())


def compatible(reported: str | None, expected: str | None) -> bool:
    """Whether a value in the one unit can be held against a value in the other; absent fits any."""
    unit, other_unit = normalised(reported), normalised(expected)
    if not unit or not other_unit or unit == other_unit:
        return True
    return unit in UNITS and other_unit in UNITS and UNITS[unit].dimension == UNITS[other_unit].dimension


def convert(value: float, reported: str | None, expected: str | None) -> float:
    """The value in the expected unit; unchanged where either is absent or the two are not convertible."""
    source, target = UNITS.get(normalised(reported)), UNITS.get(normalised(expected))
    if source is None or target is None or source == target or source.dimension != target.dimension:
        return value
    return (value * source.factor + source.offset - target.offset) / target.factor


def siblings(unit: str | None) -> list[str]:
    """One name for each unit of the same dimension, that unit itself among them; none if it is unknown."""
    known = UNITS.get(normalised(unit))
    return [names.split("|")[0] for unit, names in _TABLE if known and unit.dimension == known.dimension]
