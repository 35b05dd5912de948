"""The words and signs of arithmetic in English, as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windtunnel.model_server.numbers import FIGURE, NUMBER_WORDS

_FUNCTIONS = (
    "sqrt|cbrt|sin|cos|tan|asin|acos|atan|log10|log2|log|ln|exp|abs|factorial|ceil|floor"
    "|round|pow|gcd|lcm|radians|degrees|min|max|hypot"
)

_OPERATORS = (
    (r"\*\*|\^", "**"),
    (r"(?:raised )?to the power(?: of)?|raised to(?: the)?|to the(?= [\w-]+ power)", "**"),
    (r"\bpower\b", "POWER"),
    (r"//|\bmod(?:ulo|ulus)?\b", "%"),
    (r"\bmultiplied by\b|\btimes\b|[*×·]|(?<=\d )x(?= \d)|(?<=\d)x(?=\d)", "*"),
    (r"\bdivided by\b|\bover\b|[/÷]", "/"),
    (r"\bplus\b|\badded to\b|\bincreased by\b(?! *\S+ *(?:%|percent))|\+", "+"),
    (r"\bminus\b|\bless\b(?! than)|\bdecreased by\b(?! *\S+ *(?:%|percent))|[-−–]", "-"),
    (r"\bincreased by\b", "MORE"),
    (r"\bdecreased by\b|\breduced by\b", "FEWER"),
    (r"%\s*off\b|\bper ?cent off\b", "OFF"),
    (r"%|\bper ?cent(?:age)?\b", "PERCENT"),
    (r"\bsquared\b", "SQUARED"),
    (r"\bcubed\b", "CUBED"),
    (r"\bfactorial\b(?! *(?:of|\())|!", "FACTORIAL"),
)

PREFIXES = (
    (r"(?:the )?(?:square|2nd) root(?: of)?|√", "sqrt({})"),
    (r"(?:the )?(?:cube|cubic|3rd) root(?: of)?", "({}) ** (1 / 3)"),
    (r"(?:the )?(?:natural log(?:arithm)?|ln)(?: of)?", "log({})"),
    (
        r"(?:the )?(?:common log(?:arithm)?|log(?:arithm)? base 10|base[- ]10 log(?:arithm)?)(?: of)?",
        "log10({})",
    ),
    (
        r"(?:the )?(?:log(?:arithm)? base 2|base[- ]2 log(?:arithm)?|binary log(?:arithm)?)(?: of)?",
        "log2({})",
    ),
    (r"(?:the )?factorial of", "factorial({})"),
    (r"(?:the )?(?:absolute value|modulus) of", "abs({})"),
    (r"(?:the )?(?:square) of", "({}) ** 2"),
    (r"(?:the )?cube of", "({}) ** 3"),
    (r"(?:a |one )?half(?: of)?", "({}) / 2"),
    (r"(?:a |one )?third of", "({}) / 3"),
    (r"(?:a |one )?(?:quarter|fourth)(?: of)", "({}) / 4"),
    (r"two[- ]thirds of", "({}) * 2 / 3"),
    (r"three[- ]quarters of", "({}) * 3 / 4"),
    (r"(?:a |one )?tenth of", "({}) / 10"),
    (r"(?:double|twice)(?: of)?", "2 * ({})"),
    (r"(?:triple|thrice)(?: of)?", "3 * ({})"),
    (r"(?:the )?sine? of", "sin({})"),
    (r"(?:the )?cos(?:ine)? of", "cos({})"),
    (r"(?:the )?tan(?:gent)? of", "tan({})"),
)

LISTS = (
    (r"(?:the )?(?:sum|total) of", " + "),
    (r"(?:the )?product of", " * "),
    (r"(?:the )?difference (?:between|of)", " - "),
    (r"(?:the )?(?:quotient|ratio) (?:of|between)", " / "),
    (r"(?:the )?(?:average|mean) (?:of|between)", "MEAN"),
    (r"add(?:ing)?(?: up)?|sum(?: up)?", " + "),
    (r"multiply(?:ing)?", " * "),
    (r"divide|dividing", " / "),
    (r"subtract(?:ing)?", "FROM"),
    (r"increase|raise", "MORE"),
    (r"decrease|reduce|lower", "FEWER"),
    (r"(?:the )?(?:greatest common divisor|gcd) of", "gcd"),
    (r"(?:the )?(?:remainder) (?:of|when)(?: you divide)?", " % "),
)

REFERENCE = (
    r"\b(?:it|this|that|(?:the|that|this) (?:result|answer|value|number|figure|outcome"
    r"|temperature|price|amount|"
    r"(?:sum|total)(?! of\b))|both|them|the two|these|those)\b"
)

_TABLE = (
    [
        (r"\(", "("),
        (r"\)", ")"),
        (rf"\b(?:math\.)?(?:{_FUNCTIONS})\b(?= ?\()", "CALL"),
        (r"\b(?:pi|tau)\b|π", "CONST"),
    ]
    + [(rf"(?:(?<=\W)|^)(?:{pattern})(?=\W|$)", "LIST" + str(i)) for i, (pattern, _) in enumerate(LISTS)]
    + [
        (rf"(?:(?<=\W)|^)(?:{pattern})(?=\W|\d|$)", "PREFIX" + str(i))
        for i, (pattern, _) in enumerate(PREFIXES)
    ]
    + list(_OPERATORS)
    + [
        (rf"[$€£]?(?:{FIGURE.replace('-?', '')}|{NUMBER_WORDS})", "NUMBER"),
        (r",|\band\b", "AND"),
        (r"\bof\b|\bon\b", "OF"),
        (r"\bby\b|\bwith\b|\bto\b", "BY"),
        (r"\bfrom\b", "FROM"),
        (r"\bdegrees\b|°", "DEGREES"),
        (r"\btip\b|\bthe\b|\ba\b|\bis\b|\bbill\b|\bresult\b|\bof the\b", "FILLER"),
    ]
)

TOKEN = re.compile(
    "|".join(f"(?P<T{i}>{pattern})" for i, (pattern, _) in enumerate([(REFERENCE, "REF"), *_TABLE])),
    re.IGNORECASE,
)

KINDS = ["REF", *[kind for _, kind in _TABLE]]


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int
