"""Which values of a result a question asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.model_server.findings import META, Leaf, Value, is_item, leaves, main_list, shown, unit_of
from windtunnel.model_server.lexicon import STOPWORDS, attributes, stem, wordlist, words
from windtunnel.model_server.snippets import from_text

_HEADLINE = wordlist(
    "result answer value output translated_text translated translation converted converted_amount "
    "converted_value "
    "amount total sum balance temp temperature price status forecast condition conditions "
    "definition meaning eta "
    "description summary text body content message title name rate score level state time date"
)
_ITEM_HEADLINE = wordlist(
    "body title name subject task text item headline label message snippet content summary "
    "description product date"
)
_SUPERLATIVE = {
    "cheapest": ("price", False),
    "lowest": ("price", False),
    "expensive": ("price", True),
    "priciest": ("price", True),
    "highest": ("rating", True),
    "best": ("rating", True),
    "newest": ("date", True),
    "latest": ("date", True),
    "earliest": ("time", False),
    "oldest": ("year", False),
    "shortest": ("duration", False),
    "longest": ("duration", True),
    "fastest": ("duration", False),
    "nearest": ("distance", False),
    "closest": ("distance", False),
}
_GENERIC = {
    stem(word)
    for word in wordlist("event meeting appointment message task order note list item book movie reminder")
}
_COUNT = re.compile(r"\bhow many\b|\bnumber of\b|\bcount\b", re.IGNORECASE)
_FIRST = re.compile(
    r"\b(first|top|next|latest|last|newest|most recent)\b(?! (?:name|week|month|night|year))", re.IGNORECASE
)


def asked_values(question: str, arguments: Mapping[str, Any], data: Any) -> tuple[Value, ...]:
    """The values that the question asks of this result, in the order asked; empty if it has none."""
    if isinstance(data, str):
        return from_text(question, data)
    if isinstance(data, bool | int | float):
        return (Value(shown(data)),)
    listed = main_list(data)
    if listed is not None and _COUNT.search(question) and not _counted(question, data):
        return (Value(len(listed), None, "count"),)
    outside = [leaf for leaf in leaves(data) if not _in_list(leaf, data, listed)]
    matched = _matched(question, outside, arguments)
    if matched:
        return tuple(_value(leaf, arguments) for leaf in matched)
    if listed:
        return _of_list(question, arguments, listed)
    return _headline(outside, arguments, _HEADLINE)


def _in_list(leaf: Leaf, data: Any, listed: list[Any] | None) -> bool:
    if not listed or not isinstance(data, Mapping):
        return listed is not None and data is listed
    return any(data.get(leaf.path[0]) is listed or _inside(data.get(leaf.path[0]), listed) for _ in (0,))


def _inside(data: Any, listed: list[Any]) -> bool:
    return isinstance(data, Mapping) and any(value is listed for value in data.values())


def _counted(question: str, data: Any) -> bool:
    """Whether "how many" asks for a figure of the result rather than for the length of its list."""
    after = re.search(r"(?:how many|number of)\s+([\w -]+)", question, re.IGNORECASE)
    wanted = {stem(word) for word in words(after[1])[:3]} if after else set()
    return any(
        isinstance(leaf.value, int)
        and (wanted & {stem(word) for word in leaf.tokens})
        and leaf.key not in META
        for leaf in leaves(data)
    ) and not any(stem(key) in wanted for key, value in _items(data) if isinstance(value, list))


def _items(data: Any) -> Sequence[tuple[str, Any]]:
    return list(data.items()) if isinstance(data, Mapping) else []


def _matched(question: str, candidates: Sequence[Leaf], arguments: Mapping[str, Any]) -> list[Leaf]:
    """The leaves whose key is named by a word of the question, in the order of those words."""
    echoes = {word for value in arguments.values() for word in words(str(value))}
    said = f" {question.casefold()} "
    usable = [leaf for leaf in candidates if not _is_echo(leaf, arguments) and not _is_said(leaf, said)]
    found: list[Leaf] = []
    for word in _asking_words(question, echoes):
        best = _best(word, usable)
        if best is not None and best not in found:
            found.append(best)
    return [leaf for leaf in found if not any(_covers(other, leaf) for other in found if other is not leaf)]


def _covers(other: Leaf, leaf: Leaf) -> bool:
    """A generic second match beside a number of the same object ("total price" matching two keys) stays
    out."""
    return isinstance(leaf.value, str) and leaf.value == str(other.value)


def _asking_words(question: str, echoes: set[str]) -> list[str]:
    lowered = question.lower()
    if re.search(r"\bhow much\b", lowered) and not re.search(r"\bhow much (?:is|are) (?:\d|[$€£])", lowered):
        lowered = re.sub(r"\bhow much\b", "price", lowered)
    kept = {"when", "where", "long"} | ({"from"} if re.search(r"\bwhom?\b", lowered) else set())
    return [w for w in words(lowered) if (w not in STOPWORDS or w in kept) and w not in echoes]


def _best(word: str, candidates: Sequence[Leaf]) -> Leaf | None:
    wanted, senses = stem(word), set(attributes(word))
    best: tuple[float, Leaf] | None = None
    for leaf in candidates:
        tokens = [token for token in leaf.tokens if token not in ("unit", "units", "is")]
        if word in ("from", "long", "when", "where") and not senses & {
            a for t in tokens for a in attributes(t)
        }:
            continue
        score = 0.0
        if any(stem(token) == wanted for token in tokens):
            score = 3.0
        elif senses & {sense for token in tokens for sense in attributes(token)}:
            score = 2.0
        if not score or (leaf.key in META and leaf.key != word and score < 3):
            continue
        score -= 0.2 * (len(tokens) - 1) + 0.05 * len(leaf.path)
        score += 0.3 if isinstance(leaf.value, int | float) or leaf.key == word else 0.0
        if leaf.key in ("unit", "units", "currency") and word not in ("unit", "units", "currency"):
            continue
        if best is None or score > best[0]:
            best = score, leaf
    return best[1] if best else None


def _is_echo(leaf: Leaf, arguments: Mapping[str, Any]) -> bool:
    if isinstance(leaf.value, bool):
        return False
    text = str(leaf.value).casefold()
    return any(text == str(value).casefold() for value in arguments.values() if not isinstance(value, bool))


def _is_said(leaf: Leaf, question: str) -> bool:
    """Whether the question itself gives the value ("what did Bob write" does not ask for "Bob")."""
    text = str(leaf.value).casefold()
    return (
        isinstance(leaf.value, str)
        and len(text) > 2
        and re.search(rf"\W{re.escape(text)}\W", question) is not None
    )


def _value(leaf: Leaf, arguments: Mapping[str, Any]) -> Value:
    label = " ".join(token for token in leaf.tokens if token not in ("main", "value") and len(token) > 1)
    return Value(shown(leaf.value), unit_of(leaf, arguments), label)


def _headline(
    candidates: Sequence[Leaf], arguments: Mapping[str, Any], order: Sequence[str]
) -> tuple[Value, ...]:
    usable = [leaf for leaf in candidates if not _is_echo(leaf, arguments)]
    for name in order:
        for leaf in usable:
            if leaf.key.lower() == name:
                return (_value(leaf, arguments),)
    for name in order:
        for leaf in usable:
            if name in leaf.tokens and leaf.key not in META:
                return (_value(leaf, arguments),)
    rest = [leaf for leaf in usable if leaf.key not in META] or [
        leaf for leaf in candidates if leaf.key not in META
    ]
    return (_value(rest[0], arguments),) if rest else ()


def _of_list(question: str, arguments: Mapping[str, Any], listed: list[Any]) -> tuple[Value, ...]:
    if not all(is_item(each) for each in listed):
        return tuple(Value(shown(each)) for each in listed[:10] if isinstance(each, str | int | float))
    if all("snippet" in each for each in listed):
        for each in listed[:3]:
            values = from_text(question, str(each["snippet"]))
            if values and (values[0].is_number or len(str(values[0].value)) < 80):
                return values
        return from_text(question, str(listed[0]["snippet"]))
    if told := _told(question, listed):
        return told
    chosen = _chosen(question, arguments, listed)
    found: list[Value] = []
    for each in chosen:
        own = leaves(each)
        matched = _matched(question, own, arguments)
        kept = [leaf for leaf in matched if leaf.key not in ("title", "name")] or matched
        found += [_value(leaf, arguments) for leaf in kept] or _headline(own, {}, _ITEM_HEADLINE)
    return tuple(found)


_LONG_TEXTS = ("body", "content", "text", "message", "description", "note")
_WH = re.compile(r"^\W*(?:what|who|when|where|which|how)\b", re.IGNORECASE)


def _told(question: str, listed: list[Any]) -> tuple[Value, ...]:
    """What one of the texts says to a question about its content ("what is the budget for the offsite?")."""
    texts = [str(each[key]) for each in listed for key in _LONG_TEXTS if isinstance(each.get(key), str)]
    asked = {stem(word) for word in words(question) if word not in STOPWORDS} - _GENERIC
    if not _WH.match(question) or len(asked) < 2 or not texts:
        return ()
    shared = [len(asked & {stem(word) for word in words(text)}) for text in texts]
    best = max(shared)
    return from_text(question, texts[shared.index(best)]) if best >= 2 and shared.count(best) == 1 else ()


def _chosen(question: str, arguments: Mapping[str, Any], listed: list[Any]) -> list[Any]:
    """One item where the question is about one, else the first ten."""
    for word in words(question):
        if word in _SUPERLATIVE:
            kind, largest = _SUPERLATIVE[word]
            ranked = [(value, each) for each in listed if (value := _ranked(each, kind)) is not None]
            if ranked:
                return [sorted(ranked, key=lambda pair: pair[0], reverse=largest)[0][1]]
    if match := _FIRST.search(question):
        return listed[-1:] if match[1].lower() == "last" else listed[:1]
    searched = [
        str(value).casefold()
        for value in arguments.values()
        if isinstance(value, str) and len(str(value)) > 2
    ]
    named = [each for each in listed if _titles(each) & set(searched)]
    if named:
        return named[:1]
    about = [each for each in listed if any(text in title for text in searched for title in _titles(each))]
    asked = {stem(word) for word in words(question) if word not in STOPWORDS} - _GENERIC
    mentioned = [each for each in listed if asked & {stem(w) for t in _people(each) for w in words(t)}]
    if about and not re.search(
        r"\b(?:all|list|which|movies|books|songs|every|any|films|recipes|products)\b", question, re.IGNORECASE
    ):
        return about[:1]
    return (mentioned or listed)[:10]


def _titles(each: Mapping[str, Any]) -> set[str]:
    return {
        str(each[key]).casefold() for key in ("title", "name", "original_name", "full_name") if key in each
    }


def _people(each: Mapping[str, Any]) -> list[str]:
    return [str(each[key]) for key in ("from", "sender", "author", "name", "title", "subject") if key in each]


def _ranked(each: Mapping[str, Any], kind: str) -> Any:
    for leaf in leaves(each):
        if kind in {sense for token in leaf.tokens for sense in attributes(token)} and not isinstance(
            leaf.value, bool
        ):
            return leaf.value
    return None
