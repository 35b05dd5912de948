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
from wirefault.core.sockets import is_this_machine
from wirefault.wiring.spec_file import Place, Spec, SpecFile

PROMPT, CONVERSATION = "{prompt}", "{conversation}"
SIGNAL = "{signal}"
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
    env: dict[str, str] = _ENV
    resume: Command | None = Field(
        None,
        description="program and arguments that continue after a kill (fault kill_subject); default: command",
    )
    show: bool | Literal["as-is"] = Field(
        False,
        description="show its output on standard error while it runs; as-is: on its own streams, with the"
        " terminal if there is one",
    )


class RequestSpec(Spec):
    """The HTTP request that passes a prompt to an agent, and the path of the answer in the reply."""

    method: str = Field("POST", description=", ".join(_METHODS))
    body: Any = Field(
        {"prompt": PROMPT},
        alias="json",
        description=f"the request's body: {PROMPT} and {CONVERSATION} in its texts are replaced",
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="more headers; ${NAME} is replaced by that environment variable"
    )
    answer: str = Field(
        "",
        description="where the answer is in the reply's JSON, for example choices.0.text; all of it if empty",
    )

    @property
    def request_texts(self) -> list[str]:
        """Return the texts of the request besides the URL."""
        body = all_texts(self.body) if self.method != "GET" else ()
        return [*body, *self.headers.values()]


class ServiceSpec(RequestSpec):
    """A process that stays up for the whole run and takes prompts over HTTP."""

    service: Command = Field(description="program and arguments")
    resume: Command | None = Field(
        None, description="program and arguments that start it after a kill (kill_subject); default: service"
    )
    url: str = Field(description="the URL that takes a prompt")
    ready: str = Field(
        "", description="a URL that answers 2xx once it is ready; if empty, an open port is enough"
    )
    ready_within: float = Field(30, gt=0, le=600, description="seconds until it must be ready")
    folder: str = Field("", description=f"{_FOLDER}; default: that file's folder")
    env: dict[str, str] = _ENV


class HttpSpec(RequestSpec):
    """An agent that runs elsewhere, on this machine or an allowed host."""

    http: str = Field(description="the URL that takes a prompt")
    ready: str = Field(
        "", description="a URL that answers 2xx once it is ready; if empty, an open port is enough"
    )
    ready_within: float = Field(
        0, ge=0, le=600, description="seconds until it must be ready; after a kill at least 30"
    )
    kill: Command | None = Field(
        None,
        description=f"program and arguments that kill it (fault kill_subject), such as docker kill NAME;"
        f" {SIGNAL} in one of them is KILL or TERM",
    )
    resume: Command | None = Field(
        None,
        description="program and arguments that start it after a kill, such as docker compose up -d NAME",
    )


class PythonSpec(Spec):
    """A callable in a separate process: ``(prompt)`` or ``(prompt, context)``, async or not."""

    python: str = Field(description="MODULE:CALLABLE, in a module in the wiring's folder or an installed one")
    folder: str = Field("", description=f"{_FOLDER}; default: that file's folder")
    env: dict[str, str] = _ENV


SubjectSpec = CommandSpec | ServiceSpec | HttpSpec | PythonSpec | Literal["lab"]

_KINDS: dict[str, type[Spec]] = {
    "command": CommandSpec,
    "service": ServiceSpec,
    "http": HttpSpec,
    "python": PythonSpec,
}
_AT: Place = ("subject",)


def check_subject(file: SpecFile, value: Any) -> SubjectSpec:
    """Validate the subject of a wiring file, by the key that gives its kind. Raises ``InputError``."""
    if value == "lab":
        return "lab"
    if not isinstance(value, dict):
        raise file.error(_AT, f"must be a mapping or `lab`, not {short_repr(value)}")
    kinds = [key for key in value if key in _KINDS]
    if len(kinds) != 1:
        unknown = next((key for key in value if key not in _KINDS), "")
        hint = nearest(unknown, _KINDS) if not kinds else ""
        raise file.error(_AT, f"needs one of {', '.join(_KINDS)}{hint}")
    checked: SubjectSpec = file.check(_KINDS[kinds[0]], _AT, value)
    problem = next(_problems(file, checked), None)
    if problem:
        raise problem
    return checked


def holds_conversations(subject: Spec | Literal["lab"] | None) -> bool:
    """Return whether the subject can link prompts of one conversation."""
    match subject:
        case ServiceSpec(url=url) | HttpSpec(http=url):
            return any(CONVERSATION in text for text in (*subject.request_texts, url))
        case _:
            return subject == "lab" or isinstance(subject, PythonSpec)


def why_not_killed(subject: SubjectSpec | None) -> str:
    """Say why the lab can neither kill nor resume the subject; empty if it can."""
    match subject:
        case CommandSpec(show="as-is"):
            return "`exec` starts its command once, with its own input and terminal"
        case CommandSpec() | ServiceSpec() | "lab":  # the lab's agent gets its own process
            return ""
        case HttpSpec(kill=kill):
            return "" if kill else "an `http` subject is started elsewhere, without `kill` and `resume` here"
        case PythonSpec():
            return "a `python` subject is a call in a process of the lab"
        case _:
            return "this subject runs in the lab's own process"


def all_texts(value: Any) -> Iterator[str]:
    """Return every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from all_texts(part)


def _problems(file: SpecFile, spec: SubjectSpec) -> Iterator[InputError]:
    """Yield the problems that the types of the keys do not cover."""
    match spec:
        case CommandSpec():
            yield from _of_command(file, spec)
        case ServiceSpec():
            yield from _of_words(file, "service", spec.service, ())
            yield from _of_words(file, "resume", spec.resume or [], ())
            for key, url in (("url", spec.url), ("ready", spec.ready)):
                if url or key == "url":
                    yield from _of_url(file, key, url, None)
            yield from _of_request(file, spec, "url", spec.url)
        case HttpSpec():
            allow = file.data.get("allow")
            allowed = frozenset(map(str, allow)) if isinstance(allow, list) else frozenset()
            yield from _of_url(file, "http", spec.http, allowed)
            if spec.ready:
                yield from _of_url(file, "ready", spec.ready, allowed)
            yield from _of_words(file, "kill", spec.kill or [], ("signal",))
            yield from _of_words(file, "resume", spec.resume or [], ())
            if (spec.kill is None) != (spec.resume is None):
                missing = "kill" if spec.kill is None else "resume"
                yield file.error(_AT, f"missing {missing}: an agent that is killed must be resumed, too")
            yield from _of_request(file, spec, "http", spec.http)
        case PythonSpec() if not _CALLABLE.fullmatch(spec.python):
            yield file.error((*_AT, "python"), f"{spec.python!r} is not MODULE:CALLABLE")


def _of_command(file: SpecFile, spec: CommandSpec) -> Iterator[InputError]:
    yield from _of_words(file, "command", spec.command, ("prompt",))
    yield from _of_words(file, "resume", spec.resume or [], ("prompt",))
    by_argument = any(PROMPT in word for word in spec.command)
    if CONVERSATION in "".join(spec.command):
        yield file.error((*_AT, "command"), "a command cannot hold a conversation: it ends after one prompt")
    if by_argument and spec.prompt is not None:
        yield file.error((*_AT, "prompt"), f"the command contains {PROMPT} already: remove one of them")
    if isinstance(spec.prompt, InVariable) and not _VARIABLE.fullmatch(spec.prompt.variable):
        yield file.error((*_AT, "prompt"), f"{spec.prompt.variable!r} is not a valid variable name")
    for key, way in (("prompt", spec.prompt), ("answer", spec.answer)):
        if isinstance(way, InFile):
            path = PurePath(way.file)
            if path.is_absolute() or ".." in path.parts or not path.name:
                yield file.error((*_AT, key), f"{way.file!r} must be a file in the working folder")


def _of_words(file: SpecFile, key: str, words: list[str], known: tuple[str, ...]) -> Iterator[InputError]:
    if words and not words[0]:
        yield file.error((*_AT, key), "the program name must not be empty")
    for index, word in enumerate(words):
        at = (*_AT, key, index)
        if "\0" in word:
            yield file.error(at, "has a NUL character")
        yield from _of_placeholders(file, at, word, known)


def _of_placeholders(file: SpecFile, at: Place, text: str, known: tuple[str, ...]) -> Iterator[InputError]:
    """Report misspelt placeholders, which would reach the subject unchanged. Other words in braces are left
    alone.
    """
    for name in _PLACEHOLDER.findall(text):
        close = get_close_matches(name, known, n=1)
        if close and name != close[0]:
            yield file.error(at, f"unknown placeholder {{{name}}}; did you mean {{{close[0]}}}?")


def _of_url(file: SpecFile, key: str, url: str, allowed: frozenset[str] | None) -> Iterator[InputError]:
    """``allowed``: hosts besides this machine; None for a service."""
    at, parts = (*_AT, key), urlsplit(url)
    try:
        port_is_good = parts.port != 0
    except ValueError:  # not a number, or too large
        port_is_good = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        yield file.error(at, f"{url!r} is not an address: write http://host:port/path")
        return
    if "@" in parts.netloc:
        yield file.error(at, "must not contain a user or password, since reports show it; use headers")
    host = parts.hostname.lower()
    if not is_this_machine(host) and allowed is None:
        yield file.error(at, f"{host} must be this machine, since the service is started here")
    elif not is_this_machine(host) and allowed is not None and host not in {name.lower() for name in allowed}:
        yield file.error(at, f"{host} is not this machine: to send prompts there, list it: allow: [{host}]")


def _of_request(file: SpecFile, spec: RequestSpec, url_key: str, url: str) -> Iterator[InputError]:
    known = ("prompt", "conversation")
    if spec.method not in _METHODS:
        yield file.error((*_AT, "method"), f"unknown method {spec.method!r}{nearest(spec.method, _METHODS)}")
    texts = [("json", text) for text in all_texts(spec.body)] if spec.method != "GET" else []
    texts += [(url_key, url)]
    texts += [("headers", value) for value in spec.headers.values()]
    for key, text in texts:
        yield from _of_placeholders(file, (*_AT, key), text, known)
    if not any(PROMPT in text for key, text in texts if key != "headers"):
        yield file.error((*_AT, url_key), f"the request lacks the prompt: put {PROMPT} into json")
