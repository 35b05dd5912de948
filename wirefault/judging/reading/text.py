"""Normalise texts of people, models and tools, so that they can be compared and read. Pure.

The texts are not trusted: the regular expressions cannot backtrack far, and nothing is evaluated.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from wirefault.judging.reading.languages import LazyPattern, languages
from wirefault.judging.reading.numbers import numerals
from wirefault.judging.reading.units import convert, unit_after

_EDGES = " \t\r\n.,;:!?'\"“”„‘’«»()[]{}…*_`"
_QUOTES = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛ʼ´′", "'"),
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys("‐‑‒−﹣－", "-"),
        **dict.fromkeys("º˚", "°"),
    }
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED = LazyPattern(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = LazyPattern(r"(\d{0,9})[ ]?([¼-¾⅐-⅞])")
_THOUGHTS = ("think", "thinking", "reasoning")
_TAG = LazyPattern(r"</?[a-zA-Z][^<>]{0,200}>")
_STRUCK_OUT = LazyPattern(r"~~[^~]{1,500}~~")
_LETTER_O = LazyPattern(r"(?<=\d)\s?[oO](?=[CF]\b)")
_MIDDLE_DOT = LazyPattern(r"(?<=\d)·(?=\d)")  # as British papers print decimals
_LINK = LazyPattern(r"\[([^\[\]]{0,300})\]\([^()\s]{0,500}\)")
_ADDRESS = LazyPattern(r"\b(?:https?://|www\.)[^\s<>\"')]{1,500}")
_LATEX_WRAP = LazyPattern(r"\\(?:text|mathrm|mathbf|textbf|operatorname|mathit|rm)\s?\{([^{}]{0,200})\}")
_LATEX_BOX = LazyPattern(r"\\(?:boxed|fbox)\s?\{([^{}]{0,200})\}")
_LATEX_FRACTION = LazyPattern(r"\\[dt]?frac\{([^{}]{1,40})\}\{([^{}]{1,40})\}")
_LATEX_SIGNS = (
    *((r"^\circ", "°"), (r"^{\circ}", "°"), (r"\circ", "°"), (r"\degree", "°"), (r"\%", "%"), (r"\$", "$")),
    *((r"\times", "×"), (r"\cdot", "×"), (r"\approx", "≈"), (r"\sim", "~"), (r"\pm", "±"), (r"\euro", "€")),
    *(("{,}", ","), (r"\,", " "), (r"\;", " "), (r"\ ", " "), (r"\!", ""), (r"\quad", " ")),
    *((r"\(", " "), (r"\)", " "), (r"\[", " "), (r"\]", " "), ("$$", " ")),
)
_MATH = LazyPattern(r"\$([^$\n]{1,200})\$(?!\d)")
_STRONG = LazyPattern(r"\*\*(?!\d)|(?<!\d)\*\*|(?<!\w)__|__(?!\w)|`+")
_EMPHASIS = LazyPattern(r"(?<![\w*])[*_](?=\w)|(?<=[\w.%°!?])[*_](?![\w*])")
_BULLET = LazyPattern(r"(?m)^[ \t]*(?:[*•·▪◦–—-][ \t]+|#{1,6}[ \t]+|>[ \t]?)")
_NUMBERED = LazyPattern(r"(?m)^[ \t]*\d{1,2}[.)][ \t]+(?=\S)")
_FIRST_OF_A_LIST = LazyPattern(r"(?m)^[ \t]*1[.)][ \t]+\S[^\n]*\n")
_GARBLED = LazyPattern(
    r"[\ufffd▯⍰□]|[\u0080-\u009f]|â€|Ã[\u0080-\u00bf]|Â°|ï¿½|Ð[^\u0400-\u04ff\s]|\d\?+[\d.,]|[^\x00-\x7f]\?\?|\?\?[.,:]\?"
)
_CERTAIN = LazyPattern(r"(?i)\b<certain>\b(?: that\b)?[,:]?")
_FINAL = "\nfinal answer: "


def folded(text: str) -> str:
    """Fold case, Unicode forms and white space."""
    return " ".join(unicodedata.normalize("NFKC", _visible(text).translate(_QUOTES)).casefold().split())


def bare(text: str) -> str:
    """Fold a text and strip the punctuation around it."""
    return folded(text).strip(_EDGES)


def compared_words(text: str) -> list[str]:
    """Return the words of a text, folded, without punctuation."""
    return re.findall(r"\w+", folded(text).replace("_", " "))


def plain(text: str) -> str:
    """Return a text as a reader sees it: lines, but no markup, hidden characters or typesetting.

    Struck-out text and a model's thoughts are removed.
    """
    if "<" in text:
        text = _TAG.sub(" ", _without_thoughts(text))
    if "&" in text:
        text = html.unescape(text)
    if "\\" in text or "$" in text:
        text = _without_latex(text)
    text = _RAISED.sub(lambda raised: "^" + raised[0].translate(_SUPERSCRIPTS), text)
    text = unicodedata.normalize("NFKC", _VULGAR.sub(_decimal, _visible(text)).translate(_QUOTES)).translate(
        _QUOTES
    )
    text = _LETTER_O.sub("°", text)
    if "·" in text and "=" not in text:
        text = _MIDDLE_DOT.sub(".", text)
    text = _STRUCK_OUT.sub(" ", text) if "~~" in text else text
    text = _ADDRESS.sub(" ", _LINK.sub(r"\1", text))
    text = _digits(text)
    text = _BULLET.sub("", text)
    if _FIRST_OF_A_LIST.search(text):
        text = _NUMBERED.sub("", text)
    text = _EMPHASIS.sub("", _STRONG.sub("", text))
    text = _CERTAIN.sub("", text)  # "no doubt" denies nothing
    for half, decimal in _halves():
        text = half.sub(decimal, text)
    return re.sub(r"(?<=\d)–(?=[\d$€£])|–(?=\d)", "-", text)


def is_garbled(text: str) -> bool:
    """Return whether characters were lost: replaced, or decoded with the wrong encoding."""
    return bool(_GARBLED.search(text))


def _without_thoughts(text: str) -> str:
    """Drop the thoughts that a model wrote before its answer."""
    for name in _THOUGHTS:
        begin = text.find(f"<{name}>")
        end = text.rfind(f"</{name}>")
        if 0 <= begin < end:
            text = text[:begin] + text[end:]
    return text


def _visible(text: str) -> str:
    """Drop invisible characters: zero width, direction marks, soft hyphens."""
    if text.isascii():
        return text
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _digits(text: str) -> str:
    """Replace the digits of all alphabets by ASCII ones, and Arabic separators."""
    if text.isascii():
        return text
    text = text.replace("٫", ".").replace("٬", ",")
    return "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else character for character in text
    )


@cache
def _halves() -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of halves in words, each with its number in digits."""
    halves = (pair for language in languages() for pair in language["numbers"].get("halves", ()))
    return [(re.compile(f"(?i){pattern}"), decimal) for pattern, decimal in halves]


def _decimal(vulgar: re.Match[str]) -> str:
    value = unicodedata.numeric(vulgar[2]) + (int(vulgar[1]) if vulgar[1] else 0)
    return f"{value:.6g}"


def _without_latex(text: str) -> str:
    for _ in range(2):  # they may be nested
        text = _LATEX_WRAP.sub(r"\1", text)
    for sign, meaning in _LATEX_SIGNS:
        text = text.replace(sign, meaning)
    text = _LATEX_FRACTION.sub(r"\1/\2", text)
    text = _MATH.sub(r"\1", text)
    return _LATEX_BOX.sub(lambda box: f"{_FINAL}{box[1]}\n", text)


def numbers(text: str, unit: str | None = None) -> Iterator[float]:
    """Yield the likeliest values of the numerals in a text, in order; values with a unit in ``unit``.

    Dates and times of day, recognised by a numeral's neighbours, are skipped.
    """
    text = text.replace("−", "-")
    low = text.casefold()
    for numeral in numerals(text):
        if _is_date_part(text, numeral.start, numeral.end):
            continue
        value = numeral.values[0]
        if unit is not None and len(low) == len(text):
            after, _ = unit_after(low, numeral.end)
            value = convert(value, after[0].name, unit) if after else value
        yield value


def _is_date_part(text: str, start: int, end: int) -> bool:
    return bool(
        re.search(r"\d[-:/]$", text[max(0, start - 2) : start]) or re.match(r"[-:/]\d", text[end : end + 2])
    )


def tolerance_of(expected: float, tolerance: float | None) -> float:
    """Return the explicit tolerance; else 1e-6 of a whole number, 0.01 for a number with a fraction.

    A float without a fraction (11.0) counts as a number with one.
    """
    if tolerance is not None:
        return tolerance
    return 0.01 if isinstance(expected, float) else abs(expected) * 1e-6


def close(value: float, expected: float, tolerance: float | None) -> bool:
    """Return whether the value is within the tolerance, except for rounding of the difference."""
    allowed = tolerance_of(expected, tolerance)
    return abs(value - expected) <= allowed + 1e-9 * max(1.0, abs(expected))
