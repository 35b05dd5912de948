"""A step of the plan."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.model_server.toolspec import Tool


@dataclass(frozen=True)
class Step:
    """One call to make. ``text`` gives its arguments, ``context`` what was said before without a call of its
    own; ``refers``: it builds on earlier results; ``asked``: its values belong into the report; ``question``
    asks for these values where the text does not."""

    text: str
    tool: Tool
    context: tuple[str, ...] = ()
    refers: bool = False
    condition: str = ""
    asked: bool = True
    question: str = ""
