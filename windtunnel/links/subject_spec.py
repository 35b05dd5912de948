"""The ``subject:`` of a wiring file: what is flown, and how it takes a prompt and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from windtunnel.core.spelling import nearest
from windtunnel.core.strict_yaml import short_repr
from windtunnel.links.spec import Spec
from windtunnel.links.wiring_file import WiringFile

Command = Annotated[list[str], Field(min_length=1)]


class CommandSpec(Spec):
    """A process for each attempt. ``{prompt}`` in the command stands for the prompt."""

    command: Command


class ServiceSpec(Spec):
    """A process that stays up for the whole run, and is asked over HTTP."""

    service: Command


class HttpSpec(Spec):
    """An agent that runs elsewhere, on an allowed host."""

    http: str


class PythonSpec(Spec):
    """A callable, ``MODULE:CALLABLE``, in a process of its own."""

    python: str


SubjectSpec = CommandSpec | ServiceSpec | HttpSpec | PythonSpec | Literal["lab"]

_KINDS: dict[str, type[Spec]] = {
    "command": CommandSpec,
    "service": ServiceSpec,
    "http": HttpSpec,
    "python": PythonSpec,
}


def check_subject(file: WiringFile, given: Any) -> SubjectSpec:
    """The subject of a wiring file, by the key that says its kind. Raises ``WiringError``."""
    if given == "lab":
        return "lab"
    if not isinstance(given, dict):
        raise file.error(("subject",), f"must be a mapping or `lab`, not {short_repr(given)}")
    kinds = [key for key in given if key in _KINDS]
    if len(kinds) != 1:
        unknown = next((key for key in given if key not in _KINDS), "")
        hint = nearest(unknown, _KINDS) if not kinds else ""
        raise file.error(("subject",), f"needs one of {', '.join(_KINDS)}{hint}")
    checked: SubjectSpec = file.check(_KINDS[kinds[0]], ("subject",), given)
    return checked
