"""The expression language of hypotheses, tolerances and statements. Pure.

    success_rate >= 0.9
    no duplicate and p95 <= 5s
    degradation <= 5 %
    rate(completes) >= 0.9 and mean(seconds) <= 30

Python's parser reads the text; only comparisons, ``and``, ``or``, ``not``, arithmetic, numbers and names are
allowed, and Python evaluates nothing. A measure may be known only within bounds, and then the result may be
unknown; no library evaluates such values, hence the walk over the tree. The arithmetic is interval arithmetic
(R. E. Moore, "Interval Analysis", 1966). Numbers are read as exact decimals: 19 of 20 is 95 %.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, cast

from pydantic import BeforeValidator, Field, WithJsonSchema

Truth = bool | None
Number = float | Fraction


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest possible value of a figure."""

    low: Number
    high: Number

    def __neg__(self) -> Bounds:
        return Bounds(-self.high, -self.low)

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return self + -other

    def __mul__(self, other: Bounds) -> Bounds:
        return _spanned(_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high))

    def __truediv__(self, other: Bounds) -> Bounds:
        """Unbounded if the divisor may be 0."""
        if other.low <= 0 <= other.high:
            return Bounds(-math.inf, math.inf)
        return _spanned(a / b for a in (self.low, self.high) for b in (other.low, other.high))


def exactly(value: Number) -> Bounds:
    """Bounds of a known figure."""
    return Bounds(value, value)


def _product(a: Number, b: Number) -> Number:
    return 0 if 0 in (a, b) else a * b  # covers 0 times infinity


def _spanned(values: Iterable[Number]) -> Bounds:
    match = list(values)
    return Bounds(min(match), max(match))


def _at_most(left: Bounds, right: Bounds) -> Truth:
    if left.high <= right.low:
        return True
    return False if left.low > right.high else None


def _equal(left: Bounds, right: Bounds) -> Truth:
    if left.low == left.high == right.low == right.high:
        return True
    return False if left.high < right.low or right.high < left.low else None


def opposite(truth: Truth) -> Truth:
    """Negation; unknown stays unknown."""
    return None if truth is None else not truth


def every(truths: Iterable[Truth]) -> Truth:
    """False if any is False, else unknown if any is unknown."""
    value = list(truths)
    if False in value:
        return False
    return None if None in value else True


def some(truths: Iterable[Truth]) -> Truth:
    """True if any is True, else unknown if any is unknown."""
    return opposite(every(map(opposite, truths)))


COMPARISONS: dict[str, Callable[[Bounds, Bounds], Truth]] = {
    "<=": _at_most,
    ">=": lambda left, right: _at_most(right, left),
    "<": lambda left, right: opposite(_at_most(right, left)),
    ">": lambda left, right: opposite(_at_most(left, right)),
    "==": _equal,
    "!=": lambda left, right: opposite(_equal(left, right)),
}


_UNITS = {unit: Decimal(size) for unit, size in (("ms", "0.001"), ("s", "1"), ("min", "60"), ("h", "3600"))}
_UNITS["%"] = Decimal("0.01")
_QUANTITY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(ms|s|min|h|%)(?!\w)")
_LONE_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|%)?")
_NONE_OF = re.compile(r"(?<!\w)no\s+([a-z_]\w*)")
# measures whose names Python cannot read: pass^3, pass@2
_PASS = re.compile(r"(?<![\w.])((?:control_)?pass)\s*([\^@])\s*(\d+)(?![\w.])")
# of an arm: the share of the episodes that pass a check; the mean and the sum of an episode's figure
_FORM = re.compile(r"(?<![\w.])(rate|mean|sum)\s*\(")
RATE = "rate("
_PARENTHESIS = re.compile(r"[()]")
_PARENTHESIS_OR_AND = re.compile(r"[()]|\band\b")
_FLIPPED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
_MAX_LENGTH = 500
_MAX_NUMBER = 1e15
_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.LtE: "<=",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Bounds, Bounds], Bounds]] = {
    ast.Add: Bounds.__add__,
    ast.Sub: Bounds.__sub__,
    ast.Mult: Bounds.__mul__,
    ast.Div: Bounds.__truediv__,
}


class ExpressionError(ValueError):
    """The text is not a valid statement; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """A measure compared with a number."""

    measure: str
    sign: str
    threshold: Fraction


@dataclass(frozen=True)
class Expression:
    """A parsed statement; ``names`` are its measures in their order."""

    text: str
    names: tuple[str, ...]
    _tree: ast.expr
    forms: tuple[tuple[str, str], ...] = ()
    """``mean`` or ``sum``, with the figure of an episode that it is of."""

    @property
    def comparison(self) -> Comparison | None:
        """The measure, the sign and the number, if it compares one measure with one number."""
        is_one = isinstance(self._tree, ast.Compare) and len(self._tree.ops) == 1
        return next(self.limits, None) if is_one else None

    @property
    def limits(self) -> Iterator[Comparison]:
        """Each comparison in it of a measure with a number."""
        for node in (each for each in ast.walk(self._tree) if isinstance(each, ast.Compare)):
            for operator, (left, right) in zip(
                node.ops, pairwise((node.left, *node.comparators)), strict=True
            ):
                sign = _SIGNS[type(operator)]
                if isinstance(right, ast.Name):
                    left, right, sign = right, left, _FLIPPED.get(sign, sign)
                number = _number(right)
                if isinstance(left, ast.Name) and number is not None:
                    yield Comparison(left.id, sign, number)

    @property
    def equalities(self) -> frozenset[str]:
        """The measures that are compared by ``==`` or ``!=``."""
        return frozenset(
            name.id
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Compare)
            and any(isinstance(sign, ast.Eq | ast.NotEq) for sign in node.ops)
            for name in ast.walk(node)
            if isinstance(name, ast.Name)
        )

    def conjuncts(self) -> list[str]:
        """The statements that `and` joins, as they are written; the whole text without any."""
        if not (isinstance(self._tree, ast.BoolOp) and isinstance(self._tree.op, ast.And)):
            return [self.text]
        parts, depth, start = [], 0, 0
        for match in _PARENTHESIS_OR_AND.finditer(self.text):
            depth += {"(": 1, ")": -1}.get(match[0], 0)
            if match[0] == "and" and not depth:
                parts.append(self.text[start : match.start()].strip())
                start = match.end()
        return [*parts, self.text[start:].strip()]

    def holds(self, measured: Mapping[str, Bounds]) -> Truth:
        """Whether it is certainly true of these measures; None if their bounds leave it open.

        Raises ``KeyError`` for a missing measure.
        """
        return _truth(self._tree, measured)


def parse_expression(text: str) -> Expression:
    """Parse a statement. Raises ``ExpressionError``."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"longer than {_MAX_LENGTH} characters")
    passes: dict[str, str] = {}  # by the name that Python reads
    forms: list[tuple[str, str]] = []

    def readable(match: re.Match[str]) -> str:
        name = f"{match[1]}_{'all' if match[2] == '^' else 'any'}_{match[3]}"
        passes[name] = f"{match[1]}{match[2]}{match[3]}"
        return name

    plain = _PASS.sub(readable, _without_forms(text, passes, forms))
    plain = _QUANTITY.sub(lambda match: format(_decimal(match[1], match[2]), "f"), plain)
    plain = _NONE_OF.sub(r"(\1 == 0)", plain)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = passes.get(node.id, node.id)
        _check_statement(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError("cannot be read; write it like: success_rate >= 0.9 and no duplicate") from None
    names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Expression(text.strip(), tuple(names), tree, tuple(forms))


def _without_forms(text: str, names: dict[str, str], forms: list[tuple[str, str]]) -> str:
    """Replace ``rate(CHECK)``, ``mean(NAME)`` and ``sum(NAME)`` by names that Python reads.

    Raises ``ExpressionError`` without the closing parenthesis.
    """
    plain, end = "", 0
    for match in _FORM.finditer(text):
        if match.start() < end:
            continue  # within another
        close = _closing(text, match.end())
        form, inner, name = match[1], text[match.end() : close].strip(), f"form_{len(names)}"
        if form == "rate":
            names[name] = "success_rate" if inner == "success" else f"{RATE}{inner})"
        else:
            names[name] = inner
            forms.append((form, inner))
        plain, end = f"{plain}{text[end : match.start()]}{name}", close + 1
    return plain + text[end:]


def _closing(text: str, start: int) -> int:
    depth = 1
    for match in _PARENTHESIS.finditer(text, start):
        depth += {"(": 1, ")": -1}[match[0]]
        if not depth:
            return match.start()
    raise ExpressionError("a closing parenthesis is missing")


def quantity_of(text: str, *units: str) -> float:
    """Parse a number with an optional unit: ``200 ms`` is 0.2. Raises ``ExpressionError``."""
    match = _LONE_QUANTITY.fullmatch(text.strip())
    if match is None or (match[2] and match[2] not in units):
        raise ExpressionError(f"must be a number, or one with a unit ({', '.join(units)}), not {text!r:.40}")
    return float(_decimal(match[1], match[2]))


def _decimal(digits: str, unit: str | None) -> Decimal:
    _checked(float(digits))
    number = Decimal(digits) * (_UNITS[unit] if unit else 1)
    _checked(float(number))
    return number


def _checked(number: float) -> float:
    if abs(number) > _MAX_NUMBER:
        raise ExpressionError(f"a number must be at most {_MAX_NUMBER:g}")
    return number


def _check_statement(node: ast.expr) -> None:
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            _check_statement(part)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check_statement(node.operand)
    elif isinstance(node, ast.Compare) and all(type(sign) in _SIGNS for sign in node.ops):
        for part in (node.left, *node.comparators):
            _check_figure(part)
    else:
        raise ExpressionError(f"{ast.unparse(node)!r} has no comparison; write it like: success_rate >= 0.9")


def _check_figure(node: ast.expr) -> None:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        _check_figure(node.left)
        _check_figure(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check_figure(node.operand)
    elif _is_number(node):
        _checked(cast(float, cast(ast.Constant, node).value))
    elif not isinstance(node, ast.Name):
        raise ExpressionError(f"{ast.unparse(node)!r} is neither a measure nor a number")


def _number(node: ast.expr) -> Fraction | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    return Fraction(_as_decimal(cast(float, cast(ast.Constant, node).value))) if _is_number(node) else None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _truth(node: ast.expr, measured: Mapping[str, Bounds]) -> Truth:
    if isinstance(node, ast.BoolOp):
        decide = every if isinstance(node.op, ast.And) else some
        return decide(_truth(part, measured) for part in node.values)
    if isinstance(node, ast.UnaryOp):
        return opposite(_truth(node.operand, measured))
    comparison = cast(ast.Compare, node)
    figures = [_figure(part, measured) for part in (comparison.left, *comparison.comparators)]
    pairs = zip(comparison.ops, figures, figures[1:], strict=False)
    return every(COMPARISONS[_SIGNS[type(sign)]](left, right) for sign, left, right in pairs)


def _figure(node: ast.expr, measured: Mapping[str, Bounds]) -> Bounds:
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_figure(node.left, measured), _figure(node.right, measured))
    if isinstance(node, ast.UnaryOp):
        return -_figure(node.operand, measured)
    if isinstance(node, ast.Name):
        return Bounds(_as_decimal(measured[node.id].low), _as_decimal(measured[node.id].high))
    return exactly(_as_decimal(cast(float, cast(ast.Constant, node).value)))


def _as_decimal(number: Number) -> Number:
    """The number with the decimals that people read in it: 0.1 is a tenth."""
    if isinstance(number, float):
        return Fraction(repr(number)) if math.isfinite(number) else number
    return Fraction(number)


def _seconds(value: object) -> object:
    return quantity_of(value, "ms", "s", "min", "h") if isinstance(value, str) else value


def _share_of_all(value: object) -> object:
    return quantity_of(value, "%") if isinstance(value, str) else value


_NUMBER_OR_TEXT = WithJsonSchema({"type": ["number", "string"]})
Duration = Annotated[float, BeforeValidator(_seconds), Field(ge=0), _NUMBER_OR_TEXT]
ShareOfEpisodes = Annotated[float, BeforeValidator(_share_of_all), Field(gt=0, le=1), _NUMBER_OR_TEXT]
Confidence = Annotated[float, BeforeValidator(_share_of_all), Field(ge=0.5, lt=1), _NUMBER_OR_TEXT]
