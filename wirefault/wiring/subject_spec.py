"""The ``subject:`` of a wiring file: what is flown, and how it takes a prompt and answers."""

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
# a word in braces, which a shell's ${variable} is not
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CALLABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_METHODS = ("POST", "PUT", "PATCH", "GET")

Command = Annotated[list[str], Field(min_length=1)]


class InVariable(Spec):
    """The prompt is in a variable of the process."""

    variable: str


class InFile(Spec):
    """The prompt, or the answer, is in a file of the working folder."""

    file: str


class InJson(Spec):
    """The answer is at this path of the last line of standard output that is a JSON object."""

    json_path: str = Field(alias="json")


def _one_of(shown: str, words: tuple[str, ...], key: str) -> BeforeValidator:
    """One message instead of one for each member of a union."""

    def check(given: object) -> object:
        if isinstance(given, dict):
            [name, text] = next(iter(given.items())) if len(given) == 1 else ("", None)
            is_good = name in (key, "file") and isinstance(text, str)
        else:
            is_good = given in words or isinstance(given, Spec)
        if not is_good:
            raise ValueError(f"must be {shown}, not {short_repr(given)}")
        return given

    return BeforeValidator(check)


_PromptWay = Annotated[
    Literal["stdin", "none"] | InVariable | InFile,
    _one_of("stdin, none, {variable: NAME} or {file: NAME}", ("stdin", "none"), "variable"),
]
_AnswerWay = Annotated[
    Literal["stdout", "json"] | InFile | InJson,
    _one_of("stdout, json, {json: PATH} or {file: NAME}", ("stdout", "json"), "json"),
]
_FOLDER = "where it works, beside the wiring's file"


class CommandSpec(Spec):
    """A process for each attempt."""

    command: Command = Field(description=f"program and arguments; {PROMPT} in one of them is the prompt")
    prompt: _PromptWay | None = Field(
        None, description=f"how it gets the prompt if no argument has {PROMPT}: stdin if nothing is said"
    )
    answer: _AnswerWay = Field(
        "stdout", description="where its answer is; json: the last line of its output that is a JSON object"
    )
    folder: str = Field("", description=f"{_FOLDER}; a new one for each attempt if nothing is said")
    show: bool = Field(False, description="show what it prints as it comes, on the standard error")


class RequestSpec(Spec):
    """The HTTP request that takes a prompt to an agent, and the place of the answer in its reply."""

    method: str = Field("POST", description=", ".join(_METHODS))
    body: Any = Field(
        {"prompt": PROMPT},
        alias="json",
        description=f"the request's body: {PROMPT} and {CONVERSATION} in its texts are filled in",
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="more headers; ${NAME} in one is that variable of the surroundings"
    )
    answer: str = Field(
        "",
        description="where the answer is in the reply's JSON, for example choices.0.text; all of it if empty",
    )

    @property
    def sent_texts(self) -> list[str]:
        """What goes to the agent besides the URL."""
        body = all_texts(self.body) if self.method != "GET" else ()
        return [*body, *self.headers.values()]


class ServiceSpec(RequestSpec):
    """A process that stays up for the whole run, and is asked over HTTP."""

    service: Command = Field(description="program and arguments")
    url: str = Field(description="where it takes a prompt")
    ready: str = Field("", description="answers 2xx once it is ready; if empty, its port must be open")
    ready_within: float = Field(30, gt=0, le=600, description="seconds in which it must be ready")
    folder: str = Field("", description=f"{_FOLDER}; the folder of that file if nothing is said")


class HttpSpec(RequestSpec):
    """An agent that runs elsewhere, on this machine or an allowed host."""

    http: str = Field(description="where it takes a prompt")
    ready_within: float = Field(
        0, ge=0, le=600, description="seconds in which its port must be open, if not at once"
    )


class PythonSpec(Spec):
    """A callable in a process of its own: ``(prompt)`` or ``(prompt, context)``, async or not."""

    python: str = Field(description="MODULE:CALLABLE, a module beside the wiring's file or an installed one")
    folder: str = Field("", description=f"{_FOLDER}; the folder of that file if nothing is said")


SubjectSpec = CommandSpec | ServiceSpec | HttpSpec | PythonSpec | Literal["lab"]

_KINDS: dict[str, type[Spec]] = {
    "command": CommandSpec,
    "service": ServiceSpec,
    "http": HttpSpec,
    "python": PythonSpec,
}
_AT: Place = ("subject",)


def check_subject(file: SpecFile, given: Any) -> SubjectSpec:
    """The subject of a wiring file, by the key that says its kind. Raises ``InputError``."""
    if given == "lab":
        return "lab"
    if not isinstance(given, dict):
        raise file.error(_AT, f"must be a mapping or `lab`, not {short_repr(given)}")
    kinds = [key for key in given if key in _KINDS]
    if len(kinds) != 1:
        unknown = next((key for key in given if key not in _KINDS), "")
        hint = nearest(unknown, _KINDS) if not kinds else ""
        raise file.error(_AT, f"needs one of {', '.join(_KINDS)}{hint}")
    checked: SubjectSpec = file.check(_KINDS[kinds[0]], _AT, given)
    problem = next(_problems(file, checked), None)
    if problem:
        raise problem
    return checked


def holds_conversations(subject: Spec | Literal["lab"] | None) -> bool:
    """Whether it can be told which of its prompts belong together; the lab's own agent cannot."""
    match subject:
        case ServiceSpec(url=url) | HttpSpec(http=url):
            return any(CONVERSATION in text for text in (*subject.sent_texts, url))
        case _:
            return isinstance(subject, PythonSpec)


def all_texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from all_texts(part)


def _problems(file: SpecFile, spec: SubjectSpec) -> Iterator[InputError]:
    """What the types of the keys do not tell."""
    match spec:
        case CommandSpec():
            yield from _of_command(file, spec)
        case ServiceSpec():
            yield from _of_words(file, "service", spec.service, ())
            for key, url in (("url", spec.url), ("ready", spec.ready)):
                if url or key == "url":
                    yield from _of_url(file, key, url, frozenset())
            yield from _of_request(file, spec, "url", spec.url)
        case HttpSpec():
            allow = file.data.get("allow")
            allowed = frozenset(map(str, allow)) if isinstance(allow, list) else frozenset()
            yield from _of_url(file, "http", spec.http, allowed)
            yield from _of_request(file, spec, "http", spec.http)
        case PythonSpec() if not _CALLABLE.fullmatch(spec.python):
            yield file.error((*_AT, "python"), f"{spec.python!r} is no MODULE:CALLABLE")


def _of_command(file: SpecFile, spec: CommandSpec) -> Iterator[InputError]:
    yield from _of_words(file, "command", spec.command, ("prompt",))
    by_argument = any(PROMPT in word for word in spec.command)
    if CONVERSATION in "".join(spec.command):
        yield file.error((*_AT, "command"), "a command holds no conversation: it ends after one prompt")
    if by_argument and spec.prompt is not None:
        yield file.error((*_AT, "prompt"), f"the command has {PROMPT} already: leave one of them out")
    if isinstance(spec.prompt, InVariable) and not _VARIABLE.fullmatch(spec.prompt.variable):
        yield file.error((*_AT, "prompt"), f"{spec.prompt.variable!r} is no name of a variable")
    for key, way in (("prompt", spec.prompt), ("answer", spec.answer)):
        if isinstance(way, InFile):
            path = PurePath(way.file)
            if path.is_absolute() or ".." in path.parts or not path.name:
                yield file.error((*_AT, key), f"{way.file!r} must be a file in the working folder")


def _of_words(file: SpecFile, key: str, words: list[str], known: tuple[str, ...]) -> Iterator[InputError]:
    if not words[0]:
        yield file.error((*_AT, key), "the program's name is empty")
    for index, word in enumerate(words):
        at = (*_AT, key, index)
        if "\0" in word:
            yield file.error(at, "has a NUL character")
        yield from _of_placeholders(file, at, word, known)


def _of_placeholders(file: SpecFile, at: Place, text: str, known: tuple[str, ...]) -> Iterator[InputError]:
    """A misspelt placeholder would go to the subject as it stands. Other words in braces may be its own."""
    for name in _PLACEHOLDER.findall(text):
        close = get_close_matches(name, known, n=1)
        if close and name != close[0]:
            yield file.error(at, f"{{{name}}} is no placeholder; did you mean {{{close[0]}}}?")


def _of_url(file: SpecFile, key: str, url: str, allowed: frozenset[str]) -> Iterator[InputError]:
    at, parts = (*_AT, key), urlsplit(url)
    try:
        port_is_good = parts.port != 0
    except ValueError:  # no number, or too large a one
        port_is_good = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        yield file.error(at, f"{url!r} is no address: write http://host:port/path")
        return
    if "@" in parts.netloc:
        yield file.error(at, "must hold no user and no password, since reports show it; use headers")
    host = parts.hostname.lower()
    if not is_loopback(host) and key != "http":
        yield file.error(at, f"{host} is not this machine, where the service is started")
    elif not is_loopback(host) and host not in {name.lower() for name in allowed}:
        yield file.error(at, f"{host} is not this machine: to send prompts there, list it: allow: [{host}]")


def _of_request(file: SpecFile, spec: RequestSpec, url_key: str, url: str) -> Iterator[InputError]:
    known = ("prompt", "conversation")
    if spec.method not in _METHODS:
        yield file.error(
            (*_AT, "method"), f"{spec.method!r} is no method here{nearest(spec.method, _METHODS)}"
        )
    texts = [("json", text) for text in all_texts(spec.body)] if spec.method != "GET" else []
    texts += [(url_key, url)]
    texts += [("headers", value) for value in spec.headers.values()]
    for key, text in texts:
        yield from _of_placeholders(file, (*_AT, key), text, known)
    if not any(PROMPT in text for key, text in texts if key != "headers"):
        yield file.error((*_AT, url_key), f"the request does not carry the prompt: put {PROMPT} into json")
