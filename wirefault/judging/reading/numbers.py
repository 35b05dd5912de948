"""Numbers written in digits, in the forms of different countries. Pure.

``4.200`` is 4200 in Berlin and 4.2 in London: a numeral has all the values that it may stand for. The
expressions cannot backtrack far, whatever the text. They have no possessive quantifiers, by which early
versions of Python 3.11 get a group's place wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from wirefault.judging.reading.languages import LazyPattern

# groups of three behind one kind of separator, India's groups, digits with a fraction, a fraction alone
_CORE = (
    r"(?:\d{1,3}(?:(?P<group>[ ,.'_])\d{3})(?:(?P=group)\d{3})*(?!(?P=group)\d{3}|\d)(?:[.,]\d+)?"
    r"|\d{1,2}(?:,\d{2}(?=,))+,\d{3}(?!\d)(?:\.\d+)?"
    r"|\d+(?:\.\d+|(?<!\d,\d)(?<!\d,\d\d)(?<!\d,\d\d\d),(?!\d{1,9},\d)\d+)?|(?<![\d,])[.,]\d+)"
)
_POWER = r"(?:[eE][+-]?\d{1,4}(?!\w)|\s?[x×*·]\s?10(?:\^|\*\*)\{?[+-]?\d{1,4}\}?)?"
_NUMERAL = LazyPattern(rf"(?P<core>{_CORE})(?P<power>{_POWER})")
_EXPONENT = LazyPattern(r"[+-]?\d+(?=\}?$)")
_REST_OF_WORD = LazyPattern(r"[\w.]*")
_LIMIT = 400  # digits; float() of more is slow, and no answer
_AT_MOST = 5000  # numerals of one text


@dataclass(frozen=True)
class Numeral:
    """Where it stands and what it may be worth, the likeliest value first.

    ``step``: one unit of the last digit that each value has.
    """

    start: int
    end: int
    values: tuple[float, ...]
    steps: tuple[float, ...]


def numerals(text: str) -> Iterator[Numeral]:
    """Every numeral outside a word (``Q3``, ``v2``, ``1.2.3`` are none), signs included, in order."""
    at, count = 0, 0
    while count < _AT_MOST and (match := _NUMERAL.search(text, at)):
        at, count = match.end(), count + 1
        if _within_a_word(text, match.start(), match.end()):
            rest = _REST_OF_WORD.match(text, at)
            at = rest.end() if rest else at
            continue
        numeral = _read(match, _sign(text, match.start()))
        if numeral is not None:
            yield numeral


def _within_a_word(text: str, start: int, end: int) -> bool:
    before = text[start - 1 : start]
    if before and (before == "_" or (before.isalpha() and before.isascii())):
        # a currency's code or sign may touch its amount
        return not re.search(
            r"(?<![A-Za-z])(?:[A-Z]{3}|(?:US|CA|AU|R)\$|Rs|[xX])$", text[max(0, start - 5) : start]
        )
    is_chain = bool(re.match(r"[.]\d", text[end : end + 2])) or bool(
        re.search(r"\d\.$", text[max(0, start - 2) : start])
    )
    return is_chain or text[start:end].endswith("_")


def _sign(text: str, start: int) -> int:
    """How many characters before the digits belong to it: a minus or a plus that is no operator or dash."""
    if text[start - 1 : start] not in ("-", "+") or start == 0:
        return 0
    before = text[start - 2 : start - 1]
    return 0 if before.isalnum() or (before in ("-", ")", "]", "%", "°") and before) else 1


def _read(match: re.Match[str], sign: int) -> Numeral | None:
    core, power = match["core"], match["power"]
    if len(core) > _LIMIT:
        return None
    exponent = _EXPONENT.search(power)
    times = int(exponent[0]) if exponent else 0
    factor = -1.0 if sign and match.string[match.start() - 1] == "-" else 1.0
    values, steps = [], []
    for plain in _plain_forms(core):
        value = float(f"{plain}e{times}") * factor
        if math.isfinite(value):
            decimals = len(plain.partition(".")[2])
            values.append(value)
            steps.append(_step(times - decimals))
    if not values:
        return None
    return Numeral(match.start() - sign, match.end(), tuple(values), tuple(steps))


def _step(exponent: int) -> float:
    return 10.0**exponent if abs(exponent) < 300 else 0.0


def _plain_forms(core: str) -> list[str]:
    """What the digits may mean, each as ``float`` takes it."""
    digits = core.translate(str.maketrans("", "", " '_"))
    separators = [character for character in digits if character in ".,"]
    if not separators:
        return [digits]
    last = separators[-1]
    head, _, tail = digits.rpartition(last)
    whole = head.replace(",", "").replace(".", "") or "0"
    fraction, grouped = f"{whole}.{tail}", whole + tail
    if len(set(separators)) == 2 or digits != core:  # another separator made the groups
        return [fraction]
    if len(separators) > 1:
        return [grouped]
    if len(tail) != 3 or not 1 <= len(head) <= 3 or head.startswith("0"):
        return [fraction]
    return [grouped, fraction] if last == "," else [fraction, grouped]


def number_of(digits: str) -> float | None:
    """The likeliest number that the digits write, or None if they write none."""
    match = _NUMERAL.fullmatch(digits)
    numeral = _read(match, 0) if match else None
    return numeral.values[0] if numeral else None


# each language by its numbers up to nineteen, its tens, its other numbers, what may stand between the parts
# of a number, and what begins its decimals
_TABLE = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen / twenty thirty forty|fourty fifty sixty seventy eighty ninety / hundred=100
thousand=1000 million=1000000 billion=1000000000 / and / point

null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
siebzehn achtzehn neunzehn / zwanzig dreißig|dreissig vierzig fünfzig sechzig siebzig achtzig neunzig /
ein=1 hundert=100 tausend=1000 million=1000000 millionen=1000000 / und / komma

zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept
dix-huit dix-neuf / vingt|vingts trente quarante cinquante soixante septante huitante|octante nonante /
quatre-vingt=80 quatre-vingts=80 soixante-dix=70 quatre-vingt-dix=90 cent=100 cents=100 mille=1000 / et /
virgule

cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis
diecisiete dieciocho diecinueve / veinte|veinti treinta cuarenta cincuenta sesenta setenta ochenta noventa /
cien=100 ciento=100 doscientos=200 trescientos=300 cuatrocientos=400 quinientos=500 seiscientos=600
setecientos=700 ochocientos=800 novecientos=900 mil=1000 veintidós=22 veintitrés=23 veintiséis=26 / y / coma

zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici
diciassette diciotto diciannove / venti|vent trenta|trent quaranta|quarant cinquanta|cinquant
sessanta|sessant settanta|settant ottanta|ottant novanta|novant / cento=100 mille=1000 mila=1000 / e /
virgola

zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezasseis dezassete
dezoito dezanove / vinte trinta quarenta cinquenta sessenta setenta oitenta noventa / dezesseis=16
dezessete=17 dezenove=19 cem=100 cento=100 duzentos=200 trezentos=300 quatrocentos=400 quinhentos=500
seiscentos=600 setecentos=700 oitocentos=800 novecentos=900 mil=1000 / e / vírgula

nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien
achttien negentien / twintig dertig veertig vijftig zestig zeventig tachtig negentig / één=1 honderd=100
duizend=1000 / en|ën / komma
"""


@dataclass(frozen=True)
class _Language:
    """``glue``: what may stand between the parts of a number. ``point``: what begins its decimals."""

    words: Mapping[str, int]
    glue: str
    point: str


def _language(described: str) -> _Language:
    upto_19, tens, others, glue, point = " ".join(described.split()).split(" / ")
    words = {word: value for value, word in enumerate(upto_19.split())}
    words |= {word: 10 * ten for ten, word in enumerate(tens.split(), start=2) for word in word.split("|")}
    words |= {word: int(value) for word, value in (pair.split("=") for pair in others.split())}
    return _Language(words, glue, point)


_CHINESE = {c: n for n, c in enumerate("零一二三四五六七八九十")}
_CHINESE |= {"〇": 0, "两": 2, "百": 100, "千": 1000, "万": 10000}
_LANGUAGES = (*map(_language, _TABLE.strip().split("\n\n")), _Language(_CHINESE, "", "点|點"))
_WORD = LazyPattern(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ORDINAL_WORDS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
    " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ORDINALS = _ORDINAL_WORDS.split()
_ORDINAL = LazyPattern(rf"\b(?:(twenty|thirty)[- ])?({'|'.join(_ORDINALS)}|thirtieth)\b")
_ENGLISH_TOO = frozenset(
    ["due", "once", "sei", "one", "non", "nul", "null", "cent", "cents", "mil", "um", "mille"]
)
_MOST_WORDS = 3000  # of one text that are looked at
_PIECES = 24  # parts that one number may have
_LONGEST = 60  # characters of one written word


@dataclass(frozen=True)
class WrittenNumber:
    """Where it stands and its value. ``single``: one small word, which may be no number at all (``one``)."""

    start: int
    end: int
    value: float
    single: bool


def written_numbers(text: str) -> Iterator[WrittenNumber]:
    """The numbers in words of a case folded text, each as long as the language that reads most of it."""
    at = 0
    words = list(islice(_WORD.finditer(text), _MOST_WORDS))
    for place, word in enumerate(words):
        if word.start() < at or not _may_begin(word[0]):
            continue
        run = _run(text, words, place)
        readings = (_reading(language, text, run) for language in _LANGUAGES)
        value, used = max(readings, key=lambda reading: reading[1])
        if value is not None and used:
            at = run[used - 1].end()
            yield WrittenNumber(word.start(), at, value, used == 1 and value <= 12 and value.is_integer())


def in_digits(text: str) -> str:
    """A case folded text with its numbers in words, and English ordinals, in digits."""
    text = _ORDINAL.sub(_ordinal, text)
    parts, at = [], 0
    for number in written_numbers(text):
        if number.value.is_integer() and text[number.start : number.end] not in _ENGLISH_TOO:
            parts += [text[at : number.start], str(int(number.value))]
            at = number.end
    return "".join([*parts, text[at:]])


def _ordinal(match: re.Match[str]) -> str:
    tens = {"twenty": 20, "thirty": 30}.get(match[1], 0)
    return f"{tens + (30 if match[2] == 'thirtieth' else _ORDINALS.index(match[2]) + 1)}th"


@lru_cache(maxsize=1)
def _beginnings() -> frozenset[str]:
    return frozenset(word[:3] for language in _LANGUAGES for word in language.words)


def _may_begin(word: str) -> bool:
    return len(word) <= _LONGEST and (word[:3] in _beginnings() or word[:1] in _beginnings())


def _run(text: str, words: list[re.Match[str]], first: int) -> list[re.Match[str]]:
    """The words from the first one on that nothing but a space parts."""
    run = [words[first]]
    for word in words[first + 1 : first + _PIECES]:
        if text[run[-1].end() : word.start()] not in (" ", "  "):
            break
        run.append(word)
    return run


def _reading(language: _Language, text: str, run: list[re.Match[str]]) -> tuple[float | None, int]:
    """The value of the longest beginning of the run that is a number, and of how many words it is."""
    parts: list[int] = []
    decimals: list[int] | None = None
    best: tuple[float | None, int] = (None, 0)
    for index, word in enumerate(run):
        spelt = word[0]
        if spelt in language.point.split("|") and parts and decimals is None:
            decimals = []
            continue
        if spelt in language.glue.split("|") and parts:
            continue
        pieces = _pieces(language, spelt)
        if pieces is None:
            break
        if decimals is None:
            whole, _, behind = _split_at_point(pieces)
            if not parts and len(whole) == 2 and _is_year(whole[:1], whole[1:]):
                whole = [whole[0], 100, whole[1]]
            if parts and _is_year(parts, whole):
                parts.append(100)
            elif parts and not _continues(parts, whole):
                break
            parts += whole
            decimals = behind
        elif any(piece > 9 for piece in pieces if piece >= 0) and decimals:
            break
        else:
            decimals += pieces
        value = _value(parts) + _fraction(decimals or [])
        best = (value, index + 1)
    return best


def _split_at_point(pieces: list[int]) -> tuple[list[int], bool, list[int] | None]:
    if -1 not in pieces:
        return pieces, False, None
    at = pieces.index(-1)
    return pieces[:at], True, pieces[at + 1 :]


def _continues(parts: list[int], more: list[int]) -> bool:
    """Whether the next word goes on with the number: ``two`` after ``forty``, not after ``three``."""
    if not more or more[0] >= 100 or parts[-1] >= 100:
        return bool(more)
    return parts[-1] >= 20 and more[0] < (20 if parts[-1] in (60, 80) else 10)


def _is_year(parts: list[int], more: list[int]) -> bool:
    """``nineteen eighty-four``, ``twenty nineteen``."""
    return len(parts) == 1 and 13 <= parts[0] <= 20 and bool(more) and 10 <= more[0] < 100


def _pieces(language: _Language, word: str) -> list[int] | None:
    """The parts of one written word, -1 for a decimal point; None if it is no number."""
    if len(word) > _LONGEST:
        return None
    pieces: list[int] = []
    at = 0
    while at < len(word):
        length = next(
            (n for n in range(min(16, len(word) - at), 0, -1) if word[at : at + n] in language.words), 0
        )
        if length:
            pieces.append(language.words[word[at : at + length]])
            at += length
            continue
        glue = next((g for g in (*language.glue.split("|"), "-") if g and word.startswith(g, at)), "")
        point = next((p for p in language.point.split("|") if word.startswith(p, at)), "")
        if not pieces or not (glue or point):
            return None
        pieces += [-1] if point else []
        at += len(point or glue)
    return pieces or None


def _value(parts: list[int]) -> float:
    total, current, last = 0, 0, 0
    for part in parts:
        if part >= 1000:
            total, current, last = total + max(1, current) * part, 0, 0
        elif part in (10, 100) and 0 < last < 10:
            current, last = current - last + last * part, 0
        elif part == 100 and current:
            current, last = current * part, 0
        else:
            current, last = current + part, part
    return float(total + current)


def _fraction(decimals: list[int]) -> float:
    """Digits as they are read one after the other; a last part of two digits is read as one (``forty``)."""
    text = "".join(str(piece) for piece in decimals if piece >= 0)
    return float(f"0.{text}") if text else 0.0
