"""The subject of a wiring file: its keys, and the lines named in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirefault.core.errors import InputError
from wirefault.wiring.subject_spec import CommandSpec, HttpSpec, InFile, InVariable, PythonSpec, ServiceSpec
from wirefault.wiring.wiring import load_wiring

LINKS = "links:\n  shop: {upstream: http://127.0.0.1:9000}\nallow: [agents.example]\nsubject:\n  "


def subject(folder: Path, text: str) -> object:
    file = folder / "wirefault.yaml"
    file.write_text(LINKS + text, encoding="utf-8")
    return load_wiring(file).subject


def test_each_kind_has_its_defaults(tmp_path: Path) -> None:
    command = subject(tmp_path, "command: [agent]\n  prompt: {variable: TASK}\n  answer: {file: out.txt}")
    assert command == CommandSpec(
        command=["agent"], prompt=InVariable(variable="TASK"), answer=InFile(file="out.txt")
    )
    service = subject(tmp_path, "service: [agent]\n  url: http://127.0.0.1:8080/ask")
    assert isinstance(service, ServiceSpec)
    assert (service.method, service.body, service.ready_within) == ("POST", {"prompt": "{prompt}"}, 30)
    assert isinstance(subject(tmp_path, "http: https://Agents.example/ask"), HttpSpec)
    assert subject(tmp_path, "python: pack.agent:ask") == PythonSpec(python="pack.agent:ask")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "commnd: [agent]",
            ":4: subject: needs one of command, service, http, python; did you mean 'command'?",
        ),
        ("command: agent", ":5: subject.command: Input should be a valid list, not 'agent'"),
        ("command: []", ":5: subject.command: "),
        ("command: ['']", ":5: subject.command: the program name must not be empty"),
        (
            "command: [agent, '{promt}']",
            "subject.command[2]: unknown placeholder {promt}; did you mean {prompt}?",
        ),
        (
            "command: [agent, '{prompt}']\n  prompt: stdin",
            ":6: subject.prompt: the command contains {prompt} already",
        ),
        (
            "http: http://127.0.0.1:9/\n  kill: [docker, kill, agent]",
            ":4: subject: missing resume: an agent that is killed must be resumed, too",
        ),
        (
            "http: http://127.0.0.1:9/\n  kill: [kill, '-{signl}']\n  resume: [up]",
            "subject.kill[2]: unknown placeholder {signl}; did you mean {signal}?",
        ),
        ("command: [agent, '{conversation}']", "subject.command: a command cannot hold a conversation"),
        (
            "command: [agent]\n  prompt: file",
            "subject.prompt: must be stdin, none, {variable: NAME} or {file: NAME}",
        ),
        ("command: [agent]\n  prompt: {variable: MY-TASK}", "'MY-TASK' is not a valid variable name"),
        ("command: [agent]\n  answer: {file: ../out}", "'../out' must be a file in the working folder"),
        ("command: [agent]\n  answer: {line: 3}", "must be stdout, json, {json: PATH} or {file: NAME}"),
        ("command: [agent]\n  anwser: stdout", ":6: subject.anwser: no such key; did you mean 'answer'?"),
        ("service: [agent]", "subject: url is missing"),
        ("service: [agent]\n  url: 127.0.0.1:8080", "subject.url: '127.0.0.1:8080' is not an address"),
        ("service: [agent]\n  url: http://agents.example", "agents.example must be this machine"),
        ("service: [agent]\n  url: http://[::1]:80\n  ready: http://h:x", "subject.ready: "),
        ("http: https://elsewhere.example", "to send prompts there, list it: allow: [elsewhere.example]"),
        ("http: http://me:pw@localhost", "must not contain a user or password"),
        ("http: http://localhost\n  method: HEAD", "unknown method 'HEAD'"),
        ("http: http://localhost\n  method: GET", "the request lacks the prompt"),
        (
            "http: http://localhost\n  json: {q: '{prompt}', id: '{conversatoin}'}",
            "did you mean {conversation}?",
        ),
        ("http: http://localhost\n  headers: {Id: 3}", "subject.headers.Id: "),
        ("python: my_agent", "'my_agent' is not MODULE:CALLABLE"),
        ("python: 'my agent:ask'", "'my agent:ask' is not MODULE:CALLABLE"),
    ],
)
def test_error_names_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        subject(tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
