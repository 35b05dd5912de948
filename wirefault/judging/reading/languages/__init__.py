"""Regular expressions that cost nothing until a text is held against them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property


class LazyPattern:
    """A pattern that is compiled when it is first used: a command's start compiles none."""

    def __init__(self, *parts: str) -> None:
        self._pattern = "".join(parts)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern)

    def search(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._compiled.search(text, at)

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._compiled.match(text, at)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)

    def finditer(self, text: str, at: int = 0) -> Iterator[re.Match[str]]:
        return self._compiled.finditer(text, at)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        return self._compiled.sub(replacement, text)


def words_pattern(*alternatives: str) -> str:
    """A pattern for any of the alternatives (``a|b``) as whole words."""
    return rf"\b(?:{'|'.join(alternatives)})\b"
