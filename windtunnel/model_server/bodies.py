"""Bodies of messages and texts to keep or translate, given literally or made of earlier results."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import strip_articles, strip_command, strip_noun, trim
from windtunnel.model_server.findings import plain_text
from windtunnel.model_server.lexicon import attributes, features, words
from windtunnel.model_server.names import mask_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.told import literal_body, told, trim_body
from windtunnel.model_server.toolspec import Param


def body(scope: Scope, param: Param, side: str) -> Any:
    """The words to send, keep or translate: given literally, or the result that "it" stands for."""
    first = scope.areas[0]
    for area in scope.texts(param):
        span = literal_body(area)
        if span is not None and not (scope.refers and is_pronoun(span.value)):
            area.used[span.start : span.end] = b"\x01" * (span.end - span.start)
            return _with_results(scope, span.value)
    if "reason" in words(param.name) and (
        why := re.search(r"\b(?:because(?: of)?|due to|since|as)\s+(\S.*)", first.text)
    ):
        return trim_body(why[1])
    if not param.required and scope.tool.operation != "send" and not scope.refers:
        return MISSING
    if scope.tool.operation != "send":
        return _kept(scope, param)
    if scope.past and _passes_on(scope):
        scope.leaned = True
        return compose(scope)
    if (span := told(first)) and not is_pronoun(re.sub("^about ", "", span.value)):
        first.used[span.start : span.end] = b"\x01" * (span.end - span.start)
        return span.value
    if not param.required:
        return MISSING
    own = _remaining(scope)
    return (
        (own if not is_pronoun(re.sub("^about ", "", own)) else "") or _from_context(scope) or own or MISSING
    )


def _passes_on(scope: Scope) -> bool:
    """Whether the message is to say what was found, and not words of its own."""
    own = re.sub("^(?:about|with) ", "", _remaining(scope))
    if scope.refers or not own or is_pronoun(own):
        return True
    only_writes = all(finding.writes for finding in scope.past)
    named = own.lower().startswith("the ") and (only_writes or any(_mentions(own, f) for f in scope.past))
    return named and not told(scope.areas[0])


def is_pronoun(text: str) -> bool:
    return bool(
        re.fullmatch(
            r"(?:it|this|that|the (?:result|answer|temperature|weather|total|forecast|value|sum"
            r"|info|details|reply|translation)|them|what you find|what you found)\W*",
            text.strip(),
            re.IGNORECASE,
        )
    )


_HOLE = re.compile(r"(?:\{\w*\}|\[[\w ]+\]|<[\w ]+>|\bX\b)")


def _with_results(scope: Scope, text: str) -> str:
    """Fills a gap in given words ("It is [temperature] there") with the last figure found."""
    values = [value for finding in scope.past for value in finding.values]
    if values and _HOLE.search(text):
        scope.leaned = True
        return _HOLE.sub(values[-1].text, text)
    return text


def compose(scope: Scope) -> str:
    """A message that passes on what was found, figures included."""
    reads = [f for f in scope.past if f.sentence and not f.writes] or [f for f in scope.past if f.sentence]
    text = scope.areas[0].text
    several = len(reads) > 1 and re.search(
        r"\b(?:both|them|all|these|those|results|values|temperatures|everything|answers|figures|each)\b",
        text,
        re.IGNORECASE,
    )
    named = [f for f in reads if _mentions(text, f)]
    chosen = reads if several else named[-1:] if named else reads[-1:]
    if reads and not several and not named and _same_kind(reads):
        chosen = reads
    return " ".join(finding.sentence for finding in chosen) or plain_text(scope.past[-1].data)


def _same_kind(reads: list[Any]) -> bool:
    return len({finding.tool.name for finding in reads}) == 1


def _mentions(text: str, finding: Any) -> bool:
    """Whether the words "the temperature", "the translation" name this finding."""
    listed = " ".join(re.findall(r"\bthe (\w+(?: \w+)?)", text))
    senses = {sense for word in words(listed) for sense in attributes(word)}
    asked = {sense for word in words(finding.question) for sense in attributes(word)}
    named = {*features(finding.tool.name), *features(finding.question)}
    return bool(set(features(listed)) & named or senses & asked)


def _kept(scope: Scope, param: Param) -> Any:
    """The text to translate, note or keep: the step's own words, else what "it" stands for."""
    area = scope.areas[0]
    own = area.text
    how = re.search(
        r"\b(?:say|translate|translation (?:of|for)|word for|put|define|summari[sz]e|analy[sz]e)\s+(?:the "
        r"(?:\w+ )?(?:word|phrase|sentence|text|expression)s?\s+)?",
        mask_quoted(own),
        re.IGNORECASE,
    )
    if scope.past and (scope.refers or not (how and area.rest())):
        value = referred(scope)
        if value is not None:
            return value
    text = area.rest()
    if how:
        text = re.sub(
            r"^.*?\b(?:say|translate|translation (?:of|for)|word for|put|define|summari[sz]e"
            r"|analy[sz]e)\s+(?:the (?:\w+ )?(?:word|phrase|sentence|text|expression)s?\s+)?",
            "",
            text,
            count=1,
            flags=re.IGNORECASE,
        )
    else:
        text = strip_noun(strip_command(text), scope.nouns())
    text = trim(re.sub(r"\b(?:from|in|into|to)\s*$", "", LISTS.sub("", text)))
    return text or _from_context(scope) or MISSING


def referred(scope: Scope) -> Any:
    """The text or figure that "it" stands for."""
    for finding in reversed(scope.past):
        if finding.values:
            scope.leaned = True
            values = finding.values
            written = (
                finding.sentence
                if values[0].is_number and scope.tool.writes
                else ", ".join(v.text for v in values)
            )
            return written
        if finding.data is not None and not finding.writes:
            scope.leaned = True
            return plain_text(finding.data)
    return None


def _remaining(scope: Scope) -> str:
    text = strip_noun(strip_command(scope.areas[0].rest()), scope.nouns())
    return trim(re.sub(r"^(?:him|her|them|us)\b\s*", "", text))


def _from_context(scope: Scope) -> str:
    for area in scope.areas[1:]:
        text = trim(
            strip_articles(
                re.sub(r"^(?:i|we)\s+(?:have|need|want|got)(?: to)?\s+", "", area.rest(), flags=re.IGNORECASE)
            )
        )
        if text:
            return text
    return ""


LISTS = re.compile(
    r"\b(?:to|in|on|into|onto|from|off)\s+(?:my|the|our|your)\s+(?:[\w'-]+\s+){0,2}?(?:calendar"
    r"|agenda|diary|schedule|list|todos?|to-dos?|planner|notes?|notebook|cart|basket"
    r"|tasks|reminders|organi[sz]er|system|database|library|inbox|tracker|log|board|queue"
    r"|playlist|contacts|journal|ledger)(?:\s+list)?\b",
    re.IGNORECASE,
)
