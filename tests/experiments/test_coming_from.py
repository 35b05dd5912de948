"""docs/coming-from.md: every snippet runs to its verdict, and every name that it mentions exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner

from tests.commands import wirefault
from tests.e2e.reader import page_blocks
from tests.lab.demos import environ_in
from tests.pytest_plugin.suites import run_suite
from tests.support import ROOT
from tests.upstream import Upstream, requests_of
from wirefault import Experiment, faults
from wirefault.cli.main import main
from wirefault.core.plain_data import plain_data, read_yaml
from wirefault.core.plugins import load_function
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.experiment import Arm
from wirefault.experiments.expression import parse_expression
from wirefault.experiments.figures import known_names
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import build_set
from wirefault.subjects.python_worker import PythonContext
from wirefault.wiring.links import PYTHON, STDIO, Link, Links, lab_links

PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
FILES = {block.file: block.text for block in page_blocks("docs/coming-from.md") if block.file}
WIRING = {
    "links": {
        "model": {"upstream": "http://127.0.0.1:4010/v1", "dialect": "openai_chat", "env": "OPENAI_BASE_URL"},
        "weather": {"upstream": "http://127.0.0.1:9000", "env": "WEATHER_URL"},
    },
    "subject": {"python": "my_agent:ask"},
}
# The reader's agents. Both say so when a call fails, and try nothing twice.
MY_AGENT = """
import os

import httpx


def ask(prompt):
    city = "Rome" if "Rome" in prompt else "Oslo"
    try:
        body = {"model": "any", "messages": [{"role": "user", "content": prompt}]}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        httpx.post(url, json=body, timeout=30).raise_for_status().json()
        weather = httpx.get(os.environ["WEATHER_URL"] + "/" + city, timeout=30).raise_for_status().json()
        return f"It is {weather['degrees']} degrees in {city}."
    except (httpx.HTTPError, ValueError):
        return f"Sorry, I could not find the weather in {city}."


class Toolbox:
    def search(self, query):
        return f"results for {query}"
"""
MCP_AGENT = """
import json, os, subprocess

server = subprocess.Popen(
    json.loads(os.environ["FILES_MCP_JSON"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)


def ask(id, method, **params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


client = {"name": "c", "version": "1"}
ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
reply = ask(2, "tools/call", name="write_file", arguments={"path": "note.txt"})
print("The note is written." if "result" in reply else "Sorry, I could not write the note.")
server.stdin.close()
server.wait()
"""
COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "any",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Look it up."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
# How each experiment of the page ends, and what is added to its command.
VERDICTS = {
    "checks:weather": ("held", ()),
    "scenario.json": ("deviated", ("--seed", "7")),
    "behind-aimock.yaml": ("held", ()),
    "mcp-note.yaml": ("held", ()),
    "slow-weather.yaml": ("held", ("--seed", "7")),
    "connections.yaml": ("held", ()),
    "modes.yaml": ("deviated", ("--only", "1", "--seed", "7")),
    # all levels and repeats would take hours; a few episodes at one level decide nothing
    "level.yaml": ("unknown", ("--only", "1", "--levels", "1", "--seed", "7")),
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def rows(title: str) -> list[list[list[str]]]:
    """The code in each column, for each row of that section's tables."""
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for line in section.splitlines() if line.startswith("| ") and "| here" not in line]
    return [[re.findall(r"`([^`]+)`", column) for column in line.strip("|").split(" | ")] for line in lines]


def data_of(text: str) -> Any:
    return plain_data(read_yaml(text, "page"), "page")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """A model and a service at the ports of the page, by these ports' addresses in it."""
    with answering(COMPLETION) as model, answering({"degrees": 4, "found": "3 results"}) as service:
        yield {"http://127.0.0.1:4010": model, "http://127.0.0.1:9000": service}


@contextmanager
def answering(data: Any) -> Iterator[str]:
    body = json.dumps(data).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    def serve(connection: Any) -> None:
        for _ in requests_of(connection):
            connection.sendall(head.encode() + body)

    with Upstream(serve) as upstream:
        yield upstream.address.url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: dict[str, str]) -> Path:
    """The page's files, the reader's agents, and the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    for name in ("checks", "my_agent", "operations"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    files = FILES | {
        "checks.py": python("weather = "),
        "operations.py": python("def call"),
        "my_agent.py": MY_AGENT,
    }
    files |= {"operations.yaml": blocks("yaml")[0], "scenario.json": blocks("json")[0]}
    files |= {"polite.py": python("def is_polite"), "mcp_agent.py": MCP_AGENT}
    files |= {"server.py": (ROOT / "tests" / "mcp" / "plain_server.py").read_text(encoding="utf-8")}
    files |= {"wirefault.yaml": json.dumps(WIRING), "prompts.json": '[{"prompt": "Hello"}]'}
    for name, text in files.items():
        for printed, address in servers.items():
            text = text.replace(printed, address)
        (tmp_path / name).write_text(text, encoding="utf-8")
    model, service = servers.values()
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model}/v1")
    monkeypatch.setenv("WEATHER_URL", service)
    return tmp_path


def python(part: str) -> str:
    [text] = [text for text in blocks("python") if part in text]
    return text


def test_every_snippet_is_run() -> None:
    experiments = [text for text in [*blocks("yaml"), *blocks("json")] if "title" in text]
    run_here = [FILES["toolkit.json"], blocks("json")[0], blocks("yaml")[1]]
    run_here += [FILES[name] for name in VERDICTS if name in FILES]
    assert set(experiments) == set(run_here)
    wirings = [text for text in blocks("yaml") if text not in experiments]
    assert wirings == [blocks("yaml")[0], FILES["aimock.yaml"], FILES["mcp-wiring.yaml"]]
    run_in_tests = ["weather = ", "lambda history", "space =", "assert_survives", "Wrapper(", "steps ="]
    run_in_tests += ["def call", "def is_polite", "MTTRCalculator()", "pytest.mark.wirefault"]
    assert [python(part) for part in run_in_tests] == blocks("python")
    [shell] = blocks("sh")  # level.yaml, at fewer levels
    assert shell.startswith("wirefault run level.yaml --levels ")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("target", VERDICTS)
def test_page_experiment_can_be_planned(target: str) -> None:
    done = CliRunner().invoke(main, ["plan", target])
    assert done.exit_code == 0 and "control-after" in done.output, done.output


@pytest.mark.slow
@pytest.mark.parametrize("target", VERDICTS)
def test_page_experiment_ends_with_verdict(folder: Path, target: str) -> None:
    verdict, more = VERDICTS[target]
    environ = environ_in(folder, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    ended = wirefault(folder, environ, "run", target, *more, "--toxiproxy", "embedded", "--json")
    result = json.loads(ended.stdout)
    assert result["verdict"] == verdict, ended.stdout + ended.stderr
    assert ended.returncode == {"held": 0, "deviated": 1, "unknown": 2}[verdict]
    assert result["timing"]["episodes"] >= len(result["arms"]) >= 3
    assert result["rollback"] == "verified"


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("part", "report"), [("steps =", "report"), ("space =", "fuzzed")])
def test_page_function_runs_in_place(part: str, report: str) -> None:
    names: dict[str, Any] = {}
    exec(python(part), names)
    assert names[report].verdict == "held", names[report].because


@pytest.mark.slow
def test_function_in_place_runs_by_command(folder: Path) -> None:
    text = python("lambda history").replace("report = Experiment(", "weather = Experiment(")
    (folder / "here.py").write_text(text.partition(").run()")[0] + ")\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    urls = {name: os.environ[name] for name in ("OPENAI_BASE_URL", "WEATHER_URL")}
    environ = environ_in(folder, PATH=path, **urls)
    ended = wirefault(folder, environ, "run", "here.py:weather", "--toxiproxy", "embedded", "--json")
    assert json.loads(ended.stdout)["verdict"] == "held", ended.stderr
    assert ended.returncode == 0 and "agent: yours, my_agent:ask, in this process" in ended.stderr
    refused = wirefault(folder, environ, "run", "here:weather", "--workers", "2")
    assert refused.returncode == 64 and "runs one episode at a time" in refused.stderr
    refused = wirefault(folder, environ, "run", "--again", "latest")
    assert refused.returncode == 64 and "name the experiment, too, as MODULE:NAME" in refused.stderr
    again = wirefault(folder, environ, "run", "--again", "latest", "here:weather", "--json")
    assert json.loads(again.stdout)["verdict"] == "held", again.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_page_names_are_parts_of_report() -> None:
    names: dict[str, Any] = {}
    exec(python("lambda history"), names)
    report = names["report"]
    assert report.verdict == "held", report.because
    [episode] = report.arms["method"].episodes
    names |= {"episode": episode, "metrics": episode.metrics}
    spans = [
        span
        for title in ("Scenarios in Python", "Scenarios in JSON", "Metrics and reports")
        for row in rows(title)
        for span in row[1]
        if re.match(r"(metrics|episode|report|str\(report)\b", span)
    ]
    assert len(spans) == 22
    for span in spans:
        exec(span, names)
    [row] = [row for row in rows("Metrics and reports") if "history[CallRecord]" in row[0]]
    assert {*row[2]} <= {*episode.metrics.history[0].__struct_fields__}
    assert (episode.metrics.calls, episode.metrics.failed_calls) == (4, 1)
    assert (episode.metrics.tokens_in, episode.metrics.tokens_out) == (6, 4)
    assert [*episode.metrics.calls_by_link.values()] == [2, 2]
    assert [fault.fault for fault in episode.metrics.faults] == ["server_error"]


def test_page_builders_of_wrapped_tools_exist() -> None:
    table = rows("Scenarios in Python")
    spans = [span for row in table for span in row[1] if span.startswith("faults.")]
    assert len(spans) == 2
    for span in spans:
        exec(f"entry = {span}", {"faults": faults}, scope := {})
        built = build_set({"faults": [scope["entry"]]}, span, REGISTRY, Links([Link("functions", PYTHON)]))
        assert built.faults[0].links == ("functions",)


def test_page_names_are_parts_of_context() -> None:
    spans = {span for row in rows("Scenarios in Python") for span in row[1] if span.startswith("context.")}
    known = {*dir(PythonContext), *PythonContext.__dataclass_fields__}
    assert len(spans) == 5 and {span.removeprefix("context.") for span in spans} <= known


def test_page_calculators_have_these_figures() -> None:
    names: dict[str, Any] = {}
    exec(python("MTTRCalculator()"), names)
    table = rows("Stress and recovery")
    spans = [span for row in table for span in row[1] if re.match(r"\w+(\[|\.\w+$)", span)]
    assert len(spans) == 18
    for span in spans:
        exec(span, names)
    assert (names["stats"]["mttr_seconds"], names["stats"]["methods"]) == (1.5, {"retry": 1})
    assert (names["nines"].nines, round(names["budget"].burn_rate, 2)) == (2, 0.33)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_page_wrapper_calls_tool(capsys: pytest.CaptureFixture[str]) -> None:
    exec(python("Wrapper("), {})
    assert capsys.readouterr().out.splitlines() == ["results for AI safety", "1.0"]


@pytest.mark.slow
def test_page_tests_pass_in_pytest(folder: Path) -> None:
    for number, part in enumerate(["assert_survives", "pytest.mark.wirefault"]):
        (folder / f"test_page{number}.py").write_text(python(part), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nwirefault_toxiproxy = embedded\n", encoding="utf-8")
    session = run_suite(folder, "--wirefault-seed=7")
    assert {name: case.result for name, case in session.cases.items()} == {
        "test_my_agent_survives_a_server_error": "passed",
        "test_chat_keeps_responding": "passed",
    }, session.output


@pytest.mark.usefixtures("folder")
def test_page_experiment_of_toolkit_is_explained() -> None:
    refused = CliRunner().invoke(main, ["plan", "toolkit.json"])
    assert refused.exit_code == 64
    [entry] = re.findall(r"\{toxic: .*", FILES["slow-weather.yaml"])
    assert entry in refused.output
    assert len(re.findall(r"^  \S+\[1\] ", refused.output, re.MULTILINE)) == 3


def test_page_assertion_is_called(folder: Path) -> None:
    is_polite = load_function(f"{folder}/polite.py:is_polite")
    answers = ["Oslo, please", "Oslo", None]
    assert [is_polite(SimpleNamespace(answer=answer)) for answer in answers] == [True, False, None]


class Retrying:
    """An agent with a memory, which asks for the weather again once."""

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []

    def run(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        httpx.post(url, json={"model": "any", "messages": self.messages}).raise_for_status()
        for _ in range(2):
            reply = httpx.get(os.environ["WEATHER_URL"] + "/forecast")
            if reply.is_success:
                return (
                    f"{reply.json()['degrees']} degrees in {'Rome' if 'Rome' in prompt else 'Oslo'}, please."
                )
        raise RuntimeError("quota of tries")


@pytest.mark.slow
def test_page_assertions_judge_episode(folder: Path) -> None:
    entries = [data_of(here) for _, [here] in rows("Assertions")]
    entries = [
        f"callable: {folder}/polite.py:is_polite" if "callable" in entry else entry for entry in entries
    ]
    report = Experiment(
        subject=Retrying,
        prompts=[{"turns": ["What is the weather in Oslo?", "And in Rome?"]}],
        faults=[faults.server_error(link="tools", first_calls=1, of="try")],
        assertions=[data_of(entry) if isinstance(entry, str) else entry for entry in entries],
        checks=[{"statement": "tokens <= 10000"}, "no crash"],
        seed=1,
    ).run()
    checks = [check for check in report.checks if check.arm == "method"]
    assert len(checks) == 1 + len(entries) + 2
    failed = {check.statement: check.verdict for check in checks if check.verdict != "held"}
    assert failed == {"error_expected: quota": "deviated"}  # there was no error


def test_page_operation_is_executed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def serve(connection: Any) -> None:
        for request in requests_of(connection):
            requests.append(str(request))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n3 results")

    [prompt] = json.loads((folder / "scenario.json").read_text(encoding="utf-8"))["prompts"]
    with Upstream(serve) as upstream:
        monkeypatch.setenv("SEARCH_URL", upstream.address.url)
        answer = load_function(f"{folder}/operations.py:call")(prompt["prompt"])
    assert "AI%20safety" in requests[0]
    assert prompt["expect"]["answer"]["contains"] in str(answer)


def test_page_builders_are_faults_with_triggers() -> None:
    table = rows("Builders and triggers")
    assert len(table) == 25
    for _, here, builder in table:
        if here == ["budgets"]:
            continue
        data = data_of(here[0])
        built = builder[0] if "fault" in data else f"faults.server_error({builder[0]})"
        exec(f"entry = {built}", {"faults": faults}, scope := {})
        entry: dict[str, Any] = scope["entry"]
        assert entry == {"fault": "server_error", "links": "all", **data}
        entry["links"] = "tools" if entry["links"] == "all" and "fault" not in data else entry["links"]
        assert build_set({"faults": [entry]}, built, REGISTRY, lab_links()).faults


@pytest.mark.parametrize(
    ("title", "count"),
    [("Recovery laboratory", 10), ("aimock", 6), ("mcp-chaos", 10), ("pytest-resilience-agent", 9)],
)
def test_page_faults_of_other_tools_exist(title: str, count: int) -> None:
    links = Links([*lab_links(), Link("files", STDIO, "mcp", ("FILES_MCP",))])
    table = rows(title)
    assert len(table) == count
    for _, here, *_ in table:
        for entry in here:
            data = data_of(entry if entry.startswith("{") else f"{{fault: {entry}}}")
            fault = {"fault": "server_error", **data}
            if title == "mcp-chaos" or fault["fault"] == "rpc_error":
                fault["links"] = "files"
            assert build_set({"faults": [fault]}, entry, REGISTRY, links).faults


def test_page_assertions_exist(folder: Path) -> None:
    named = [here for _, [here] in rows("Assertions")]
    for entry in named:
        data = data_of(entry)
        parse_assertion(data)
        arm = Arm(faults="heavy", assertions=[data])
        assert Experiment(title="x", method=arm, hypothesis=["no crash"]).faulted_arms["method"].assertions
    assert len(named) == 19
    assert callable(load_function(f"{folder}/polite.py:is_polite"))


def test_page_measures_exist() -> None:
    here = {name for row in rows("Stress and recovery") for name in row[1]}
    statements = {text for text in here if re.search("[<>]=", text)}
    assert len(statements) == 5
    known = set(known_names(with_control=True))
    for statement in statements:
        assert set(parse_expression(statement).names) <= known
    measures = {text for text in here if re.fullmatch(r"[a-z0-9_]+", text)}
    assert len(measures) == 17 and measures <= known


def test_page_budgets_exist() -> None:
    for _, [here] in rows("Budgets"):
        arm = Arm.model_validate({"budgets": data_of(here)})
        assert arm.breaks_something


def commands() -> list[str]:
    texts = [*re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)), *blocks("sh")]
    return sorted({text.strip() for text in texts if text.startswith("wirefault ")})


@pytest.mark.parametrize("line", commands())
def test_page_commands_have_these_options(line: str) -> None:
    words = shlex.split(line.partition(" -- ")[0])[1:]
    command: click.Command | None = main
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
