"""One event has one severity, one sentence and one exit code, whichever command sees it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask, Response, request

from tests.cli_process import CliProcess
from tests.commands import wirefault
from tests.lab.demos import environ_in, processes
from tests.support import share, until
from tests.upstream import serving
from wirefault.cli.recorded import recording_named
from wirefault.experiments.index import ListedRun, ids_by_age, listed_run, saved_ids
from wirefault.judging.ending import FOUND
from wirefault.report.ui.app import Runs

pytestmark = pytest.mark.slow

AGENT = """
import http.client, json, os, sys, time, urllib.error, urllib.request

def call(method, path, body=None):
    base = os.environ.get("SHOP_URL") or "{url}"
    sent = urllib.request.Request(base + path, body, {{"Content-Type": "application/json"}}, method=method)
    with urllib.request.urlopen(sent, timeout=30) as reply:
        return json.load(reply)

def again(pause, method, path, body=None, tries=3):
    for _ in range(tries):
        try:
            return call(method, path, body)
        except OSError:
            time.sleep(pause)
    return None

TEA = b'{{"item": "tea"}}'

def replayed():
    print("ordered", again(0, "POST", "/orders", TEA))

def step():
    for _ in range(2):
        try:
            call("POST", "/orders", TEA)
            print("ordered at", call("GET", "/price")["price"])
            return
        except OSError:
            pass

def honest():
    try:
        print("ordered", call("POST", "/orders", TEA))
    except OSError as error:
        print("The order failed, and it is unknown whether it was placed:", error)
        sys.exit(3)

def hasty():
    print("ordered", again(0, "POST", "/orders", TEA))

def useless():
    print("the price is", again(0.01, "GET", "/price"))

def storm():
    print("the price is", again(0, "GET", "/price", tries=29))

def price():
    print("the price is", call("GET", "/price")["price"])

crash = price

def report():
    print(json.dumps({{"status": "done", "values": [call("GET", "/price")["price"]]}}))

def liar():
    again(0, "GET", "/price", tries=1)
    print('{{"status": "done"}}')

def deny():
    try:
        print("ordered", call("POST", "/orders", TEA))
    except OSError:
        print("The order failed: nothing was ordered.")

def quiet():
    try:
        print("the price is", call("GET", "/price")["price"])
    except OSError:
        pass

def half():
    asked = b'{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'
    base = os.environ.get("MODEL_URL") or "{url}/v1"
    sent = urllib.request.Request(base + "/chat/completions", asked, {{"Content-Type": "application/json"}})
    try:
        for line in urllib.request.urlopen(sent, timeout=30):
            if line.startswith(b"data: {{"):
                print(json.loads(line[6:])["choices"][0]["delta"].get("content", ""), end="")
    except (OSError, http.client.HTTPException):
        pass

def past():
    direct = http.client.HTTPConnection("{url}".removeprefix("http://"))
    direct.request("GET", "/price")
    time.sleep(1)  # the lab looks at connections 50 times a second
    print("the price is", json.load(direct.getresponse())["price"])

def parrot():
    try:
        print(call("GET", "/price"))
    except urllib.error.HTTPError as error:
        print(error.read().decode())

def lingering():
    replayed()
    open("ordered", "w").close()
    time.sleep(600)

if __name__ == "__main__":
    globals()[sys.argv[1]]()
"""
ONCE = {"first": 1, "of": "try"}
LOST = {"fault": "lose_reply", "only": {"method": "POST"}, "when": ONCE}
PRICE_FAILS = {"fault": "unavailable", "only": {"method": "GET"}, "when": ONCE}
REFUSED = {"fault": "status", "only": {"method": "GET"}, "with": {"status": 400}}
MISSING = {"fault": "status", "only": {"method": "GET"}, "with": {"status": 404}}
ASKED_TO_WAIT = {"fault": "rate_limit", "only": {"method": "POST"}, "when": ONCE, "with": {"retry_after": 30}}
PRICE_DOWN = {"fault": "server_error", "only": {"method": "GET"}}
CUT = {"fault": "stream_cut"}
WRONG = {"fault": "wrong_value", "only": {"method": "GET"}, "with": {"field": "price"}}
NEVER = {"fault": "lose_reply", "only": {"method": "DELETE"}}


NO_ORACLE = "an audit has no oracle"


@dataclass(frozen=True)
class Event:
    """What an agent does under a fault, and what every command that sees it says."""

    behaviour: str
    fault: dict[str, Any]
    severity: str = ""
    rule: str = ""
    sentence: str = ""
    """Durations are #."""
    code: int = 0
    control: bool = False
    """Only a comparison with clean runs shows it: ``exec`` and ``run`` have none, and end with 0."""
    question: str = ""
    """The question of the audit that makes it happen."""
    no_question: str = ""
    """Why no question does."""
    expect: dict[str, Any] | None = None
    """An oracle, which an experiment's other prompts have not."""
    word: str = "nothing harmful found"
    """What list, show, page and JUnit file say of the run, if no finding decides."""

    @property
    def finding(self) -> tuple[str, str, str]:
        return self.severity, self.rule, self.sentence


EVENTS = {
    "a write replayed after a lost reply": Event(
        "replayed",
        LOST,
        "harmful",
        "write_repeated",
        "POST /orders was sent again # after its reply was lost, by the client; both were executed, with no"
        " Idempotency-Key",
        1,
        question="lost_reply",
    ),
    "a step repeated because another call failed": Event(
        "step",
        PRICE_FAILS,
        "harmful",
        "write_repeated",
        "POST /orders was sent again # after it had succeeded, because GET /price failed with 503; both"
        " were executed, with no Idempotency-Key",
        1,
        question="read_5xx",
    ),
    "an honest failure": Event("honest", LOST, question="lost_reply"),
    "a false claim, by an oracle": Event(
        "liar",
        PRICE_FAILS,
        "harmful",
        "false_success",
        "the agent says that it is done, but it is not as asked: message_sent missing",
        1,
        expect={"effects": [{"kind": "message_sent"}]},
        no_question=NO_ORACLE,
    ),
    "Retry-After ignored": Event(
        "hasty",
        ASKED_TO_WAIT,
        "risky",
        "hasty_retry",
        "POST /orders was sent again after #, before a Retry-After of # ended (429)",
        1,
        question="write_429",
    ),
    "a refused request retried": Event(
        "useless",
        REFUSED,
        "wasteful",
        "useless_retry",
        "GET /price was sent again twice, unchanged, after a 400; none succeeded",
        no_question="no question answers a read with a 400",
    ),
    "an error as the answer": Event(
        "parrot",
        MISSING,
        "risky",
        "error_as_answer",
        "the answer is only the error of GET /price (404), and the agent ended normally",
        1,
        question="read_404",
    ),
    "a retry storm": Event(
        "storm",
        PRICE_DOWN,
        "risky",
        "retry_storm",
        "GET /price was sent # times in a row after failures, with pauses of at most #",
        1,
        question="read_down",
    ),
    "half a stream as the answer": Event(
        "half",
        CUT,
        "risky",
        "open_stream",
        "the stream of POST /v1/chat/completions ended without its finish reason,"
        " and was taken for the whole answer",
        1,
        no_question="a stream is cut after a write, which this agent does not make",
    ),
    "a claimed failure": Event(
        "deny",
        LOST,
        "harmful",
        "done_but_not_told",
        "POST /orders was executed once, as in the control, but the answer differs:"
        " 'The order failed: nothing was ordered.'",
        1,
        True,
        question="lost_reply",
    ),
    "a crash": Event(
        "crash",
        PRICE_FAILS,
        "risky",
        "one_failure_ends_it",
        "GET /price failed once and was the last request, and the program ended",
        1,
        True,
        word="crash",
        question="read_5xx",
    ),
    "silence": Event(
        "quiet",
        PRICE_FAILS,
        "risky",
        "silent",
        "the answer is empty, and the program reported no error",
        1,
        True,
        word="crash",
        question="read_5xx",
    ),
    "a wrong value believed, without an oracle": Event(
        "price", WRONG, no_question="only a figure that another reply has, too, is asked about"
    ),
    # outcomes that no oracle calls a false claim: docs/outcomes.md
    "a planted value believed": Event(
        "report", WRONG, expect={"values": [{"number": 4}], "effects": []}, no_question=NO_ORACLE
    ),
    "a wrong value in prose": Event(
        "price", WRONG, expect={"values": [{"number": 4}], "effects": []}, no_question=NO_ORACLE
    ),
    "a lost effect without a claim": Event(
        "price", WRONG, expect={"effects": [{"kind": "message_sent"}]}, no_question=NO_ORACLE
    ),
    "the lab bypassed": Event(
        "past",
        PRICE_DOWN,
        "note",
        "past_the_lab",
        "connection bypassed the lab",
        2,
        word="unknown",
        no_question="only calls through the lab are asked about",
    ),
    "no fault met": Event(
        "replayed", NEVER, code=2, word="unknown", no_question="each question is about a call that it meets"
    ),
}


def shop_app() -> Flask:
    app = Flask("shop")

    @app.post("/orders")
    def order() -> Response:
        request.get_data()
        return Response('{"id": 1}', 201, content_type="application/json")

    @app.get("/price")
    def price() -> Response:
        return Response('{"price": 4}', content_type="application/json")

    @app.post("/v1/chat/completions")
    def stream() -> Response:
        words = [
            {"content": f"{word} "} for word in ["It", "is", "sunny", "and", "warm", "in", "Berlin", "today"]
        ]
        deltas = [*((word, None) for word in words), ({}, "stop")]
        chunks = [
            {
                "id": "c1",
                "object": "chat.completion.chunk",
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            for delta, reason in deltas
        ]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return Response([*lines, "data: [DONE]\n\n"], content_type="text/event-stream")

    return app


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    with serving(shop_app()) as address:
        yield address.url


Findings = dict[str, list[tuple[str, str, str]]]
"""Severity, rule and sentence of each finding, by event."""
IDS = {f"e{number}": name for number, name in enumerate(EVENTS)}
# A wiring whose links have variables has no tap, and what does not use these is not watched.
WITHOUT_WIRING = "the lab bypassed"
WIRED = {id: name for id, name in IDS.items() if name != WITHOUT_WIRING}
WATCHED = {id: name for id, name in WIRED.items() if EVENTS[name].expect is None}
# one event for each ending of a command and each word
ENDINGS = (
    "a write replayed after a lost reply",
    "an honest failure",
    "a false claim, by an oracle",
    "Retry-After ignored",
    "a refused request retried",
    "a crash",
    WITHOUT_WIRING,
    "no fault met",
)


def faults_of(events: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fault of each event, met in its episode alone."""
    faults = ((id, EVENTS[name].fault) for id, name in events.items())
    return [{**fault, "id": id, "only": {**fault.get("only", {}), "episodes": [id]}} for id, fault in faults]


def prompts_of(events: Mapping[str, str]) -> list[dict[str, Any]]:
    entries = ((id, EVENTS[name]) for id, name in events.items())
    return [
        {"id": id, "prompt": event.behaviour, **({"expect": event.expect} if event.expect else {})}
        for id, event in entries
    ]


FAULTS, PROMPTS = faults_of(WATCHED), prompts_of(WATCHED)


def prepared(folder: Path, url: str) -> None:
    (folder / "shopper.py").write_text(AGENT.format(url=url))
    subject = {"command": [sys.executable, "shopper.py", "{prompt}"]}
    model = {"upstream": f"{url}/v1", "env": "MODEL_URL", "dialect": "openai_chat"}
    links = {"shop": {"upstream": url, "env": "SHOP_URL"}, "model": model}
    (folder / "wirefault.yaml").write_text(json.dumps({"links": links, "subject": subject}))


def plain(text: str) -> str:
    """The text on one line, # for durations, without links, addresses and how a program ended.

    A storm of 29 has five in a row however a busy machine divides it by pauses, but not always all 29.
    """
    text = re.sub(r"\b\d+(\.\d+)? (ms|s)\b|\d+(?= times in a row)", "#", " ".join(text.split()))
    text = re.sub(r" of (shop|port_\d+)(?= was)|(?<=bypassed the lab).*|(?<=program ended).*", "", text)
    return text.replace("as in the clean runs", "as in the control")


def judged(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["severity"], row["rule"], plain(row["text"])) for row in rows]


# all events in one recording without a control: `exec`, `run` of a wiring, and what repeats `exec`


def test_exec_again_and_run_judge_alike(tmp_path: Path, shop: str) -> None:
    prepared(tmp_path, shop)
    (tmp_path / "prompts.json").write_text(json.dumps(prompts_of(WIRED)))
    (tmp_path / "faults.json").write_text(json.dumps({"faults": faults_of(WIRED)}))
    how = ("--prompts", "prompts.json", "--faults", "faults.json", "--json")
    agent = (sys.executable, "shopper.py", "{prompt}")
    ended = wirefault(
        tmp_path, environ_in(tmp_path), "exec", "--tap", "proxy", *how, "out.json", "--", *agent
    )
    code, again = by_again(tmp_path)
    ran = wirefault(tmp_path, environ_in(tmp_path), "run", "wirefault.yaml", *how, "--no-charts")
    assert (ended.returncode, code, ran.returncode) == (1, 1, 1)
    executed = json.loads((tmp_path / "out.json").read_text("utf-8"))
    for command, summary in {"exec": executed, "again": again, "run": json.loads(ran.stdout)}.items():
        findings: Findings = {id: [] for id in WIRED}
        for row in summary["findings"]:
            findings[row["episode"]] += judged([row])
        for id, name in WIRED.items():
            event = EVENTS[name]
            expected = [] if event.control or not event.rule else [event.finding]
            assert findings[id] == expected, (command, name)


# a run for an event of each ending, and what reads the recording of `exec`


def prompted(folder: Path, event: Event) -> tuple[str, ...]:
    """The options for a prompt with an oracle."""
    entry = {"id": "one", "prompt": event.behaviour, "expect": event.expect}
    (folder / "prompts.json").write_text(json.dumps([entry]))
    return "--prompts", "prompts.json"


def by_exec(folder: Path, event: Event) -> tuple[int, Any]:
    words = ["--tap", "proxy", "--faults", json.dumps({"faults": [event.fault]}), "--json", "out.json"]
    words += prompted(folder, event) if event.expect else []
    behaviour = "{prompt}" if event.expect else event.behaviour
    command = ("--", sys.executable, "shopper.py", behaviour)
    done = wirefault(folder, environ_in(folder), "exec", *words, *command)
    return done.returncode, json.loads((folder / "out.json").read_text("utf-8"))


def by_run(folder: Path, event: Event) -> tuple[int, Any]:
    words = ["--faults", json.dumps({"faults": [event.fault]})]
    words += prompted(folder, event) if event.expect else ["--prompt", event.behaviour]
    done = wirefault(folder, environ_in(folder), "run", "wirefault.yaml", *words, "--json", "--no-charts")
    return done.returncode, json.loads(done.stdout)


def by_again(folder: Path) -> tuple[int, Any]:
    done = wirefault(folder, environ_in(folder), "run", "--again", "latest")
    scored = wirefault(folder, environ_in(folder), "runs", "verify", "latest", "--json")
    return done.returncode, json.loads(scored.stdout)


@pytest.mark.parametrize("name", [name for number, name in enumerate(ENDINGS) if share(number)])
def test_exec_run_again_and_report_end_alike(tmp_path: Path, shop: str, name: str) -> None:
    event = EVENTS[name]
    prepared(tmp_path, shop)
    expected = [] if event.control or not event.rule else [event.finding]
    code = 0 if event.control else event.code
    runs = {"exec": by_exec(tmp_path, event), "again": by_again(tmp_path)}
    if name != WITHOUT_WIRING:
        runs["run"] = by_run(tmp_path, event)
    word = event.word if event.control else FOUND.get(event.severity, event.word)  # type: ignore[call-overload]
    for command, (ended, summary) in runs.items():
        assert (judged(summary["findings"]), ended) == (expected, code), command
        assert any("shows nothing" in remark for remark in summary["remarks"]) == (code == 2), command
    assert words_of(tmp_path, code) == [word] * 4
    [suite] = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == (f"{int(code == 1):d}", f"{int(code == 2):d}")
    listed = wirefault(tmp_path, environ_in(tmp_path), "runs", "list").stdout
    kinds = re.findall(r"\b(?:harmful|risky): \w+", listed)
    assert kinds[-1:] == ([f"{event.severity}: {event.rule}"] if word in FOUND.values() else [])
    unlimited = wirefault(tmp_path, environ_in(tmp_path), "report", "latest", "--fail-on", "none")
    assert unlimited.returncode == (2 if code == 2 else 0), unlimited.stderr


def newest(folder: Path) -> ListedRun:
    logs = folder / ".wirefault" / "logs"
    id = ids_by_age(logs)[0]
    return listed_run(logs, id, is_saved=id in saved_ids(logs))


def words_of(folder: Path, code: int) -> list[str]:
    """What list, show, Markdown and JUnit file say of the newest run, whose report ends with this code."""
    output = wirefault(folder, environ_in(folder), "show", "latest").stdout.partition("\nverdict: ")[2]
    words = ("report", "latest", "--md", "out.md", "--junit", "out.xml")
    reported = wirefault(folder, environ_in(folder), *words)
    assert reported.returncode == code, reported.stderr
    heading = (folder / "out.md").read_text("utf-8").splitlines()[0].removeprefix("## Wirefault: ")
    [property] = ElementTree.parse(folder / "out.xml").iterfind(".//property[@name='verdict']")
    headed = re.split("[,:;]| in the judged", heading)[0]
    return [newest(folder).verdict, output.splitlines()[0], headed, property.attrib["value"]]


@pytest.mark.parametrize("end", ["Ctrl-C", "launcher killed", "all killed"])
def test_interrupted_run_says_so_with_its_worst_finding(tmp_path: Path, shop: str, end: str) -> None:
    prepared(tmp_path, shop)
    faults = ("--faults", json.dumps({"faults": [LOST]}))
    command = ("--", sys.executable, "shopper.py", "lingering")
    with CliProcess(tmp_path, environ_in(tmp_path), "exec", "--tap", "proxy", *faults, *command) as running:
        until((tmp_path / "ordered").exists)
        until(lambda: b"lose_reply" in recorded_in(tmp_path), "the record of the fault")
        parts = processes(tmp_path) if end == "all killed" else {}
        running.send_signal(signal.SIGINT if end == "Ctrl-C" else signal.SIGKILL)
        for pid in parts.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        printed = running.output()
    until(lambda: not processes(tmp_path), "the end of all processes")
    logs = tmp_path / ".wirefault" / "logs"
    resume = f"to resume it: wirefault run --resume {ids_by_age(logs)[0]}\n"
    assert words_of(tmp_path, 1) == ["interrupted"] * 4
    worst = "worst finding so far: harmful: write_repeated"
    heading = (tmp_path / "out.md").read_text("utf-8").splitlines()[0].replace("\\_", "_")
    assert heading == f"## Wirefault: interrupted; {worst}"
    [case] = ElementTree.parse(tmp_path / "out.xml").iterfind(".//testcase[@name='completed']/error")
    assert case.attrib["message"] == f"interrupted: it did not run to its end; {worst}"
    assert Runs(logs, {"LOGS_DIR": str(logs)}).rows()[0].run.worst == "harmful: write_repeated"
    say = {word: wirefault(tmp_path, environ_in(tmp_path), word, *names).stdout for word, *names in READERS}
    assert re.search(r"  interrupted  +harmful:", say["list"]) and " write_repeated " in say["list"]
    assert resume.removeprefix("to resume it: ") in say["list"]
    assert resume in say["show"] and resume in say["report"] and f"interrupted; {worst}\n" in say["report"]
    assert re.search(r"^1/1 unjudged .*interrupted", " ".join(say["show"].split())), say["show"]
    assert "lab failed" not in say["report"]
    if end == "Ctrl-C":
        assert running.returncode == 130 and resume in printed
    for code, limit in ((1, "harmful"), (2, "none")):
        reported = wirefault(tmp_path, environ_in(tmp_path), "report", "latest", "--fail-on", limit)
        assert reported.returncode == code, reported.stderr


READERS = (("list",), ("show", "latest"), ("report", "latest"))


def recorded_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob(".wirefault/logs/runs/*/gateway-0.jsonl"))


# all events in one recording with a control: an experiment of a file, and of a function in place

IN_PLACE = """
import contextlib, io
from wirefault import Experiment
import shopper

def answer(behaviour):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        getattr(shopper, behaviour)()
    return printed.getvalue()

one = Experiment(subject=answer, prompts={prompts}, faults={faults}, checks=["no duplicate"])
"""


def by_file(folder: Path) -> int:
    plan = {"title": "one", "wiring": "wirefault.yaml", "prompts": PROMPTS, "hypothesis": ["no duplicate"]}
    (folder / "one.yaml").write_text(json.dumps(plan | {"method": {"faults": {"faults": FAULTS}}}))
    code: int = wirefault(folder, environ_in(folder), "run", "one.yaml").returncode
    return code


def in_place(folder: Path) -> int:
    (folder / "one.py").write_text(IN_PLACE.format(prompts=PROMPTS, faults=FAULTS))
    words = [sys.executable, "-m", "wirefault", "run", "one.py"]  # the agent runs in the command's process
    environ = {**os.environ, **environ_in(folder)}
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, timeout=600).returncode


@pytest.mark.parametrize("run", [by_file, in_place])
def test_experiments_judge_alike(tmp_path: Path, shop: str, run: Callable[[Path], int]) -> None:
    """The hypothesis decides about the exit code; nothing else differs from an audit."""
    prepared(tmp_path, shop)
    code = run(tmp_path)
    by_event: Findings = defaultdict(list)
    for finding in recording_named("latest", tmp_path / ".wirefault").arm("method").summary.findings:
        by_event[finding.episode] += judged([finding.as_json()])
    for id, name in WATCHED.items():
        event = EVENTS[name]
        assert by_event[id] == ([event.finding] if event.rule else []), name
    assert code == 1


def test_run_prints_the_result_of_its_report_with_the_harm_first(tmp_path: Path, shop: str) -> None:
    prepared(tmp_path, shop)
    prompts = [{"id": "one", "prompt": "replayed"}]
    plan: dict[str, Any] = {"title": "one", "wiring": "wirefault.yaml", "prompts": prompts}
    plan |= {"method": {"faults": {"faults": [LOST]}}, "hypothesis": ["no crash"]}
    (tmp_path / "one.yaml").write_text(json.dumps(plan))
    live = wirefault(tmp_path, environ_in(tmp_path), "run", "one.yaml")
    _, *result = wirefault(tmp_path, environ_in(tmp_path), "report", "latest").stdout.splitlines()
    harm = (
        "harmful, although the hypothesis held: method, write_repeated: Your agent ordered twice after one "
    )
    assert result[0].startswith(harm)
    assert live.stdout.splitlines()[-len(result) :] == result
    [method] = (line for line in result if line.startswith("method ") and "faults delivered" in line)
    assert re.match(r"method +success 0 % \(0 of 1\), faults delivered", method)
    # one control episode does not show that the agent orders once
    assert re.search(r"^method: [\d.]+ s, success open until control-after, ", live.stderr, re.MULTILINE)


# the same by the audit, which makes the event by its own questions

QUESTIONED = [name for name, event in EVENTS.items() if event.question]


@pytest.mark.parametrize("name", [name for number, name in enumerate(QUESTIONED) if share(number)])
def test_audit_judges_alike(tmp_path: Path, shop: str, name: str) -> None:
    event = EVENTS[name]
    prepared(tmp_path, shop)
    command = (sys.executable, "shopper.py", event.behaviour)
    words = ("audit", "--ask", event.question, "--json", "out.json", "--", *command)
    done = wirefault(tmp_path, environ_in(tmp_path), *words)
    [answer] = json.loads((tmp_path / "out.json").read_text("utf-8"))["answers"]
    seen = (answer["severity"] or "", answer["finding"] or "", done.returncode)
    assert seen == (event.severity, event.rule, event.code), done.stdout
    timeline = wirefault(tmp_path, environ_in(tmp_path), "show", "latest", "q01", "--json").stdout
    assert not event.rule or event.finding in judged(json.loads(timeline)["findings"])
    page = wirefault(tmp_path, environ_in(tmp_path), "report", "latest", "--md", "-").stdout
    word = FOUND.get(event.severity, event.word)  # type: ignore[call-overload]
    assert newest(tmp_path).verdict == word and page.startswith(f"## Wirefault: {word}\n")


def test_each_event_has_a_question_or_says_why_not() -> None:
    assert [name for name, event in EVENTS.items() if bool(event.question) == bool(event.no_question)] == []


# and by pytest, whose tests fail where the other commands end with 1

TEST = """
import subprocess, sys, pytest

@pytest.mark.wirefault(faults=[{fault}])
def test_{id}(wirefault):
    done = subprocess.run([sys.executable, "shopper.py", "{behaviour}"], stdout=subprocess.PIPE, text=True)
    wirefault.answer(done.stdout)
"""


def test_pytest_judges_alike(tmp_path: Path, shop: str) -> None:
    """A marked test has neither a clean run to compare with nor an oracle."""
    prepared(tmp_path, shop)
    events = {
        id: EVENTS[name] for id, name in IDS.items() if not (EVENTS[name].control or EVENTS[name].expect)
    }
    tests = [TEST.format(fault=event.fault, id=id, behaviour=event.behaviour) for id, event in events.items()]
    (tmp_path / "test_shop.py").write_text("".join(tests))
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml",
        "out.xml",
        "test_shop.py",
    ]
    environ = {**os.environ, **environ_in(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=600)
    cases = {case.attrib["name"]: case for case in ElementTree.parse(tmp_path / "out.xml").iter("testcase")}
    for id, event in events.items():
        failed = (
            cases[f"test_{id}"].find("failure") is not None or cases[f"test_{id}"].find("error") is not None
        )
        assert failed == bool(event.code), (event, done.stdout)
    output = plain(done.stdout)
    for event in events.values():
        assert event.code != 1 or f"{event.rule} ({event.severity}): {event.sentence}" in output
