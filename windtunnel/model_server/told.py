"""The words that a text gives to be sent or kept: quoted, after "saying", after "tell Bob"."""

from __future__ import annotations

import re

from windtunnel.model_server.areas import Area
from windtunnel.model_server.names import Span, find_quoted, mask_quoted
from windtunnel.model_server.people import recipients

SAYING = re.compile(
    r"\b(?:saying(?: that)?|which says|that says|that reads|reading|stating(?: that)?"
    r"|to say(?: that)?|telling (?:him|her|them|\w+)(?: that)?|with (?:the |a )?(?:text"
    r"|body|message|content|contents|words|note|description|details)(?: of| saying)?"
    r"|text:|body:|message:|note:)\s*[:,]?\s*",
    re.IGNORECASE,
)

TELLING = re.compile(
    r"\b(?:tell|inform|notify|remind|message|text|email|let|ping|warn|write|alert|assure"
    r"|ask|note|reply|respond|answer|remember|send|mention|post|announce|share|publish)\b(?:\s+[^.:]{0,60}?)?\s+that\s+(?!(?:is"
    r"|was|to|by|via|in|on|with)\b)",
    re.IGNORECASE,
)

_KNOW = re.compile(r"\blet\s+(?:[\w.@'-]+\s+){1,3}?know(?:\s+that)?[\s:,]+", re.IGNORECASE)

_LEADING = re.compile(
    r"^\W*(?:(?:please|then|and|also)\s+)*(?:tell|inform|notify|ask|remind|thank|let"
    r"|message|text|email|ping|warn|remind|alert|sms|dm|write(?: to)?)\s+$",
    re.IGNORECASE,
)

WH = re.compile(r"^(?:what|how|who|when|where|which|whether|if|why)\b", re.IGNORECASE)

CALLED = re.compile(
    r"\b(?:called|named|titled|entitled|labell?ed|with (?:the )?(?:title|name|label|subject)(?: "
    r"of)?|(?:the )?(?:title|name|subject)(?: is|:)|subject)\s+:?\s*",
    re.IGNORECASE,
)

_FINITE = re.compile(r"\b(?:is|are|was|were|will|has|have|had|can|must|'s|starts?|begins?|arrived?|needs?)\b")


def literal_body(area: Area) -> Span | None:
    """What the text itself gives as the words to send or keep, if anything."""
    text = area.text
    masked = mask_quoted(text)
    quoted = area.free(find_quoted(text))
    marked = SAYING.search(masked) or _let_know(masked) or TELLING.search(masked)
    if quoted:
        named = CALLED.search(masked)
        rest = [q for q in quoted if not (named and q.start == named.end())]
        if rest:
            return rest[-1] if len(quoted) > 1 and marked else rest[0]
    if (
        marked
        and marked.end() < len(text)
        and not WH.match(text[marked.end() :])
        and area.is_free(marked.end(), marked.end() + 1)
    ):
        return Span(marked.start(), len(text), trim_body(text[marked.end() :]))
    colon = re.search(r"(?<!\d):\s+(?=\S)", masked)
    if colon:
        return Span(colon.start(), len(text), trim_body(text[colon.end() :]))
    return None


def _let_know(masked: str) -> re.Match[str] | None:
    """ "let Bob know ...", unless what follows is only a thing to look up ("the temperature in Oslo")."""
    match = _KNOW.search(masked)
    rest = masked[match.end() :] if match else ""
    return None if rest.lower().startswith("the ") and not _FINITE.search(rest) else match


def trim_body(text: str) -> str:
    text = text.strip(" \t\n,;:-")
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def told(area: Area) -> Span | None:
    """What follows "tell Bob": a clause of its own ("tell Bob I am late", "ask Bob to call me")."""
    for person in recipients(Area(area.text)):
        if not _LEADING.match(
            area.text[: person.start] + ("" if area.text[: person.start].endswith(" ") else " ")
        ):
            continue
        end = person.end
        rest = area.text[end:].strip(" ,")
        if (
            re.match(
                r"(?:to|about|i|we|he|she|they|you|the|my|our|it|there|whether|if|please|don't|not"
                r"|happy|thanks|good|congratulations|dinner|lunch)\b",
                rest,
                re.IGNORECASE,
            )
            and len(rest.split()) > 1
        ):
            return Span(
                area.text.index(rest, end), len(area.text), trim_body(re.sub(r"^to\s+(?=\w)", "", rest))
            )
    return None
