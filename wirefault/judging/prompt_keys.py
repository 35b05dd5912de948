"""Keys of prompts: the names of their episodes, by which worlds and draws are kept apart. Pure.

An entry's key is its ``id``, else a hash of its text or of its turns; so it stays when other entries come, go
or move.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from wirefault.core.identity import digest, text_digest

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY_BYTES = 4


def text_key(text: str) -> str:
    """8 hexadecimal digits of BLAKE2b over the text without blanks around it."""
    return text_digest(text.strip(), _KEY_BYTES).hex()


def turns_key(turns: Sequence[str]) -> str:
    """The same over several texts; of one it is ``text_key``."""
    if len(turns) == 1:
        return text_key(turns[0])
    return digest(*map(str.strip, turns), size=_KEY_BYTES).hex()


def numbered(keys: Iterable[str]) -> Iterator[str]:
    """The keys; equal ones go on as ``key-2``, ``key-3``."""
    counts = Counter[str]()
    for key in keys:
        counts[key] += 1
        yield key if counts[key] == 1 else f"{key}-{counts[key]}"


def checked_id(given: object) -> str:
    """The ``id`` of an entry; raises ``ValueError`` if it can be none."""
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise ValueError(f'"id" must be 1 to 64 of letters, digits and ._- in quotes, not {given!r:.80}')
    return given
