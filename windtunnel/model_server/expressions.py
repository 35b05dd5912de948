"""Arithmetic in English: ``15% of 240`` becomes ``15 / 100 * 240``. Nothing is computed here.

A small recursive-descent parser over the words of a text, tried at each of them; the longest reading wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from windtunnel.model_server.arithmetic_words import KINDS, LISTS, PREFIXES, TOKEN, Token
from windtunnel.model_server.numbers import parse_number, plain


@dataclass(frozen=True)
class Expression:
    """A stretch of text and its arithmetic; ``{0}``, ``{1}`` ... stand for earlier results."""

    start: int
    end: int
    formula: str
    references: int = 0


class _No(Exception):
    """This reading does not work."""


@dataclass
class _Reader:
    tokens: list[Token]
    position: int
    operations: int = 0
    references: list[str] = field(default_factory=list)
    follow_on: bool = False

    def peek(self) -> str:
        return self.tokens[self.position].kind if self.position < len(self.tokens) else ""

    def take(self) -> Token:
        if self.position >= len(self.tokens):
            raise _No
        self.position += 1
        return self.tokens[self.position - 1]

    def attempt(self, read: Callable[[], str]) -> str | None:
        """What ``read`` gives, or None with everything as it was."""
        saved = self.position, self.operations, len(self.references)
        try:
            return read()
        except _No:
            self.position, self.operations = saved[:2]
            del self.references[saved[2] :]
            return None

    def sum(self) -> str:
        left = self.term()
        while self.peek() in ("+", "-", "MORE", "FEWER"):
            operator = self.peek()
            right = self.attempt(lambda: (self.take(), self.term())[1])
            if right is None:
                break
            self.operations += 1
            share = {"MORE": "{} * (1 + {})", "FEWER": "{} * (1 - {})"}.get(operator)
            if share is None and right.endswith("/ 100") and re.fullmatch(r"[\d.]+ / 100", right):
                share = "{} * (1 " + operator + " {})"
            left = share.format(_wrap(left), right) if share else f"{left} {operator} {right}"
        return left

    def term(self) -> str:
        left = self.power()
        while self.peek() in ("*", "/", "%", "OF", "FILLER"):
            operator = self.peek()
            if operator in ("OF", "FILLER") and not left.endswith("/ 100"):
                break
            right = self.attempt(self.factor)
            if right is None:
                break
            self.operations += 1
            left = f"{left} {'*' if operator in ('OF', 'FILLER') else operator} {right}"
        return left

    def factor(self) -> str:
        """What follows an operator; a percentage may have words before its "of" (20% tip on 54)."""
        self.fillers()
        if self.take().kind not in ("*", "/", "%", "OF"):
            raise _No
        self.fillers()
        return self.power()

    def fillers(self) -> None:
        while self.peek() == "FILLER":
            self.take()

    def power(self) -> str:
        base = self.unary()
        if self.peek() == "**":
            exponent = self.attempt(lambda: (self.take(), self.power())[1])
            if exponent is not None:
                self.operations += 1
                if self.peek() == "POWER":
                    self.take()
                return f"{base} ** {exponent}"
        return base

    def unary(self) -> str:
        if self.peek() == "-":
            self.take()
            return "-" + self.postfix()
        return self.postfix()

    def postfix(self) -> str:
        value = self.atom()
        while True:
            kind = self.peek()
            pattern = {"SQUARED": "{} ** 2", "CUBED": "{} ** 3", "FACTORIAL": "factorial({})"}.get(kind)
            if pattern:
                value = pattern.format(value)
                self.operations += 1
            elif kind == "PERCENT":
                value = f"{value} / 100"
            elif kind == "OFF":
                whole = self.attempt(self.whole)
                if whole is None:
                    return value
                self.operations += 1
                return f"{whole} * (1 - {value} / 100)"
            elif kind != "DEGREES":
                return value
            self.take()

    def atom(self) -> str:
        token = self.take()
        if token.kind == "NUMBER":
            return plain(parse_number(token.text.lstrip("$€£")))
        if token.kind == "CONST":
            return "tau" if token.text.lower() == "tau" else "pi"
        if token.kind == "REF":
            self.references.append(token.text)
            return "{" + str(len(self.references) - 1) + "}"
        if token.kind == "(":
            return f"({self.closed()})"
        if token.kind == "CALL":
            return self.call(token)
        if token.kind.startswith("PREFIX"):
            return self.prefixed(PREFIXES[int(token.kind[6:])][1])
        if token.kind.startswith("LIST"):
            return self.listed(LISTS[int(token.kind[4:])][1])
        raise _No

    def closed(self) -> str:
        inside = self.sum()
        while self.peek() == "AND" and self.tokens[self.position].text == ",":
            self.take()
            inside += ", " + self.sum()
        if self.take().kind != ")":
            raise _No
        return inside

    def call(self, token: Token) -> str:
        self.take()
        self.operations += 1
        name = token.text.lower().removeprefix("math.")
        return f"{'log' if name == 'ln' else name}({self.closed()})"

    def prefixed(self, pattern: str) -> str:
        self.fillers()
        inner = self.postfix()
        self.operations += 1
        if pattern[:3] in ("sin", "cos", "tan") and self.tokens[self.position - 1].kind == "DEGREES":
            inner = f"radians({inner})"
        return (
            pattern.format(inner)
            if not re.fullmatch(r"[\d.]+", inner)
            else pattern.format(inner).replace(f"({inner}) ", f"{inner} ")
        )

    def listed(self, joint: str) -> str:
        parts = [self.operand()]
        while self.peek() in ("AND", "BY", "FROM", "+"):
            part = self.attempt(self.next_operand)
            if part is None:
                break
            parts.append(part)
        referred = parts[0].startswith("{") and len(parts) == 1
        if referred and self.references[-1].lower() in ("both", "them", "the two", "these", "those"):
            self.references.append(self.references[-1])
            parts.append("{" + str(len(self.references) - 1) + "}")
        if len(parts) < 2:
            if not (self.follow_on and joint in (" + ", " * ", " / ", "FROM", "MORE", "FEWER")):
                raise _No
            self.references.append("it")
            parts = [*parts, "{0}"] if joint == "FROM" else ["{0}", *parts]
        self.operations += len(parts) - 1
        if joint in ("MORE", "FEWER"):
            share = "+" if joint == "MORE" else "-"
            return (
                f"{parts[0]} * (1 {share} {parts[1]})"
                if "/ 100" in parts[1]
                else f"{parts[0]} {share} {parts[1]}"
            )
        if joint in (" + ", "FROM") and len(parts) == 2 and re.fullmatch(r"[\d.]+ / 100", parts[0]):
            return f"{_wrap(parts[1])} * (1 {'+' if joint == ' + ' else '-'} {parts[0]})"
        if joint == "FROM":
            return " - ".join(reversed(parts))
        if joint == "MEAN":
            return f"({' + '.join(parts)}) / {len(parts)}"
        return f"gcd({', '.join(parts)})" if joint == "gcd" else f"({joint.join(parts)})"

    def next_operand(self) -> str:
        while self.peek() in ("AND", "BY", "FROM", "+"):
            self.take()
        return self.operand()

    def whole(self) -> str:
        """What "20% off" is taken from."""
        self.take()
        self.fillers()
        return self.power()

    def operand(self) -> str:
        self.fillers()
        return self.term()


def _wrap(value: str) -> str:
    return value if re.fullmatch(r"[\w.{}]+", value) else f"({value})"


@lru_cache(maxsize=2048)
def find_expressions(text: str, follow_on: bool = False) -> tuple[Expression, ...]:
    """The stretches of the text that are arithmetic with at least one operation, in order.

    With ``follow_on``, "add 10" alone is arithmetic on an earlier result.
    """
    tokens = [
        Token(KINDS[int((m.lastgroup or "T0")[1:])], m.group(), m.start(), m.end())
        for m in TOKEN.finditer(text)
    ]
    found: list[Expression] = []
    position = 0
    while position < len(tokens):
        best = _read(text, tokens, position, follow_on)
        if best is None:
            position += 1
            continue
        expression, position = best
        found.append(expression)
    return tuple(found)


def _read(text: str, tokens: list[Token], position: int, follow_on: bool) -> tuple[Expression, int] | None:
    if tokens[position].kind in ("AND", "OF", "BY", "FROM", "FILLER", "DEGREES"):
        return None
    adjacent = _adjacent(text, tokens, position)
    reader = _Reader(adjacent, 0, follow_on=follow_on)
    try:
        formula = reader.sum()
    except (_No, RecursionError):
        return None
    if not reader.operations:
        return None
    start, end = adjacent[0].start, adjacent[reader.position - 1].end
    if re.fullmatch(r"\([^()]*\)", formula):
        formula = formula[1:-1]
    return Expression(start, end, formula, len(reader.references)), position + reader.position


def _adjacent(text: str, tokens: list[Token], position: int) -> list[Token]:
    """The tokens from there on until other words stand between two of them."""
    last = position
    while last + 1 < len(tokens) and not text[tokens[last].end : tokens[last + 1].start].strip():
        last += 1
    return tokens[position : min(last + 1, position + 60)]
