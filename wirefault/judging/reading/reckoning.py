"""The numbers of a text that are only reckoned with: ``12 * 9 =``, ``15% of 240``, ``± 0.5``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wirefault.judging.reading.patterns import LazyPattern
from wirefault.judging.reading.quantities import Quantity

_UNCERTAINTY = LazyPattern(r"(?:±|\+/-|\+-|plus or minus|plus/minus|give or take)\s*$")
_OPERATOR = LazyPattern(
    r"^\s*\)?\s*(?:[×x*+/÷·^−-]|\*\*|times|plus|minus|divided by|multiplied by|mal|geteilt durch|fois",
    r"|por)\s*\(?\s*$",
)
_ROOT = LazyPattern(
    r"(?:√|\broot of|\bsqrt\s?\(?|\bwurzel (?:aus|von)|\bracine carrée de|\braíz cuadrada de",
    r"|\bradice quadrata di|\bsquare of|\\sqrt\{)\s*(?:the number\s)?\(?$",
)
_SQUARED = LazyPattern(r"^\s*(?:\^|squared|cubed|²|au carré|al cuadrado|zum quadrat)")
_PART_OF = LazyPattern(r"^\s*(?:\w{1,15}\s){0,2}(?:of|on|off|from|von|de|di|do)\s*$")
_EQUALS = LazyPattern(r"\s*=")


def operands(low: str, found: Sequence[Quantity]) -> set[int]:
    """Which of the quantities stand beside an operator, by their places in the list."""
    there = {at for at, quantity in enumerate(found) if _is_operand_alone(low, quantity)}
    for at, (left, right) in enumerate(pairwise(found)):
        gap = low[left.end : right.start]
        part = _PART_OF.match(gap) and any(r.unit and r.unit.dimension == "share" for r in left.readings)
        if part or (_OPERATOR.match(gap) and not _is_range(low, left, right)):
            there |= {at, at + 1}
    return there


def is_uncertainty(low: str, quantity: Quantity) -> bool:
    """Whether the quantity says how exact the one before it is."""
    return bool(_UNCERTAINTY.search(low[max(0, quantity.start - 20) : quantity.start]))


def is_squared(low: str, quantity: Quantity) -> bool:
    """Whether a power of the quantity is meant: ``42²``."""
    return bool(_SQUARED.match(low[quantity.end : quantity.end + 20]))


def _is_operand_alone(low: str, quantity: Quantity) -> bool:
    before = low[max(0, quantity.start - 40) : quantity.start]
    return bool(_ROOT.search(before)) or is_squared(low, quantity)


def _is_range(low: str, left: Quantity, right: Quantity) -> bool:
    """``8-10 °C`` is a range; ``10 - 2 =`` is reckoned with."""
    gap = low[left.end : right.start].strip()
    units = [reading.unit for reading in (*left.readings, *right.readings) if reading.unit]
    measured = any(unit.dimension != "share" for unit in units)
    return gap in ("-", "/") and (measured or not _EQUALS.match(low, right.end))
