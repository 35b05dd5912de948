"""The ``subject:`` of a wiring file: how to run the agent, pass it a prompt and read its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import PurePath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from wirefault.core.errors import InputError, nearest
from wirefault.core.plain_data import short_repr
from wirefault.core.sockets import is_loopback
from wirefault.wiring.spec_file import Place, Spec, SpecFile

PROMPT, CONVERSATION = "{prompt}", "{conversation}"
# a word in braces, but not a shell's ${variable}
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_METHODS = ("POST", "PUT", "PATCH", "GET")

Command = Annotated[list[str], Field(min_length=1)]


class InVariable(Spec):
    """The prompt is in an environment variable."""

    variable: str


class InFile(Spec):
    """The prompt, or the answer, is in a file of the working folder."""

    file: str


class InJson(Spec):
    """The answer is at this path in the last line of standard output that is a JSON object."""

    json_path: str = Field(alias="json")


def _one_of(expected: str, words: tuple[str, ...], key: str) -> BeforeValidator:
    """One message instead of one for each member of a union."""

    def check(value: object) -> object:
        if isinstance(value, dict):
            [name, text] = next(iter(value.items())) if len(value) == 1 else ("", None)
            is_good = name in (key, "file") and isinstance(text, str)
        else:
            is_good = value in words or isinstance(value, Spec)
        if not is_good:
            raise ValueError(f"must be {expected}, not {short_repr(value)}")
        return value

    return BeforeValidator(check)


_PromptWay = Annotated[
    Literal["stdin", "none"] | InVariable | InFile,
    _one_of("stdin, none, {variable: NAME} or {file: NAME}", ("stdin", "none"), "variable"),
]
_AnswerWay = Annotated[
    Literal["stdout", "json"] | InFile | InJson,
    _one_of("stdout, json, {json: PATH} or {file: NAME}", ("stdout", "json"), "json"),
]
_FOLDER = "its working folder, relative to the wiring's file"
_ENV: dict[str, str] = Field(
    default_factory=dict, description="more variables of its process, without those of links"
)


class CommandSpec(Spec):
    """One process per attempt."""

    command: Command = Field(description=f"program and arguments; {PROMPT} in one of them is the prompt")
    prompt: _PromptWay | None = Field(
        None, description=f"how it gets the prompt if no argument has {PROMPT}; default: stdin"
    )
    answer: _AnswerWay = Field(
        "stdout",
        description="where its answer is; json: in the last line of its output that is a JSON object",
    )
    folder: str = Field("", description=f"{_FOLDER}; default: a new one for each attempt")
    resume: Command | None = Field(
        None,
        description="program and arguments that continue after a kill (fault kill_subject); default: command",
    )
