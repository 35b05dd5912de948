"""The prompts of a run: a list of ``{"prompt": text, "id": name, "expect": oracle}``.

``prompt_files`` reads the forms of files that people have.

``id`` and ``expect`` are optional; ``metadata``, and keys that this version does not know, are kept and never
shown to the agent. A conversation has ``"turns": [text, ...]`` instead of ``prompt``, and
``"next_turn": "module:function"`` makes further turns from the messages so far, up to ``"max_turns"``.
``tool_links`` names the links that the task needs: with ``TOXIC_SCOPE=used`` only these get toxics.
``paraphrases`` has the same task in other words, for experiments that perturb their prompts.

The key of an entry is its ``id``, else a hash of its texts. It names the entry's episodes, worlds and draws,
and does not change when other entries are added, removed or moved.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.core.files import read_input_bytes
from wirefault.core.identity import digest, text_digest
from wirefault.core.lab_folder import sample_prompts
from wirefault.core.plugins import checked_function_name, load_function, located_function
from wirefault.wiring.eval_samples import Entry
from wirefault.wiring.foreign_prompts import converted
from wirefault.wiring.prompt_files import PromptsFileError, read_entries

# checks an entry's ``expect`` and raises ``ValueError`` (``judging.oracle.expect.expect_check``)
ExpectCheck = Callable[[Mapping[str, Any]], object]

_NAMES = (
    "prompt",
    "turns",
    "id",
    "expect",
    "tool_links",
    "next_turn",
    "max_turns",
    "paraphrases",
    "metadata",
)
_LIKELY_MISSPELT = 0.75  # similarity of an unknown key to a known one
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_BYTES = 4
_MAX_TURNS = 50
_DEFAULT_TURNS = 10


class PromptsError(InputError):
    """A prompts file without a usable entry; the message says what to do."""


@dataclass(frozen=True)
class PromptsSource:
    """The source of a run's prompts."""

    file: str = ""
    """As the user named it."""
    sha256: str = ""
    """Of the file's bytes."""
    only: list[str] = field(default_factory=list)
    """Keys, patterns or positions of the selected entries; empty selects all."""
    match: str = ""
    """Words that the text of a selected entry contains."""
    texts: list[str] = field(default_factory=list)
    """Prompts passed as texts instead of a file."""

    @property
    def picked(self) -> bool:
        return bool(self.only or self.match)


@dataclass(frozen=True)
class NextTurn:
    """``function`` makes each further turn from the messages so far, until there are ``max_turns``."""

    function: str
    max_turns: int


@dataclass(frozen=True)
class Prompt:
    """One usable entry."""

    key: str
    """The name of its episode."""
    text: str
    """All turns, joined by line ends."""
    expect: Mapping[str, Any] | None = None
    place: int = 0
    """Its position in the file, from 1."""
    turns: tuple[str, ...] = ()
    """The turns of a conversation; empty for a single text."""
    next_turn: NextTurn | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Kept for the reader of the run; the agent does not see it."""
    tool_links: tuple[str, ...] | None = None
    """The links to tools that its task needs; None: unknown."""
    paraphrases: tuple[tuple[str, ...], ...] = ()
    """The same task in other words: the turns of each, or its only text."""

    @property
    def is_conversation(self) -> bool:
        return bool(self.turns or self.next_turn)


@dataclass(frozen=True)
class Prompts:
    """The usable entries in order."""

    entries: list[Prompt]
    problems: list[str] = field(default_factory=list)
    """A line for each bad entry: where it is and what is wrong."""
    notes: list[str] = field(default_factory=list)
    """A line for each part of another tool's file without a counterpart here, and for the columns taken."""
    source: PromptsSource = field(default_factory=PromptsSource)

    def without_places(self) -> Prompts:
        """Return the prompts without their places, which say nothing in a part of a file."""
        return replace(self, entries=[replace(each, place=0) for each in self.entries])


def load_prompts(
    path: Path,
    only: Sequence[str] = (),
    match: str = "",
    check_expect: ExpectCheck | None = None,
    content: bytes | None = None,
    name: Path | None = None,
) -> Prompts:
    """Read the file; bad entries are skipped and reported, by the file's ``name`` if it has another one.

    ``only`` (keys, patterns of keys with ``*``, or positions) and ``match`` (words of the text) select
    entries, which keep their keys. Without ``check_expect`` oracles are not checked. ``content``:
    the file's, if it was read already. Raises ``PromptsError`` if no entry is usable or a selected one does
    not exist.
    """
    data = _bytes(path) if content is None else content
    name = name or path
    try:
        entries = read_entries(data, name)
    except PromptsFileError as error:
        raise PromptsError(str(error)) from None
    source = PromptsSource(str(path), sha256(data).hexdigest(), list(only), match)
    return _loaded(entries, str(name), source, check_expect, path.parent)


def prompts_name(path: Path, environ: Mapping[str, str]) -> Path:
    """Return the file's name for people: in the agent's container, the one outside it."""
    name = environ.get("HOST_PROMPTS_FILE")
    if name is None or path.resolve() != sample_prompts().resolve():
        return path
    return Path(name or "agent/prompts.json")


def prompts_from_entries(
    entries: Sequence[object],
    where: str,
    only: Sequence[str] = (),
    check_expect: ExpectCheck | None = None,
    folder: Path = Path(),
) -> Prompts:
    """Load the entries of another file, at ``where`` in ``folder``, like ``load_prompts``. Raises
    ``PromptsError``.
    """
    source = PromptsSource(only=list(only))
    own = [each for entry in entries for each in converted(Entry(entry, where))]
    return _loaded(own, where, source, check_expect, folder)


def prompts_from_texts(texts: Sequence[str]) -> Prompts:
    """Make prompts without oracles. Raises ``PromptsError`` for an empty text."""
    if not all(text.strip() for text in texts):
        raise PromptsError("--prompt: must not be empty")
    keys = numbered(map(text_key, texts))
    entries = [
        Prompt(key, text.strip(), None, place)
        for place, (key, text) in enumerate(zip(keys, texts, strict=True), start=1)
    ]
    return Prompts(entries, source=PromptsSource(texts=list(texts)))


def _loaded(
    entries: Sequence[Entry],
    where: str,
    source: PromptsSource,
    check_expect: ExpectCheck | None,
    folder: Path,
) -> Prompts:
    loaded = Prompts([], source=source)
    keys = _Keys([entry.value for entry in entries])
    noted: set[tuple[str, str]] = set()
    for number, entry in enumerate(entries, start=1):
        # one test can make several entries
        lines = [line for line in entry.unread if (entry.where, line) not in noted]
        noted.update((entry.where, line) for line in lines)
        loaded.notes.extend(f"{entry.where}: entry {number}: {line}" for line in lines)
        if entry.read_as and ("", entry.read_as) not in noted:
            noted.add(("", entry.read_as))
            loaded.notes.append(f"{entry.where}: {entry.read_as}")
        try:
            if entry.problem:
                raise ValueError(entry.problem)
            loaded.entries.append(_prompt(entry.value, number, keys, check_expect, folder))
        except ValueError as error:
            loaded.problems.append(f"{entry.where}: entry {number} is skipped: {error}")
    try:
        return replace(loaded, entries=_picked(loaded))
    except ValueError as error:
        problems = "".join(f"\n  {problem}" for problem in loaded.problems)
        raise PromptsError(f"{where}: {error}{problems}") from None


def check_turns(prompts: Prompts, holds_them: bool) -> None:
    """Raise ``PromptsError`` for a conversation if the subject cannot hold one."""
    conversation = next((prompt for prompt in prompts.entries if prompt.is_conversation), None)
    if conversation and not holds_them:
        has = f"{len(conversation.turns)} turns" if conversation.turns else "a next_turn"
        where = f"{prompts.source.file}: entry {conversation.place} has {has}"
        raise PromptsError(
            f"{where}, and this subject takes one prompt at a time; only the lab's agent,"
            " python subjects, and service and http subjects with {conversation} in their request, hold"
            " conversations"
        )


def check_tool_links(prompts: Prompts, known: Sequence[str]) -> None:
    """Raise ``PromptsError`` for a link in ``tool_links`` that the run does not have."""
    for prompt in prompts.entries:
        if unknown := [name for name in prompt.tool_links or () if name not in known]:
            raise PromptsError(
                f"{prompts.source.file}: entry {prompt.place}: tool_links: unknown link"
                f" {unknown[0]!r}{nearest(unknown[0], known)}; TOXIC_SCOPE=used needs links of this run:"
                f" {', '.join(known) or 'none'}"
            )


def check_next_turns(prompts: Prompts, check: Callable[[str], object] = load_function) -> None:
    """Load the functions that make turns, or ``check`` them. Raises ``PromptsError`` if one is missing."""
    makers = {prompt.next_turn.function: prompt for prompt in prompts.entries if prompt.next_turn}
    for function, prompt in makers.items():
        try:
            check(function)
        except ValueError as error:
            raise PromptsError(f"{prompts.source.file}: entry {prompt.place}: next_turn: {error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return read_input_bytes(path)
    except FileNotFoundError:
        raise PromptsError(f"{path}: no such file; name one with --prompts or PROMPTS_FILE") from None
    except OSError as error:
        raise PromptsError(f"{path}: cannot be read: {error.strerror}") from None


class _Keys:
    """Assigns the keys of one file's entries. Keys made of texts are settled before any ``id``."""

    def __init__(self, entries: Sequence[object]) -> None:
        # a bad entry gets a number, too, so that fixing it does not change others
        unnamed = {place: turns for place, entry in enumerate(entries, start=1) if (turns := _unnamed(entry))}
        self._made = dict(zip(unnamed, numbered(map(turns_key, unnamed.values())), strict=True))
        self._places = {key: place for place, key in self._made.items()}

    def take(self, entry: Mapping[str, Any], place: int) -> str:
        """Return the entry's key. Raises ``ValueError`` if its ``id`` is invalid or already the key of
        another entry.
        """
        if "id" not in entry:
            return self._made[place]
        key = _checked_id(entry["id"])
        if self._places.setdefault(key, place) != place:
            raise ValueError(f'"id" {key!r} is the key of entry {self._places[key]}')
        return key


def _unnamed(entry: object) -> list[str]:
    """Return the texts of an entry without an ``id``; none if it has one, or no text."""
    if not isinstance(entry, dict) or "id" in entry:
        return []
    turns = entry.get("turns", [entry.get("prompt")])
    if not isinstance(turns, list):
        return []
    texts = [turn for turn in turns if isinstance(turn, str) and turn.strip()]
    return texts if texts == turns else []


def _prompt(entry: object, place: int, keys: _Keys, check_expect: ExpectCheck | None, folder: Path) -> Prompt:
    if not isinstance(entry, dict):
        raise ValueError(f'must be a text or an object with a "prompt", not {json.dumps(entry)[:60]}')
    metadata = _metadata(entry)
    turns, next_turn = _turns(entry), _next_turn(entry, folder)
    key = keys.take(entry, place)
    expect = entry.get("expect")
    if expect is not None:
        if not isinstance(expect, dict):
            raise ValueError('"expect" must be an object')
        if check_expect is not None:
            check_expect(expect)
    conversation = tuple(turns) if len(turns) > 1 else ()
    return Prompt(
        key,
        "\n".join(turns),
        expect,
        place,
        conversation,
        next_turn,
        metadata,
        _tool_links(entry),
        tuple(_paraphrases(entry, turns)),
    )


def _paraphrases(entry: Mapping[str, Any], turns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the texts of each paraphrase, as many as the entry has. Raises ``ValueError``."""
    paraphrases = entry.get("paraphrases", [])
    if not isinstance(paraphrases, list):
        raise ValueError(f'"paraphrases" must be a list, not {json.dumps(paraphrases)[:60]}')
    for number, paraphrase in enumerate(paraphrases, start=1):
        where = f'"paraphrases": number {number}'
        if len(turns) > 1 and (not isinstance(paraphrase, list) or len(paraphrase) != len(turns)):
            raise ValueError(f"{where} must be a list of {len(turns)} turns")
        texts = paraphrase if len(turns) > 1 else [paraphrase]
        yield tuple(_checked_texts(texts, where))


def _tool_links(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the links that the entry needs; None without the key. Raises ``ValueError``."""
    names = entry.get("tool_links")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'"tool_links" must be a list of links, not {json.dumps(names)[:60]}')
    return tuple(dict.fromkeys(names))


def _metadata(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry's ``metadata`` with its unknown keys. Raises ``ValueError`` for a misspelt key."""
    others = {name: value for name, value in entry.items() if name not in _NAMES}
    for name in others:
        if get_close_matches(name.lower(), _NAMES, n=1, cutoff=_LIKELY_MISSPELT):
            raise ValueError(f"unknown key {name!r}{nearest(name, _NAMES)}")
    metadata = entry.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise ValueError('"metadata" must be an object')
    return others | (metadata or {})


def _turns(entry: Mapping[str, Any]) -> list[str]:
    """Return the turns of the entry. Raises ``ValueError``."""
    if "turns" in entry and "prompt" in entry:
        raise ValueError('has both "turns" and a "prompt": remove one')
    name = "turns" if "turns" in entry else "prompt"
    turns = entry["turns"] if name == "turns" else [entry.get("prompt")]
    if not isinstance(turns, list) or not 1 <= len(turns) <= _MAX_TURNS:
        raise ValueError(f'"turns" must be a list of 1 to {_MAX_TURNS} texts')
    return _checked_texts(turns, f'"{name}"')


def _checked_texts(texts: Sequence[object], where: str) -> list[str]:
    """Return the texts without blanks around them. Raises ``ValueError``."""
    checked = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if len(checked) != len(texts):
        must = "must be texts that are" if where == '"turns"' else "must be a text that is"
        raise ValueError(f"{where} {must} not empty")
    if any("\ud800" <= character <= "\udfff" for character in "".join(checked)):
        raise ValueError(f"{where} contains a lone surrogate (half a character)")
    return checked


def _next_turn(entry: Mapping[str, Any], folder: Path) -> NextTurn | None:
    """Return the function that makes further turns; files are relative to that folder. Raises
    ``ValueError``.
    """
    function, most = entry.get("next_turn"), entry.get("max_turns", _DEFAULT_TURNS)
    if function is None:
        if "max_turns" in entry:
            raise ValueError('has "max_turns" but no "next_turn" to make turns')
        return None
    if "id" not in entry:
        raise ValueError(
            '"next_turn" needs an "id": its turns are not known beforehand and cannot name the episode'
        )
    if not isinstance(most, int) or isinstance(most, bool) or not 2 <= most <= _MAX_TURNS:
        raise ValueError(f'"max_turns" must be 2 to {_MAX_TURNS}, not {most!r:.40}')
    try:
        return NextTurn(located_function(checked_function_name(str(function)), folder), most)
    except ValueError as error:
        raise ValueError(f'"next_turn" {error}') from None


def text_key(text: str) -> str:
    """Return 8 hexadecimal digits of BLAKE2b over the stripped text."""
    return text_digest(text.strip(), _KEY_BYTES).hex()


def turns_key(turns: Sequence[str]) -> str:
    """Return the same hash over several texts; for one text it equals ``text_key``."""
    if len(turns) == 1:
        return text_key(turns[0])
    return digest(*map(str.strip, turns), size=_KEY_BYTES).hex()


def numbered(keys: Iterable[str]) -> Iterator[str]:
    """Number equal keys as ``key-2``, ``key-3``."""
    counts = Counter[str]()
    for key in keys:
        counts[key] += 1
        yield key if counts[key] == 1 else f"{key}-{counts[key]}"


def _checked_id(value: object) -> str:
    """Return the ``id`` of an entry; raises ``ValueError`` if it is invalid."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError(
            f'"id" must be 1 to 64 of letters, digits and ._-, or a whole number, not {value!r:.80}'
        )
    return value


def _picked(prompts: Prompts) -> list[Prompt]:
    """Return the prompts that match one of ``only`` and whose text contains ``match``, ignoring case.

    Raises ``ValueError`` if there is none.
    """
    entries, source = prompts.entries, prompts.source
    if not entries and prompts.problems:
        count = len(prompts.problems)
        raise ValueError("its only entry is skipped" if count == 1 else f"all {count} entries are skipped")
    if not entries:
        raise ValueError('missing prompts; write [{"prompt": "..."}]')
    if not source.picked:
        return entries
    keys = {key for name in source.only for key in _keys_for(name, entries)}
    selected = [prompt for prompt in entries if prompt.key in keys or not source.only]
    matching = [prompt for prompt in selected if source.match.casefold() in prompt.text.casefold()]
    if not matching:
        of_them = " of those that --only names" if source.only else ""
        raise ValueError(f"--match={source.match!r}: no prompt{of_them} contains it")
    return matching


def _hashed(prompt: Prompt) -> str:
    return turns_key(prompt.turns or (prompt.text,))


def _keys_for(name: str, entries: Sequence[Prompt]) -> Sequence[str]:
    """Return the keys that match a pattern with ``*``, else the one named. Raises ``ValueError``."""
    if "*" not in name:
        return [_key_for(name, entries)]
    matching = [prompt.key for prompt in entries if fnmatchcase(prompt.key, name)]
    if not matching:
        raise ValueError(f"--only={name!r}: no prompt has a matching id")
    return matching


def _key_for(name: str, entries: Sequence[Prompt]) -> str:
    """Return the key; a key takes precedence over a position, since an ``id`` may be a number. Raises
    ``ValueError``.
    """
    places = {str(prompt.place): prompt.key for prompt in entries}
    if name in places.values():
        return name
    if name in places:
        return places[name]
    ids = [prompt.key for prompt in entries if not prompt.key.startswith(_hashed(prompt))]
    hint = nearest(name, ids) if ids else ""
    raise ValueError(f"--only={name!r}: unknown id, and positions go from 1 to {max(map(int, places))}{hint}")
