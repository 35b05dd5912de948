"""A number that was asked for, and how a quantity answers it: by its unit and by its value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wirefault.judging.reading.affirmed import clause_of, sentence_around
from wirefault.judging.reading.patterns import LazyPattern
from wirefault.judging.reading.quantities import Quantity, Reading
from wirefault.judging.reading.text import close
from wirefault.judging.reading.units import Unit, converted, scale_between, units_of

# dimensions that a number asked for without a unit may have: it counts, or is a share or a price
_PLAIN = frozenset({"share", "duration", "data", "angle", "dimensionless"})
_TOPICS: tuple[tuple[LazyPattern, str], ...] = (
    (LazyPattern(r"\b(?:temp\w*|wärme|température|temperatura)\b"), "temperature"),
    (
        LazyPattern(
            r"\b(?:humid\w*|luftfeuchtigkeit|humidité|humedad|umidità|umidade|percent\w*|cloud(?:s| cover))\b"
        ),
        "share",
    ),
    (LazyPattern(r"\b(?:wind\w*|gusts?|speed|vent|viento|vento)\b"), "speed"),
    (LazyPattern(r"\b(?:pressure|druck|pression|presión|pressione)\b"), "pressure"),
    (LazyPattern(r"\b(?:distance|height|altitude|elevation|visibility|entfernung|höhe)\b"), "length"),
    (
        LazyPattern(r"\b(?:uv index|index|rating|score|votes|population|latitude|longitude|lat|lon|id)\b"),
        "other",
    ),
)


@dataclass(frozen=True)
class AskedNumber:
    """One number that was asked for. ``units`` are those its unit may stand for; none if it has none."""

    value: int | float
    units: tuple[Unit, ...]
    tolerance: float | None

    @property
    def year_like(self) -> bool:
        return not self.units and isinstance(self.value, int) and 1000 <= self.value < 3000

    @property
    def measured(self) -> bool:
        """Whether it looks like a measurement whose unit nobody wrote down."""
        return self.tolerance is not None or not float(self.value).is_integer()


Fit = Literal["explicit", "bare", "doubtful", "none"]
Hit = Literal["right", "nearly", "wrong"]


def asked_number(value: int | float, unit: str | None, tolerance: float | None) -> AskedNumber:
    """The question as it is read from the oracle."""
    return AskedNumber(value, units_of(unit) if unit else (), tolerance)


def fit_of_unit(asked: AskedNumber, unit: Unit | None) -> Fit:
    """Whether a unit fits: by name, as none at all, perhaps (a name that is not known), or not."""
    if unit is None:
        return "bare"
    if asked.units:
        if unit.dimension == "unknown":
            return "doubtful"
        return "explicit" if any(unit.dimension == own.dimension for own in asked.units) else "none"
    if unit.dimension in _PLAIN or unit.dimension.startswith("currency") or unit.dimension == "unknown":
        return "bare"
    if asked.measured:
        return "bare"
    return "none" if unit.dimension == "temperature" else "doubtful"


def hit_of_value(asked: AskedNumber, reading: Reading) -> Hit:
    """Whether a value is within the tolerance, or would be but for its rounding (``nearly``)."""
    value, unit = reading.value, reading.unit
    own = next((each for each in asked.units if unit and each.dimension == unit.dimension), None)
    step = reading.step
    if unit is not None and own is not None and unit != own and own.converts and unit.converts:
        value, step = converted(value, unit, own), step * scale_between(unit, own)
        # a value of another unit was rounded when it was converted, which a tolerance allows for by itself
        if asked.tolerance is None and abs(value - asked.value) <= step / 2 * (1 + 1e-9):
            return "right"
    if close(value, asked.value, asked.tolerance):
        return "right"
    return "nearly" if abs(value - asked.value) <= step / 2 * (1 + 1e-9) else "wrong"


def is_of_other_topic(asked: Sequence[AskedNumber], low: str, quantity: Quantity) -> bool:
    """Whether a bare number is said to be of another kind: ``humidity 71`` is no temperature."""
    sentence = sentence_around(low, quantity.start, quantity.end)
    before = clause_of(*sentence)[0]
    if not before.strip(" :\"'|"):
        before = sentence[0]
    last = ("", -1)
    for pattern, dimension in _TOPICS:
        for match in pattern.finditer(before):
            last = max(last, (dimension, match.start()), key=lambda topic: topic[1])
    own = {unit.dimension for each in asked for unit in each.units}
    return last[1] >= 0 and last[0] not in own
