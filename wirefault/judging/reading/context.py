"""What a text may say of a value."""

from __future__ import annotations

import re
from typing import Literal

from wirefault.judging.reading.languages import LazyPattern, words_pattern

Stated = Literal["right", "wrong", "unreadable", "none"]


_COPULA = r"(?:is|was|are|were|ist|war|est|était|es|era|è)"
_AMOUNT_BEGINS = r"[\"'$€£]?$"

SENTENCE_END = LazyPattern(
    r"[!?](?=\s|$|[\"')])|(?<!\bapprox)(?<!\bca)(?<!\bdeg)(?<!\best)(?<!\d)\.(?=\s|$)",
    r"|(?<=\d)\.(?=\s+[^\W\d_]|\s*$)|[\n;。！？]",
)
CLAUSE_END = LazyPattern(
    r",(?!\d)|[;:()\n]|\s[-–—]+\s|—|",
    words_pattern(
        "but|however|though|although|yet|and|because|since|while|whereas|so|with|sondern|aber|und|mais|et",
        "sino|pero|y|ma|bensì|mas|maar",
    ),
)
NEGATION = (
    r"(?:\bnot\b(?! (?:only|just|merely|to mention))|\w{2,6}n't\b"
    r"|\b(?:isnt|no longer|no more|never|neither|nor|cannot|rather than|instead of|other than|unlike)\b"
    r"|\b(?:except|excluding|without|nicht|kein\w*|ne (?:pas|plus)|pas|n'est|plutôt que|ya no|non è|non)\b"
    r"|\b(?:não|niet|geen|no (?:es|era|está|fue|son)|ikke|inte|не|nie)\b|不是|ではな)"
)
NEGATED = LazyPattern(NEGATION)
DENIED_BEFORE = LazyPattern(NEGATION, r"(?:\s+[^\s,;.]{1,15}){0,3}?\s*[\"'(~]{0,2}$")
# what was put aside, and what gave way to something else
WITHDRAWN_BEFORE = LazyPattern(
    r"\b(?:(?:ignore|disregard|forget|discard)(?: \w+){0,2}\s*[\"'$€£]?"
    r"|(?:moved|changed?|dropped|fell|rose|reduced|lowered|raised|cut|went|switched|relocated|rescheduled"
    r"|postponed|shifted|brought forward|updated|corrected|increased|decreased|renamed)"
    r"\b[^.;\n]{0,40}\bfrom (?:the )?[\"'$€£]?)$"
)
DENIED_AFTER = LazyPattern(
    rf"^[\s\"')*]*(?:{_COPULA}(?: (?:definitely|clearly|certainly|also))?\s*",
    r"(?:n't\b|\b(?:not|no longer|nicht|pas)\b)",
    rf"|(?:{_COPULA}(?: \w+)?\s)?\(?(?:wrong|incorrect|false|mistaken|outdated",
    r"|falsch|faux|incorrecto|sbagliato)\b",
    r"|\(not (?:correct|right|true))(?! (?:only|just|bad|too|far|including))",
)
# behind the place, in the same sentence
DISOWNED = LazyPattern(
    r"\b(?:that|this|which|it)(?:'s| is| was| seems| looks| must be)(?: \w+)?",
    r" (?:wrong|incorrect|false|outdated|implausible)",
    r"|\b(?:that|this|which|it) (?:is|was|can|could)(?:n't| not|not) be?\s?(?:right|correct|true)",
    r"|^\s*,?\s*(?:i (?:think|guess|believe|suppose)\b(?! (?:that|it|you))",
    r"|(?:maybe|perhaps|probably|possibly)\s*[.!)]?$",
    r"|(?:but )?i'?m not (?:sure|certain)(?! (?:about|of))|if i (?:recall|remember))",
)
# a guess, a candidate or a supposition: what it is about is offered, not stated
OFFERED = LazyPattern(
    words_pattern(
        "maybe|perhaps|possibly|might|could be|may be|could have been|may have been|guess(?:ing|ed)?",
        "not (?:\\w+ )?(?:sure|certain)|unsure|uncertain|doubtful|unlikely|questionable|candidates",
        "suppos(?:e|ing)|hypothetical(?:ly)?|if|unless|placeholder|dummy|would (?:have|cost|need)",
        "used to (?:be|have)|was (?:once|formerly|previously)|torn between|made[- ]up|either|one of|example",
        "e\\.g|for instance|some (?:people|sources|say)|others|mistakenly",
        "often (?:thought|confused|mistaken|believed)|many (?:people )?(?:think|believe|assume)",
        "people think|thought|claims? that|vielleicht|möglicherweise|peut-être|quizás?|tal vez|forse|talvez",
        "misschien|może|возможно|может быть",
    ),
    "|可能|也许|たぶん",
)
# what is said with some reserve: a reader could take it either way
OPEN = LazyPattern(
    words_pattern(
        "probably|likely|presumably|supposedly|estimat(?:e|ed|ing)|historical|unclear|as of my|doubt",
        "possible|candidate|potential(?:ly)?|simulated|my (?:last|latest) (?:update|knowledge)",
        "knowledge cut-?off|unverified|unconfirmed|assum(?:e|es|ed|ing)|typical(?:ly)?|usual(?:ly)?",
        "normally|generally|historically|should be|last known|cached|training data|sometimes|believe",
        "i think|seems?|appears?|commonly|vermutlich|wahrscheinlich|normalerweise|schätzungsweise",
        "probablement|sans doute|probablemente|posiblemente|probabilmente|provavelmente|waarschijnlijk",
        "możliwe",
    ),
    r"|\best\.\s*$",
)
FAILURE_TOLD = LazyPattern(
    words_pattern(
        "unable to|failed to|fail to|can't|cannot|couldn't|could not|was not able to|wasn't able to|didn't",
        "no (?:current|live|real-?time|such) (?:\\w+ )?(?:readings?|data|access|values?|information)",
        "did not|don't have|do not have|don't know|do not know|without (?:access|being)|konnte .{0,20}nicht",
        "je n'ai pas|no pude|non ho potuto",
    )
)
BUT = LazyPattern(words_pattern("but|however|nevertheless|after|then|aber|mais|pero|ma"))
COMPARED = LazyPattern(
    r"(?:",
    words_pattern(
        r"more than|less than|\w{3,9}(?<!rath)(?<!oth)er than|after|before|prior to",
        "at least|at most|up to|above",
        "below|over|under|exceed(?:s|ing)?|beyond|minimum of|maximum of|no (?:more|less|fewer) than|until",
        "mehr als|weniger als|über|unter|mindestens|höchstens|plus de|moins de|au moins|más de|menos de",
        "al menos|più di|meno di|almeno",
    ),
    rf"|[<>≥≤±])\s*(?:\w+\s)?{_AMOUNT_BEGINS}",
)
BACKGROUND = LazyPattern(
    words_pattern(
        "yesterday|tomorrow|last (?:night|week|month|year|time)|tonight|overnight|earlier|previous(?:ly)?",
        "formerly|used to|originally|forecasts?|expected|predicted|feels?[-_ ]?like|wind ?chill|dew ?point",
        "first (?:said|reported|returned|showed|gave)|at first|initially|heat index|apparent|realfeel|range",
        "typical(?:ly)?|usual(?:ly)?|normally|historically|generally|chance of|probability|precipitation",
        "cloud(?:s| cover|iness)",
        r"(?:highs?|lows?|min(?:imum)?|max(?:imum)?|mins|maxes)"
        r"(?=\s*(?:temp\w*)?\s*(?:in \w+ )?(?:of|is|was|will|near|around|:|/|\||\d|-|$))",
        "record|averages?|mean|normals?|will (?:be|rise|drop|reach|fall)",
        "(?:rising|dropping|falling|climbing|down|up) (?:to|from)",
        r"gestern|morgen|vorhersage|gefühlt\w*|hier|demain|ressenti\w*|prévisions?|ayer|mañana|sensación",
        "pronóstico|ieri|domani|percepita|ontem|amanhã|gisteren|gevoelstemperatuur|вчера|завтра|ощущается",
    ),
    "|昨天|明天|体感",
)
CURRENT = LazyPattern(
    words_pattern(
        "currently|right now|at the moment|at present|now|aktuell|derzeit|gerade|jetzt|actuellement",
        "maintenant|actualmente|ahora|attualmente|adesso|ora|atualmente|agora|momenteel|nu|сейчас|obecnie",
        "teraz",
    ),
    "|目前|现在|現在|今",
)
# an amount that belongs to something beside what the sentence is about
SUBSIDIARY = LazyPattern(
    words_pattern(
        "of (?:which|whom|these|those|them)|including|plus|in addition|as well as|extra|another|additional",
        "davon|darunter|zuzüglich|dont|plus de|en plus|de los cuales|di cui|dei quali|waarvan",
    )
)
FORMER = LazyPattern(
    r"^\s*(?:was|were|before|old|regular|instead of|down from|up from|originally|statt|vorher)\b"
)
CORRECTION = LazyPattern(
    words_pattern(
        r"actually|correction|corrected|wait|scratch that|i mean|i meant|sorry|apolog\w+|make that|oops",
        "in fact|or rather|my mistake|let me correct|korrektur",
        "genauer gesagt|en fait|en realidad|anzi|pardon|perdón",
    )
)
CONCLUSION = LazyPattern(
    r"(?:",
    words_pattern(
        "final answer|the answer|answer|so|therefore|thus|hence|in total|total(?:s|ing)?|result|equals",
        "comes to|which is|gives|making|makes|also|together|altogether|in all|daher|donc|por lo tanto",
        "quindi|resultado|ergebnis|résultat|risultato|respuesta|antwort|réponse",
    ),
    r"|[=≈→⇒])[^\d\n.!?;]{0,40}$",
)
ANSWER_GIVEN = LazyPattern(
    r"\b(?:answer|result|so (?:the|it)(?: \w+){0,3}?) (?:is|was|equals)(?: \w+)?\s*[\"'$€£]?$"
)
FINAL_ANSWER = LazyPattern(r"\bfinal answer\b\W{0,4}(?:is\b)?[^\d\n.!?;]{0,40}$")
APPROXIMATE = LazyPattern(
    r"(?:[~≈∼]|",
    words_pattern(
        "about|around|approximately|approx|roughly|nearly|almost|circa|ca|some|just (?:over|under)|close to",
        "etwa|ungefähr|rund|environ|à peu près|aproximadamente|unos|cerca de|casi|ongeveer|около|примерно",
    ),
    rf"\.?|大约|約)\s*{_AMOUNT_BEGINS}",
)
BETWEEN_ALTERNATIVES = LazyPattern(
    r"^[\s)\"'°%,.…?]*(?:or|oder|ou|eller|lub|или|oppure|vs\.?|versus|alternatively|/)",
    r"(?:\s+(?:maybe|perhaps|even|possibly|else|is it|was it|rather))?[\s(\"'$€£]*$",
)
SHORT_OR = LazyPattern(r"^[\s)\"'°%]+(?:o|u)[\s(\"']+$")
WITHIN_A_RANGE = LazyPattern(r"^\s*(?:-|–|—|\.\.\.?|…|~|to|bis|à|until|through|till|a|al)\s*$")
RANGE_BEGINS = LazyPattern(r"\b(?:between|zwischen|entre|tra|fra|tussen|from)\s*[\"'$€£]?$")
AND = LazyPattern(r"^\s*(?:and|und|et|y|e|en|&)\s*[\"'$€£]?$")
OR_AFTER_A_LIST = LazyPattern(
    r"^[\"')\]]*(?:\s*,\s*(?!not\b|nicht\b|pas\b|no\b|and\b)",
    r"[^\s,.;]+(?: [^\s,.;]+)?){1,4}?,? (?:or|oder|ou|oppure)\b",
)
_JOINED = r"(?:\b(?:or|oder|ou|oppure|o bien|vs\.?)|/)"
OR_BEFORE = LazyPattern(rf"[\w)\"'\]]\s*,?\s*{_JOINED}\s*[\"'(]*$")
OR_AFTER = LazyPattern(rf"^[\"')\].,]*\s*\(?{_JOINED}(?! so\b)(?=\W|\w)")


# "offered": as a candidate, which a reader does not take for the answer; "doubtful": a reader might
Affirmation = Literal["affirmed", "doubtful", "offered", "denied"]

_AROUND = 240  # characters of context on each side


def sentence_around(text: str, start: int, end: int) -> tuple[str, str]:
    """What stands before and behind the place, in its sentence."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    stops = [stop.end() for stop in SENTENCE_END.finditer(before)]
    if stops and not (stops[-1] == len(before) and before.endswith(".")):
        before = before[stops[-1] :]
    stop = SENTENCE_END.search(after)
    return before, after[: stop.end()] if stop else after


def clause_of(before: str, after: str) -> tuple[str, str]:
    """Of what stands before and behind a place in its sentence, what belongs to its clause.

    What introduces the place (``temperature: 8.4``) belongs to it.
    """
    stops = [stop.end() for stop in CLAUSE_END.finditer(before) if _parts_clauses(before, stop)]
    stop = next(CLAUSE_END.finditer(after), None)
    return before[stops[-1] :] if stops else before, after[: stop.start()] if stop else after


def _parts_clauses(before: str, stop: re.Match[str]) -> bool:
    """Whether a clause ends there; a comma right before the place ends one only if a number stands before."""
    behind = before[stop.end() :].strip(" \"'")
    return bool(behind) or (stop[0] == "," and any(map(str.isdigit, before[: stop.start()])))


def status_at(text: str, start: int, end: int) -> Affirmation:
    """Whether the place is affirmed, denied, or only offered: as a guess, a question, a bound, an ``if``."""
    sentence = sentence_around(text, start, end)
    if not "".join(sentence).strip(" .*\n"):
        return "affirmed"
    before, after = clause_of(*sentence)
    stops = [stop.end() for stop in CLAUSE_END.finditer(sentence[0])]
    directly_before = sentence[0][stops[-1] :] if stops else sentence[0]
    if DENIED_BEFORE.search(directly_before) or DENIED_AFTER.match(sentence[1]):
        return "denied"
    if WITHDRAWN_BEFORE.search(sentence[0]):
        return "denied"
    if after.rstrip("\"') ").endswith("?") or OFFERED.search(before):
        return "offered"
    bracket = re.match(r"\s*\(([^()]{0,80})\)", sentence[1])
    parts = (before, after, bracket[1] if bracket else "")
    is_question = sentence[1].rstrip("\"') ").endswith("?")
    if is_question or COMPARED.search(before) or NEGATED.search(directly_before):
        return "doubtful"
    if any(OPEN.search(part) or OFFERED.search(part) for part in parts):
        return "doubtful"
    failed = FAILURE_TOLD.search(sentence[0])
    told_failure = failed and not BUT.search(sentence[0][failed.end() :])
    return "doubtful" if told_failure or DISOWNED.search(sentence[1]) else "affirmed"


def is_background(text: str, start: int, end: int) -> bool:
    """Whether the place speaks of another time, a forecast, an extreme, or how it feels."""
    sentence = sentence_around(text, start, end)
    bracket = re.search(r"\(([^()]{0,40})$", sentence[0][-41:])
    opening = sentence[0].partition(",")[0]  # "Tomorrow, it will be"
    is_short = len(opening.split()) <= 2 and not any(map(str.isdigit, opening))
    opening = opening if is_short and "," in sentence[0] else ""
    parts = (*clause_of(*sentence), bracket[1] if bracket else "", opening)
    if any(BACKGROUND.search(part) for part in parts):
        return True
    return bool(bracket and FORMER.search(bracket[1]))


def clause_has(pattern: LazyPattern, text: str, start: int, end: int) -> bool:
    """Whether the pattern occurs in the clause around the place."""
    return any(pattern.search(part) for part in clause_of(*sentence_around(text, start, end)))


def is_subsidiary(text: str, start: int, end: int) -> bool:
    """Whether the place gives a part of, or something beside, what the sentence is about."""
    return bool(SUBSIDIARY.search(clause_of(*sentence_around(text, start, end))[0]))


def stands_before(pattern: LazyPattern, text: str, start: int) -> bool:
    """Whether the pattern, which ends with ``$``, occurs directly before the place."""
    return bool(pattern.search(text[max(0, start - 60) : start]))


def last_correction(text: str) -> int:
    """Where the last word of correction ends; 0 if there is none."""
    return max((match.end() for match in CORRECTION.finditer(text)), default=0)


def are_alternatives(text: str, end: int, start: int) -> bool:
    """Whether nothing but an "or" stands between the end of one place and the start of the next."""
    gap = text[end:start]
    return len(gap) <= 40 and bool(BETWEEN_ALTERNATIVES.match(gap) or SHORT_OR.match(gap))


def are_a_range(text: str, first: int, end: int, start: int) -> bool:
    """Whether two places, the first of which begins at ``first``, are the ends of a range."""
    gap = text[end:start]
    if len(gap) > 20:
        return False
    opened = RANGE_BEGINS.search(text[max(0, first - 20) : first])
    return bool(WITHIN_A_RANGE.match(gap)) or bool(opened and AND.match(gap))


def offers_alternative(text: str, start: int, end: int) -> bool:
    """Whether an "or" touches the place on either side."""
    before, after = text[max(0, start - 30) : start], text[end : end + 30]
    in_a_list = OR_AFTER_A_LIST.match(text[end : end + 80])
    return bool(OR_BEFORE.search(before) or OR_AFTER.match(after) or in_a_list)
