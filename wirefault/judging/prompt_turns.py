"""What an entry of the prompts file says to the agent: one text, several, or what a function makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.plugins import checked_function_name, located_function

_MOST_TURNS = 50
_USUAL_MOST_TURNS = 10


@dataclass(frozen=True)
class NextTurn:
    """``function`` makes each further turn from what was said, until there are ``most_turns``."""

    function: str
    most_turns: int


def turns_of(entry: Mapping[str, Any]) -> list[str]:
    """What is said in the entry. Raises ``ValueError``."""
    if "turns" in entry and "prompt" in entry:
        raise ValueError('has "turns" and a "prompt": one of them is enough')
    name = "turns" if "turns" in entry else "prompt"
    turns = entry["turns"] if name == "turns" else [entry.get("prompt")]
    if not isinstance(turns, list) or not 1 <= len(turns) <= _MOST_TURNS:
        raise ValueError(f'"turns" must be a list of 1 to {_MOST_TURNS} texts')
    if not all(isinstance(turn, str) and turn.strip() for turn in turns):
        shown = '"prompt" must be a text that is' if name == "prompt" else '"turns" must be texts that are'
        raise ValueError(f"{shown} not empty")
    if any("\ud800" <= character <= "\udfff" for character in "".join(turns)):
        raise ValueError(f'"{name}" has half a character in it (a lone surrogate)')
    return [turn.strip() for turn in turns]


def next_turn_of(entry: Mapping[str, Any], folder: Path) -> NextTurn | None:
    """Who makes its further turns, a file of theirs looked for in that folder. Raises ``ValueError``."""
    function, most = entry.get("next_turn"), entry.get("most_turns", _USUAL_MOST_TURNS)
    if function is None:
        if "most_turns" in entry:
            raise ValueError('has "most_turns", and no "next_turn" that would make any')
        return None
    if "id" not in entry:
        raise ValueError('"next_turn" needs an "id": what it will say is not known, and can name no episode')
    if not isinstance(most, int) or isinstance(most, bool) or not 2 <= most <= _MOST_TURNS:
        raise ValueError(f'"most_turns" must be 2 to {_MOST_TURNS}, not {most!r:.40}')
    try:
        return NextTurn(located_function(checked_function_name(str(function)), folder), most)
    except ValueError as error:
        raise ValueError(f'"next_turn" {error}') from None
