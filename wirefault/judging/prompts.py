"""The prompts file: a JSON list of ``{"prompt": text, "id": name, "expect": oracle}``.

``id`` and ``expect`` may be absent, and ``"turns": [text, ...]`` may stand for ``prompt``: what is said in a
conversation, one after the other. ``"next_turn": "module:function"`` makes further turns from what was said,
up to ``"most_turns"`` in all. The key of an entry, its ``id`` or a hash of its text, is what its faults are
drawn by: they depend neither on its place nor on other entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import unique
from wirefault.core.plugins import load_function
from wirefault.history.events import PromptsSource
from wirefault.judging.oracle.expect import parse_expect
from wirefault.judging.prompt_keys import checked_id, numbered, turns_key
from wirefault.judging.prompt_turns import NextTurn, next_turn_of, turns_of
from wirefault.wiring.links import Links

_NAMES = ("prompt", "turns", "id", "expect", "next_turn", "most_turns")
_BETWEEN_ENTRIES = re.compile(r"[\s,]*")


class PromptsError(InputError):
    """A prompts file of which nothing can be used; the message says what to do."""


@dataclass(frozen=True)
class Prompt:
    """``key`` names its episode. ``place`` is where the entry stands in the file, from 1.

    ``turns`` are those of a conversation, and ``text`` all of them; empty where the text is all there is.
    ``next_turn``: who makes further ones.
    """

    key: str
    text: str
    expect: Mapping[str, Any] | None = None
    place: int = 0
    turns: tuple[str, ...] = ()
    next_turn: NextTurn | None = None

    @property
    def is_conversation(self) -> bool:
        return bool(self.turns or self.next_turn)


@dataclass(frozen=True)
class Prompts:
    """The usable entries in order, and for each bad one where it stands and what is wrong with it."""

    entries: list[Prompt]
    problems: list[str] = field(default_factory=list)
    source: PromptsSource = field(default_factory=PromptsSource)


def load_prompts(
    path: Path, only: Sequence[str] = (), match: str = "", links: Links | None = None
) -> Prompts:
    """Reads the file; bad entries are left out and reported.

    ``only`` (keys, patterns of them with ``*``, or places) and ``match`` (words of the text) pick some of the
    entries, whose keys stay what they are in the whole file. Oracles may ask for requests on these ``links``
    alone. Raises ``PromptsError`` if no entry is good or one to be picked is not there.
    """
    data = _bytes(path)
    text, entries = _parsed(data, path)
    places = [f"{path}:{line}" for line in _lines_of_entries(text)]
    source = PromptsSource(str(path), sha256(data).hexdigest(), list(only), match)
    return _loaded(entries, places, str(path), source, links, path.parent)


def prompts_of_entries(
    entries: Sequence[object],
    where: str,
    only: Sequence[str] = (),
    links: Links | None = None,
    folder: Path = Path(),
) -> Prompts:
    """The same of entries that stand elsewhere, at ``where`` in that folder. Raises ``PromptsError``."""
    return _loaded(entries, [where] * len(entries), where, PromptsSource(only=list(only)), links, folder)


def _loaded(
    entries: Sequence[object],
    places: Sequence[str],
    where: str,
    source: PromptsSource,
    links: Links | None,
    folder: Path,
) -> Prompts:
    loaded = Prompts([], source=source)
    keys = _Keys(entries)
    for number, (entry, place) in enumerate(zip(entries, places, strict=True), start=1):
        try:
            loaded.entries.append(_prompt(entry, number, keys, links, folder))
        except ValueError as error:
            loaded.problems.append(f"{place}: entry {number} is left out: {error}")
    try:
        return replace(loaded, entries=_picked(loaded))
    except ValueError as error:
        problems = "".join(f"\n  {problem}" for problem in loaded.problems)
        raise PromptsError(f"{where}: {error}{problems}") from None


def check_turns(prompts: Prompts, holds_them: bool) -> None:
    """Raises ``PromptsError`` for a conversation if the subject holds none."""
    conversation = next((prompt for prompt in prompts.entries if prompt.is_conversation), None)
    if conversation and not holds_them:
        has = f"{len(conversation.turns)} turns" if conversation.turns else "a next_turn"
        where = f"{prompts.source.file}: entry {conversation.place} has {has}"
        raise PromptsError(
            f"{where}, and this subject takes one prompt at a time; of a wiring's subjects python holds a"
            " conversation, and service and http do whose request has {conversation} in it"
        )


def check_next_turns(prompts: Prompts) -> None:
    """Loads the functions that make turns, once each. Raises ``PromptsError`` for one that is not there."""
    makers = {prompt.next_turn.function: prompt for prompt in prompts.entries if prompt.next_turn}
    for function, prompt in makers.items():
        try:
            load_function(function)
        except ValueError as error:
            raise PromptsError(f"{prompts.source.file}: entry {prompt.place}: next_turn: {error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PromptsError(f"{path}: no such file; name one with --prompts or PROMPTS_FILE") from None
    except OSError as error:
        raise PromptsError(f"{path}: cannot be read: {error.strerror}") from None


def _parsed(data: bytes, path: Path) -> tuple[str, list[object]]:
    """The file's text and its list."""
    try:
        text = data.decode()
        entries = json.loads(text, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise PromptsError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise PromptsError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a key given twice, a number too long, nested too deep
        raise PromptsError(f"{path}: {error}") from None
    if not isinstance(entries, list):
        raise PromptsError(f'{path}: must be a list, [{{"prompt": "..."}}], not {type(entries).__name__}')
    return text, entries


def _lines_of_entries(text: str) -> Iterator[int]:
    """The line on which each entry of the list begins; the text is known to be a list in JSON."""
    decoder = json.JSONDecoder()
    before, end, line = 0, text.index("[") + 1, 1
    while text[start := _after_blanks(text, end)] != "]":
        line += text.count("\n", before, start)
        yield line
        _, end = decoder.raw_decode(text, start)
        before = start


def _after_blanks(text: str, position: int) -> int:
    blanks = _BETWEEN_ENTRIES.match(text, position)
    return blanks.end() if blanks else position


class _Keys:
    """Hands out the keys of one file's entries. Those made of texts are settled before any ``id``."""

    def __init__(self, entries: Sequence[object]) -> None:
        # a bad entry has its number, too: mending it moves no other
        unnamed = {place: turns for place, entry in enumerate(entries, start=1) if (turns := _unnamed(entry))}
        self._made = dict(zip(unnamed, numbered(map(turns_key, unnamed.values())), strict=True))
        self._places = {key: place for place, key in self._made.items()}

    def take(self, entry: Mapping[str, Any], place: int) -> str:
        """The entry's own key. Raises ``ValueError`` if its ``id`` can be none, or is another entry's key."""
        if "id" not in entry:
            return self._made[place]
        key = checked_id(entry["id"])
        if self._places.setdefault(key, place) != place:
            raise ValueError(f'"id" {key!r} is the key of entry {self._places[key]}')
        return key


def _unnamed(entry: object) -> list[str]:
    """What is said in an entry without an ``id``; nothing if it has one, or no text."""
    if not isinstance(entry, dict) or "id" in entry:
        return []
    turns = entry.get("turns", [entry.get("prompt")])
    if not isinstance(turns, list):
        return []
    texts = [turn for turn in turns if isinstance(turn, str) and turn.strip()]
    return texts if texts == turns else []


def _prompt(entry: object, place: int, keys: _Keys, links: Links | None, folder: Path) -> Prompt:
    if not isinstance(entry, dict):
        raise ValueError(f'not an object with a "prompt" but {json.dumps(entry)[:60]}')
    for name in entry:
        if name not in _NAMES:
            raise ValueError(f"{name!r} is no key of a prompt{nearest(name, _NAMES)}")
    turns, next_turn = turns_of(entry), next_turn_of(entry, folder)
    key = keys.take(entry, place)
    expect = entry.get("expect")
    if expect is not None:
        if not isinstance(expect, dict):
            raise ValueError('"expect" must be an object')
        parse_expect(expect, links)
    conversation = tuple(turns) if len(turns) > 1 else ()
    return Prompt(key, "\n".join(turns), expect, place, conversation, next_turn)


def _picked(prompts: Prompts) -> list[Prompt]:
    """Those that one of ``only`` names, and those whose text contains ``match``, whatever its case.

    Raises ``ValueError`` if there is none.
    """
    entries, source = prompts.entries, prompts.source
    if not entries:
        raise ValueError('no prompt in it; it needs [{"prompt": "..."}]')
    if not source.picked:
        return entries
    keys = {key for name in source.only for key in _keys_for(name, entries)}
    if source.match:
        matching = {prompt.key for prompt in entries if source.match.casefold() in prompt.text.casefold()}
        if not matching:
            raise ValueError(f"--match={source.match!r}: no prompt contains it")
        keys |= matching
    return [prompt for prompt in entries if prompt.key in keys]


def _hashed(prompt: Prompt) -> str:
    return turns_key(prompt.turns or (prompt.text,))


def _keys_for(name: str, entries: Sequence[Prompt]) -> Sequence[str]:
    """Those that a pattern with ``*`` matches, else the one that is named. Raises ``ValueError``."""
    if "*" not in name:
        return [_key_for(name, entries)]
    matching = [prompt.key for prompt in entries if fnmatchcase(prompt.key, name)]
    if not matching:
        raise ValueError(f"--only={name!r}: no prompt has such an id")
    return matching


def _key_for(name: str, entries: Sequence[Prompt]) -> str:
    """A key goes before a place, since an ``id`` may be a number. Raises ``ValueError``."""
    places = {str(prompt.place): prompt.key for prompt in entries}
    if name in places.values():
        return name
    if name in places:
        return places[name]
    ids = [prompt.key for prompt in entries if not prompt.key.startswith(_hashed(prompt))]
    hint = nearest(name, ids) if ids else ""
    raise ValueError(
        f"--only={name!r}: no entry has this id, and places go from 1 to {max(map(int, places))}{hint}"
    )
