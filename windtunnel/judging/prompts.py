"""The prompts file: a JSON list of ``{"prompt": text, "expect": oracle}``; ``expect`` may be absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windtunnel.core.spelling import nearest
from windtunnel.core.user_errors import InputError
from windtunnel.judging.oracle.expect import parse_expect

_KEYS = ("prompt", "expect")


class PromptsError(InputError):
    """A prompts file of which nothing can be used; the message says what to do."""


@dataclass(frozen=True)
class Prompt:
    text: str
    expect: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Prompts:
    """The usable entries in order, and for each bad one where it stands and what is wrong with it."""

    entries: list[Prompt]
    problems: list[str] = field(default_factory=list)


def load_prompts(path: Path) -> Prompts:
    """Reads the file; bad entries are left out and reported. Raises ``PromptsError`` if none is good."""
    loaded = Prompts([])
    for number, entry in enumerate(_entries(path), start=1):
        try:
            loaded.entries.append(_prompt(entry))
        except ValueError as error:
            loaded.problems.append(f"{path}: entry {number} is left out: {error}")
    if not loaded.entries:
        problems = "".join(f"\n  {problem}" for problem in loaded.problems)
        raise PromptsError(f'{path}: no prompt in it; it needs [{{"prompt": "..."}}]{problems}')
    return loaded


def _entries(path: Path) -> list[object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PromptsError(f"{path}: no such file; name one with --prompts or PROMPTS_FILE") from None
    except OSError as error:
        raise PromptsError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PromptsError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise PromptsError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:  # a number too long, nested too deep
        raise PromptsError(f"{path}: {error}") from None
    if not isinstance(data, list):
        raise PromptsError(f'{path}: must be a list, [{{"prompt": "..."}}], not {type(data).__name__}')
    return data


def _prompt(entry: object) -> Prompt:
    if not isinstance(entry, dict):
        raise ValueError(f'not an object with a "prompt" but {json.dumps(entry)[:60]}')
    for key in entry:
        if key not in _KEYS:
            raise ValueError(f"{key!r} is no key of a prompt{nearest(key, _KEYS)}")
    text = entry.get("prompt")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"prompt" must be a text that is not empty')
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError('"prompt" has half a character in it (a lone surrogate)')
    expect = entry.get("expect")
    if expect is not None:
        if not isinstance(expect, dict):
            raise ValueError('"expect" must be an object')
        parse_expect(expect)
    return Prompt(text.strip(), expect)
