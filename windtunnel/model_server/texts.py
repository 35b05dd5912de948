"""Free text: bodies, titles, queries."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area, strip_articles, strip_command, strip_noun, trim
from windtunnel.model_server.findings import field_named, plain_text
from windtunnel.model_server.lexicon import STOPWORDS, VERBS, concepts, features, stem, words
from windtunnel.model_server.names import Span, find_names, find_quoted, mask_quoted
from windtunnel.model_server.toolspec import Param
from windtunnel.model_server.typed import MISSING, Scope

SAYING = re.compile(
    r"\b(?:saying(?: that)?|which says|that says|that reads|reading|stating(?: that)?|to say(?: that)?|telling (?:him|her|them|\w+)(?: that)?|with (?:the |a )?(?:text|body|message|content|contents|words|note|description|details)(?: of| saying)?|text:|body:|message:|note:)\s*[:,]?\s*",
    re.IGNORECASE,
)
TELLING = re.compile(
    r"\b(?:tell|inform|notify|remind|message|text|email|let|ping|warn|write|alert|assure|ask|note|reply|respond|answer|remember|send|mention)\b(?:\s+[^.:]{0,60}?)?\s+that\s+(?!(?:is|was|to|by|via|in|on|with)\b)",
    re.IGNORECASE,
)
_KNOW = re.compile(r"\blet\s+(?:[\w.@'-]+\s+){1,3}?know(?:\s+that)?[\s:,]+", re.IGNORECASE)
_LEADING = re.compile(
    r"^\W*(?:(?:please|then|and|also)\s+)*(?:tell|inform|notify|ask|message|text|email|ping|warn|remind|alert|sms|dm|write(?: to)?)\s+$",
    re.IGNORECASE,
)
_WH = re.compile(r"^(?:what|how|who|when|where|which|whether|if|why)\b", re.IGNORECASE)
_CALLED = re.compile(
    r"\b(?:called|named|titled|entitled|labell?ed|with (?:the )?(?:title|name|label|subject)(?: of)?|(?:the )?(?:title|name|subject)(?: is|:)|subject)\s+:?\s*",
    re.IGNORECASE,
)
_LISTS = re.compile(
    r"\b(?:to|in|on|into|onto|from|off)\s+(?:my|the|our|your)\s+(?:[\w'-]+\s+){0,2}?(?:calendar|agenda|diary|schedule|list|todos?|to-dos?|planner|notes?|notebook|cart|basket|tasks|reminders|organi[sz]er|system|database|library|inbox|tracker|log|board|queue|playlist|contacts|journal|ledger)\b",
    re.IGNORECASE,
)
_WEB = re.compile(
    r"\b(?:(?:on|in|from|via|using|across)\s+)?(?:the\s+)?(?:web|internet|google|wikipedia)\b(?:\s+(?:for|about|and find|to find))?|\bonline\b(?:\s+for)?",
    re.IGNORECASE,
)


def literal_body(area: Area) -> Span | None:
    """What the text itself gives as the words to send or keep, if anything."""
    text = area.text
    masked = mask_quoted(text)
    quoted = area.free(find_quoted(text))
    marked = SAYING.search(masked) or _KNOW.search(masked) or TELLING.search(masked)
    if quoted:
        named = _CALLED.search(masked)
        rest = [q for q in quoted if not (named and q.start == named.end())] or quoted
        return rest[-1] if len(quoted) > 1 and marked else rest[0]
    if (
        marked
        and marked.end() < len(text)
        and not _WH.match(text[marked.end() :])
        and area.is_free(marked.end(), marked.end() + 1)
    ):
        return Span(marked.start(), len(text), trim_body(text[marked.end() :]))
    colon = re.search(r"(?<!\d):\s+(?=\S)", masked)
    if colon:
        return Span(colon.start(), len(text), trim_body(text[colon.end() :]))
    return None


def trim_body(text: str) -> str:
    text = text.strip(" \t\n,;:-")
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def told(area: Area) -> Span | None:
    """What follows "tell Bob": a clause of its own ("tell Bob I am late", "ask Bob to call me")."""
    from windtunnel.model_server.people import recipients

    for person in recipients(Area(area.text)):
        if not _LEADING.match(
            area.text[: person.start] + ("" if area.text[: person.start].endswith(" ") else " ")
        ):
            continue
        end = person.end
        rest = area.text[end:].strip(" ,")
        if (
            re.match(
                r"(?:to|about|i|we|he|she|they|you|the|my|our|it|there|happy|thanks|good|congratulations|dinner|lunch)\b",
                rest,
                re.IGNORECASE,
            )
            and len(rest.split()) > 1
        ):
            return Span(
                area.text.index(rest, end), len(area.text), trim_body(re.sub(r"^to\s+(?=\w)", "", rest))
            )
    return None


def body(scope: Scope, param: Param, side: str) -> Any:
    """The words to send, keep or translate: given literally, or the result that "it" stands for."""
    first = scope.areas[0]
    for area in scope.texts(param):
        span = literal_body(area)
        if span is not None and not (scope.refers and _is_reference(span.value)):
            area.used[span.start : span.end] = b"\x01" * (span.end - span.start)
            return _with_results(scope, span.value)
    if not param.required and scope.tool.operation != "send" and not scope.refers:
        return MISSING
    if scope.tool.operation != "send":
        return _kept(scope, param)
    if scope.past and _passes_on(scope):
        scope.leaned = True
        return compose(scope)
    if (span := told(first)) and not _is_reference(re.sub("^about ", "", span.value)):
        first.used[span.start : span.end] = b"\x01" * (span.end - span.start)
        return span.value
    if not param.required:
        return MISSING
    own = _remaining(scope)
    return (
        (own if not _is_reference(re.sub("^about ", "", own)) else "")
        or _from_context(scope)
        or own
        or MISSING
    )


def _passes_on(scope: Scope) -> bool:
    """Whether the message is to say what was found, and not words of its own."""
    own = re.sub("^(?:about|with) ", "", _remaining(scope))
    if scope.refers or not own or _is_reference(own):
        return True
    return (
        not told(scope.areas[0])
        and own.lower().startswith("the ")
        and any(_mentions(own, f) for f in scope.past)
    )


def _is_reference(text: str) -> bool:
    return bool(
        re.fullmatch(
            r"(?:it|this|that|the (?:result|answer|temperature|weather|total|forecast|value|sum|info|details|reply|translation)|them|what you find|what you found)\W*",
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
    named = features(" ".join(re.findall(r"\bthe (\w+(?: \w+)?)", text)))
    return bool(set(named) & (set(features(finding.tool.name)) | set(features(finding.question))))


def _kept(scope: Scope, param: Param) -> Any:
    """The text to translate, note or keep: the step's own words, else what "it" stands for."""
    area = scope.areas[0]
    own = area.text
    how = re.search(
        r"\b(?:say|translate|translation (?:of|for)|word for|put|define|summari[sz]e|analy[sz]e)\s+(?:the (?:\w+ )?(?:word|phrase|sentence|text|expression)s?\s+)?",
        mask_quoted(own),
        re.IGNORECASE,
    )
    if scope.past and (scope.refers or not (how and area.rest())):
        value = _referred(scope)
        if value is not None:
            return value
    text = area.rest()
    if how:
        text = re.sub(
            r"^.*?\b(?:say|translate|translation (?:of|for)|word for|put|define|summari[sz]e|analy[sz]e)\s+(?:the (?:\w+ )?(?:word|phrase|sentence|text|expression)s?\s+)?",
            "",
            text,
            count=1,
            flags=re.IGNORECASE,
        )
    else:
        text = strip_noun(strip_command(text), nouns(scope))
    text = trim(re.sub(r"\b(?:from|in|into|to)\s*$", "", _LISTS.sub("", text)))
    return text or _from_context(scope) or MISSING


def _referred(scope: Scope) -> Any:
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
    text = strip_noun(strip_command(scope.areas[0].rest()), nouns(scope))
    return trim(text)


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


def nouns(scope: Scope) -> set[str]:
    """Stems of the nouns for the thing that the tool is about."""
    named = {stem(word) for word in words(scope.tool.name) if word not in STOPWORDS}
    described = {
        stem(word)
        for word in words(scope.tool.description.split(".")[0])
        if word not in STOPWORDS and (concepts(word) or word not in VERBS)
    }
    general = "event task reminder note message entry item thing appointment email text memo ticket alarm timer todo record information info details search movie film book song recipe order"
    return named | described | {stem(word) for word in general.split()}


def title(scope: Scope, param: Param, side: str) -> Any:
    """What the thing is called: named so, quoted, or the step's words without command, dates and lists."""
    for area in scope.texts(param):
        masked = mask_quoted(area.text)
        if (named := _CALLED.search(masked)) and area.is_free(named.end(), named.end() + 1):
            quoted = [q for q in find_quoted(area.text) if q.start == named.end()]
            if quoted:
                area.use(quoted[0].start, quoted[0].end)
                return quoted[0].value
            return _until_used(area, named.end())
        if quoted := area.free(find_quoted(area.text)):
            area.use(quoted[0].start, quoted[0].end)
            return quoted[0].value
        if (
            not param.required
            and "subject" in words(param.name)
            and (about := re.search(r"\babout\s+(?!it\b|that\b|this\b)([^.,]+?)(?=$|[.,]|\s+saying)", masked))
        ):
            return trim(about[1])
        if not param.required and scope.tool.required:
            return MISSING
        if person := _for_name(area, param):
            return person
        marked = SAYING.search(masked) or re.search(r"(?<!\d):\s+(?=\S)", masked)
        if (
            marked
            and area.is_free(marked.end(), marked.end() + 1)
            and re.search(r"\S", masked[marked.end() :])
        ):
            return (
                trim(Area(area.text[marked.end() :]).text)
                if not any(area.used)
                else _until_used(area, marked.end())
            )
        text = _titled(scope, area)
        if text and not _is_reference(text):
            return text
    if param.required and scope.past:
        value = _referred(scope)
        return MISSING if value is None else str(value)
    if scope.assigned and param.required:
        return next(
            (str(v)[:60] for v in scope.assigned.values() if isinstance(v, str) and len(v) > 12), MISSING
        )
    return MISSING


def _for_name(area: Area, param: Param) -> str | None:
    if not {"name", "person", "guest"} & set(words(param.name)) or {"event", "task", "item", "product"} & set(
        words(param.name)
    ):
        return None
    under = re.search(r"\bunder (?:the name (?:of )?|my name,?\s*)?", area.text)
    spans = [s for s in area.free(find_names(area.masked())) if not under or s.start >= under.end()]
    if not spans:
        return None
    area.use(spans[0].start, spans[0].end)
    return spans[0].value


def _until_used(area: Area, start: int) -> str:
    """The text from there up to the next stretch that another argument has taken."""
    used = area.used.find(1, start)
    text = area.text[start : used if used >= 0 else len(area.text)]
    text = re.split(r",\s|\.\s|\s+(?:with|at priority|priority|and (?:assign|set|put|give))\b", text)[0]
    return trim(_LISTS.sub("", text))


def _titled(scope: Scope, area: Area) -> str:
    text = _LISTS.sub("", area.rest())
    text = re.sub(
        r"^(?:\W*remind me|\W*don't let me forget)\s*(?:of|about|that i (?:need|have) to|that|to)?\s*",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(r"^\W*(?:i|we)(?:'ve| have)? (?:have|got|need)?\s*(?:to\s)?", "", text, flags=re.IGNORECASE)
    text = strip_noun(strip_command(text), nouns(scope))
    return trim(strip_articles(trim(text)))


def query(scope: Scope, param: Param, side: str) -> Any:
    """What to look for: a quoted or proper name for a catalogue, the question itself for a search."""
    for area in scope.texts(param):
        quoted = area.free(find_quoted(area.text))
        if quoted and not (is_general(scope) and re.match(r"\s+\w+\s+\w+", area.text[quoted[0].end :])):
            area.use(quoted[0].start, quoted[0].end)
            return quoted[0].value
        if not param.required and scope.tool.required:
            return MISSING
        text = _named_thing(scope, area) if not is_general(scope) else None
        text = text or _searched(scope, area)
        if text and not (
            scope.refers and re.fullmatch(r"(?:it|this|that|them|him|her|the \w+)", text, re.IGNORECASE)
        ):
            return text
    if scope.past and param.required:
        found = (
            field_named([f.data for f in reversed(scope.past)], set(words(param.name)) - {"name", "query"})
            if param.name not in ("query", "q")
            else None
        )
        value = found if found is not None else _referred(scope)
        scope.leaned = True
        return MISSING if value is None else value if param.is_number else str(value)
    return MISSING


def is_general(scope: Scope) -> bool:
    """Whether the tool searches anything (the web, an encyclopedia) and not one kind of thing."""
    found = features(scope.tool.name + " " + scope.tool.description)
    named = features(scope.tool.name)
    return "@web" in found or not any(
        key.startswith("@") for key in {**named, **features(" ".join(p.name for p in scope.tool.params))}
    )


def _named_thing(scope: Scope, area: Area) -> str | None:
    masked = area.masked()
    named = _CALLED.search(masked)
    if named and named.end() < len(masked) and masked[named.end() :].strip():
        return _until_used(area, named.end())
    own = nouns(scope)
    names = [s for s in find_names(masked) if not {stem(w) for w in words(s.value)} <= own]
    if not names:
        return None
    names.sort(key=lambda s: -len(s.value))
    area.use(names[0].start, names[0].end)
    return names[0].value


def _searched(scope: Scope, area: Area) -> str:
    text = _WEB.sub(" ", area.rest())
    text = re.sub(r"\s+", " ", text).strip()
    text = strip_command(text)
    text = re.sub(
        r"^(?:(?:any|some|more|the latest)?\s*(?:information|info|details|facts|data|results|out|everything)\s*(?:on|about|for|of|regarding)?\s+)",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(r"^(?:for|about|out|on)\s+", "", text, flags=re.IGNORECASE)
    if is_general(scope):
        return trim(strip_articles(text)) if not _WH.match(text) else text.strip(" .?!")
    text = re.sub(
        r"^(?:what|which|who|whose|how|where|when)(?:['’]s| is| are| was| were| does| do| did| much| many)*\s+",
        "",
        text,
        flags=re.IGNORECASE,
    )
    stripped = strip_noun(text, nouns(scope), keep=())
    kept = [w for w in re.findall(r"[^\s]+", stripped)]
    while len(kept) > 1 and stem(re.sub(r"\W", "", kept[-1]).lower()) in nouns(scope):
        kept.pop()
    return trim(strip_articles(" ".join(kept)))
