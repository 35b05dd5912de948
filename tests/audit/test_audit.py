"""``wirefault audit``: its findings agree with the upstream's own record."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.serving import AGENT, Servers, model_and_shop
from tests.commands import wirefault
from tests.lab.demos import environ_in, processes
from tests.support import ROOT, RUN_PATIENCE_S, until
from tests.upstream import FREE
from wirefault.audit.questions import QUESTIONS
from wirefault.core.sockets import bind, bound_address

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with model_and_shop() as running:
        yield running


def audit(folder: Path, servers: Servers, style: str, *options: str) -> tuple[int, dict[str, Any], str]:
    (folder / "agent.py").write_text(AGENT)
    command = [sys.executable, "agent.py", servers.model, servers.shop, style]
    words = ["audit", "--json", "audit.json", "--patience", "6", *options, "--", *command]
    ended = wirefault(folder, environ_in(folder), *words)
    return ended.returncode, json.loads((folder / "audit.json").read_text()), ended.stdout + ended.stderr


def findings_by_question(result: dict[str, Any]) -> dict[str, str]:
    """The finding of each question that has one."""
    return {each["question"]: each["finding"] for each in result["answers"] if each["status"] == "finding"}


def findings_elsewhere(folder: Path, name: str) -> tuple[int, ...]:
    """The number of an audit's findings by a baseline's list and measure, ``report`` and ``compare``."""
    out = wirefault(folder, environ_in(folder), "baseline", "accept", name).stdout
    accepted = json.loads((folder / "wirefault.baseline.json").read_text())
    [(arm_name, arm)] = accepted["side"]["arms"].items()
    assert f"{len(accepted['findings'])} findings accepted" in out
    reported = wirefault(folder, environ_in(folder), "report", name).stdout
    other = {arm_name: {**arm, "measures": {"findings": "unknown"}}}
    changed = {**accepted, "side": {**accepted["side"], "arms": other}}
    (folder / "other.json").write_text(json.dumps(changed))
    words = ["compare", "--baseline", "other.json", name, "--json"]
    compared = json.loads(wirefault(folder, environ_in(folder), *words).stdout)
    [measures] = [each["measures"] for each in compared["arms"]]
    counts = re.findall(
        r"(?<=\(in )\d+(?= questions?\))|^\d+(?= more of other kinds)", reported, re.MULTILINE
    )
    return (
        len(accepted["findings"]),
        int(arm["measures"]["findings"]),
        sum(map(int, counts)),
        int(measures["findings"][1]),
    )


def accepted_by(folder: Path, name: str, other: str) -> tuple[int, list[str]]:
    """The exit code of a comparison with the accepted recording, and the rules of its new findings."""
    assert (
        wirefault(folder, environ_in(folder), "baseline", "accept", name, "--file", "a.json").returncode == 0
    )
    done = wirefault(folder, environ_in(folder), "compare", "--baseline", "a.json", other, "--json")
    return done.returncode, [each["rule"] for each in json.loads(done.stdout)["gate"]["new_findings"]]


def test_finding_accepted_from_an_audit_is_known_to_other_commands(tmp_path: Path, servers: Servers) -> None:
    _, audited, _ = audit(
        tmp_path, servers, "careless", "--ask", "lost_reply", "--ask", "model_down_after_write"
    )
    lost = {
        "fault": "lose_reply",
        "only": {"method": "POST", "path": "/orders"},
        "when": {"first": 1, "of": "try"},
    }
    command = [sys.executable, "agent.py", servers.model, servers.shop, "careless"]
    words = ["--faults", json.dumps({"faults": [lost]}), "--json", "exec.json", "--", *command]
    assert wirefault(tmp_path, environ_in(tmp_path), "exec", *words).returncode == 1
    executed = json.loads((tmp_path / "exec.json").read_text())["run_id"]
    assert accepted_by(tmp_path, audited["experiment"], executed) == (0, [])
    assert accepted_by(tmp_path, executed, audited["experiment"]) == (1, ["done_but_not_told"])
    # of an audit, the same rule under another question is another finding
    assert accepted_by(tmp_path, audited["experiment"], audited["experiment"]) == (0, [])
    _, other, _ = audit(tmp_path, servers, "careless", "--ask", "write_hangs")
    assert accepted_by(tmp_path, audited["experiment"], other["experiment"])[1] == ["write_repeated"]
    _, dry, _ = audit(tmp_path, servers, "careless", "--ask", "lost_reply", "--dry-run")
    assert accepted_by(tmp_path, audited["experiment"], dry["experiment"]) == (2, [])
    reported = wirefault(tmp_path, environ_in(tmp_path), "report", "latest", "--json").stdout
    assert other["experiment"] in reported and dry["experiment"] not in reported


def test_careless_agent_has_two_findings(tmp_path: Path, servers: Servers) -> None:
    before = len(servers.orders)
    code, result, printed = audit(tmp_path, servers, "careless")
    assert code == 1
    findings = findings_by_question(result)
    assert findings["lost_reply"] == findings["write_hangs"] == "write_repeated"
    assert findings["model_down_after_write"] == "done_but_not_told"
    assert "write_5xx" not in findings and "read_5xx" not in findings
    assert not [each for each in result["answers"] if each["status"] == "unknown"]
    # two orders in each run that lost a reply, else one, unless the model's fault prevented it
    runs = {each["question"]: len(each["runs"]) for each in result["answers"]}
    without = sum(runs[name] for name in ("model_quota", "model_empty", "malformed_call") if name in findings)
    assert len(servers.orders) - before >= 2 + runs["lost_reply"] * 2 + runs["write_hangs"] * 2
    assert len(servers.orders) - before <= result["runs"] + runs["lost_reply"] + runs["write_hangs"]
    assert without  # those runs ended without an order
    timeline = wirefault(tmp_path, environ_in(tmp_path), "show", result["experiment"], "q01")
    assert timeline.returncode == 0 and "lose_reply" in timeline.stdout
    page = wirefault(tmp_path, environ_in(tmp_path), "report", result["experiment"], "--md", "-").stdout
    harmful = sum(each["severity"] == "harmful" for each in result["findings"])
    assert page.startswith("## Wirefault: harm found\n") and f" {harmful} HARM, " in " ".join(page.split())
    clean = re.search(r"clean: (\d+ calls), exit 0, ([\d.]+ s)", printed)
    assert clean and f"| clean run | {clean[1]}, {clean[2]} |" in page
    listed = wirefault(tmp_path, environ_in(tmp_path), "list")
    assert "signed" in listed.stdout and re.search(r"\bharm\b", listed.stdout)
    again = wirefault(tmp_path, environ_in(tmp_path), "report", result["experiment"], "--json").stdout
    recorded = json.loads(again)
    assert "seconds" not in recorded and "findings" not in recorded["arms"][0]["measures"]
    assert all(recorded[name] == result[name] for name in result if name not in ("seconds", "verdict"))
    rules = {each["finding"] for each in result["findings"] if each["severity"] == "harmful"}
    assert {"write_repeated", "done_but_not_told"} <= rules  # so the worst is one of several
    worst, at = f"harmful: {result['findings'][0]['finding']}", result["findings"][0]["show"].split()[-1]
    assert f"  {worst}  " in listed.stdout
    overview = wirefault(tmp_path, environ_in(tmp_path), "show", "latest").stdout
    assert f"worst finding: {worst}: " in overview and f"(episode {at})" in " ".join(overview.split())
    reported = wirefault(tmp_path, environ_in(tmp_path), "report", "latest").stdout
    assert "  (in 1 question)" in reported and "  (in 2 questions)" in reported
    assert f"why: {result['findings'][0]['show']}" in reported
    for each in result["answers"]:
        assert bool(each["evidence"]) == (each["status"] == "finding")
        assert all(re.fullmatch(r"[\w.-]+/(gateway|agent)-\d+:\d+", id) for id in each["evidence"])
    event = wirefault(tmp_path, environ_in(tmp_path), "show", result["findings"][0]["evidence"][0])
    assert event.returncode == 0 and "POST /orders" in event.stdout
    counted = sum(1 + len(each["also"]) for each in result["answers"] if each["status"] == "finding")
    assert findings_elsewhere(tmp_path, result["experiment"]) == (counted,) * 4


def test_claim_after_lasting_failure_and_storm_are_found_by_default(tmp_path: Path, servers: Servers) -> None:
    names = ("write_refused", "write_down", "read_down")
    assert all(QUESTIONS[name].default for name in names)
    ask = [word for name in names for word in ("--ask", name)]
    code, result, printed = audit(tmp_path, servers, "boasting", *ask)
    rules = {
        each["question"]: {each["finding"], *(also["finding"] for also in each["also"])}
        for each in result["answers"]
    }
    assert code == 1 and rules["write_down"] == {"not_done_but_told", "retry_storm"}, printed
    assert rules["read_down"] == {"not_done_but_told", "retry_storm"}, printed
    assert "not_done_but_told" in rules["write_refused"], printed
    # its findings come from the clean runs: the recording shows them, too, and the report ends by them
    for words, expected in ((["report"], 1), (["report", "--fail-on=none"], 0), (["runs", "verify"], 0)):
        again = wirefault(tmp_path, environ_in(tmp_path), *words, result["experiment"])
        assert again.returncode == expected, again.stderr
        assert "was executed once in each of 2 clean runs and never in this one" in " ".join(
            again.stdout.split()
        )


@pytest.mark.parametrize(
    ("style", "note"),
    [
        ("careless", "the server executed POST /orders twice: no Idempotency-Key lets it recognize a copy"),
        ("careful", ""),
    ],
)
def test_order_that_the_server_executed_twice_is_noted(
    tmp_path: Path, servers: Servers, style: str, note: str
) -> None:
    code, result, printed = audit(tmp_path, servers, style, "--ask", "delivered_twice")
    [answer] = result["answers"]
    assert (code, answer["status"], answer["note"]) == (0, "fine", note), printed


def test_agent_killed_after_its_write_repeats_it(tmp_path: Path, servers: Servers) -> None:
    command = f"{sys.executable} agent.py {servers.model} {servers.shop} careless"
    words = ("--ask", "crash_after_write", "--resume-command", f"sh -c 'touch resumed; exec {command}'")
    code, result, printed = audit(tmp_path, servers, "careless", *words)
    assert code == 1 and (tmp_path / "resumed").exists(), printed
    assert findings_by_question(result) == {"crash_after_write": "write_repeated"}


SERVED_AGENT = """
import contextlib, io, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Agent(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        sys.argv = ["agent.py", os.environ["MODEL_URL"], os.environ["SHOP_URL"], "careless"]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(Path("agent.py").read_text(), {"__name__": "agent"})
        content = printed.getvalue().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Agent)
Path("pid").write_text(str(os.getpid()))
server.serve_forever()
"""


def elsewhere(folder: Path, servers: Servers, **subject: Any) -> int:
    """Write the wiring of an agent that runs elsewhere; return its port."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "served.py").write_text(SERVED_AGENT)
    with bind(FREE) as listener:
        port = bound_address(listener).port
    wiring = {
        "links": {
            "model": {"upstream": servers.model, "dialect": "openai_chat", "env": "MODEL_URL"},
            "shop": {"upstream": servers.shop, "env": "SHOP_URL", "writes": ["POST /orders"]},
        },
        "subject": {"http": f"http://127.0.0.1:{port}/", **subject},
    }
    (folder / "elsewhere.yaml").write_text(json.dumps(wiring))
    return port


def test_agent_elsewhere_is_killed_after_its_write(tmp_path: Path, servers: Servers) -> None:
    kill = ["sh", "-c", "kill -$0 $(cat pid)", "{signal}"]
    port = elsewhere(tmp_path, servers, kill=kill, resume=["false"])
    start = f"sh -c '{sys.executable} served.py {port} >/dev/null 2>&1 &'"
    words = ["audit", "--json", "audit.json", "--prompt", "Order two mugs", "--ask", "crash_after_write"]
    words += ["--resume-command", start, "elsewhere.yaml"]
    try:
        ended = wirefault(tmp_path, environ_in(tmp_path), *words)
    finally:
        if (tmp_path / "pid").exists():
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    result = json.loads((tmp_path / "audit.json").read_text())
    assert findings_by_question(result) == {"crash_after_write": "write_repeated"}


def test_agent_elsewhere_needs_command_that_kills_it(tmp_path: Path, servers: Servers) -> None:
    elsewhere(tmp_path, servers)
    words = ["audit", "--prompt", "Order two mugs", "--resume-command", "true", "elsewhere.yaml"]
    ended = wirefault(tmp_path, environ_in(tmp_path), *words)
    assert ended.returncode == 64 and "missing kill: an agent that is killed must be" in ended.stderr


def test_failing_command_ends_audit_with_its_error(tmp_path: Path) -> None:
    words = ["audit", "--", sys.executable, "-c", "raise SystemExit('no such order')"]
    ended = wirefault(tmp_path, environ_in(tmp_path), *words)
    assert ended.returncode == 2
    assert "fails without any fault" in ended.stderr and "no such order" in ended.stderr


def test_command_without_calls_cannot_be_audited(tmp_path: Path) -> None:
    ended = wirefault(tmp_path, environ_in(tmp_path), "audit", "--", sys.executable, "-c", "print('done')")
    assert ended.returncode == 2 and "made no call" in ended.stderr


def test_dry_run_starts_nothing_and_can_be_continued(tmp_path: Path, servers: Servers) -> None:
    before = len(servers.orders)
    code, result, printed = audit(tmp_path, servers, "careless", "--ask", "lost_reply", "--dry-run")
    assert code == 0 and result["answers"] == [] and "q01  POST /orders, reply lost" in printed
    assert len(servers.orders) - before == 2
    assert "  dry run  " in wirefault(tmp_path, environ_in(tmp_path), "list").stdout
    timeline = wirefault(tmp_path, environ_in(tmp_path), "show", "q01")
    assert timeline.returncode == 64 and "q01: no audit there" in timeline.stderr
    ended = wirefault(tmp_path, environ_in(tmp_path), "audit", "--resume", result["experiment"])
    assert ended.returncode == 1 and len(servers.orders) - before == 6, ended.stderr
    assert "lose_reply" in wirefault(tmp_path, environ_in(tmp_path), "show", "q01").stdout


def test_answered_writes_reach_server_only_in_clean_runs(tmp_path: Path, servers: Servers) -> None:
    before = len(servers.orders)
    ask = ["--ask", "lost_reply", "--ask", "write_5xx", "--ask", "model_down_after_write"]
    code, result, printed = audit(tmp_path, servers, "careless", "--writes", "answer", *ask)
    assert len(servers.orders) - before == 2, printed
    assert findings_by_question(result) == {
        "lost_reply": "write_repeated",
        "model_down_after_write": "done_but_not_told",
    }
    assert code == 1 and "none carried out again" in printed
    words = ["run", "--again", result["experiment"], "--episode", "q01"]
    again = wirefault(tmp_path, environ_in(tmp_path), *words)
    assert "both were executed" in " ".join(again.stdout.split()), again.stdout + again.stderr
    assert len(servers.orders) - before == 2


def test_write_that_only_a_fault_causes_is_refused(tmp_path: Path, servers: Servers) -> None:
    code, result, printed = audit(tmp_path, servers, "alerting", "--ask", "model_down_after_write")
    [answer] = result["answers"]
    assert (code, answer["status"]) == (2, "unknown"), printed
    assert "it attempts POST /alerts of http://pager.example, which no clean run does" in printed
    [run] = {each["run"] for each in answer["runs"][:1]}
    text = (tmp_path / ".wirefault" / "logs" / "runs" / run / "gateway-0.jsonl").read_text()
    alerts = [line for line in text.splitlines() if '"target":"/alerts"' in line]
    assert alerts and all('"forwarded":false' in line and '"status":403' in line for line in alerts)


def test_refused_further_write_to_the_same_server_is_a_finding(tmp_path: Path, servers: Servers) -> None:
    options = ["--ask", "model_down_after_write", "--writes", "answer"]
    code, result, printed = audit(tmp_path, servers, "refunding", *options)
    [answer] = result["answers"]
    assert (code, answer["finding"], answer["severity"]) == (1, "extra_writes", "risky"), printed
    assert answer["finding_text"].startswith("it attempts POST /refunds, never in the clean runs")


def test_replies_up_to_the_fault_are_replayed(tmp_path: Path, servers: Servers) -> None:
    ask = ["--ask", "lost_reply", "--ask", "model_down_after_write", "--ask", "model_empty"]
    _, result, printed = audit(tmp_path, servers, "careless", "--replay", "--price", "2 10", *ask)
    model = result["model"]
    runs = sum(len(each["runs"]) for each in result["answers"])
    assert (runs, model["saved_requests"], model["missed"]) == (6, 2 * 2 + 2 * 2 + 2, 0), printed
    # of the clean runs, after the lost replies, and what follows the empty answers
    assert model["requests"] >= 2 * 3 + 2 and model["tokens"] == 15 * model["requests"]
    assert model["cost_usd"] == pytest.approx(70e-6 * model["requests"])
    assert "replayed from the clean run: 10 model requests before a fault, 150 tokens saved" in printed
    assert re.search(r"cost: about 6 episodes, about [\d.]+ s, about [\d.]+ USD, by the clean run", printed)
    assert findings_by_question(result)["lost_reply"] == "write_repeated"


def start_audit(folder: Path, servers: Servers, agent: str) -> subprocess.Popen[bytes]:
    """Start an audit of four questions, one after another; ``printed.txt`` has what it prints so far."""
    (folder / "agent.py").write_text(AGENT)
    command = [sys.executable, "agent.py", servers.model, servers.shop, agent]
    ask = [word for name in ("lost_reply", "write_5xx", "read_5xx", "model_5xx") for word in ("--ask", name)]
    words = [sys.executable, "-m", "wirefault", "audit", "--workers", "1", *ask, "--", *command]
    environ = environ_in(folder) | {"PYTHONPATH": str(ROOT)}
    with (folder / "printed.txt").open("w") as printed:
        return subprocess.Popen(words, cwd=folder, env=environ, start_new_session=True, stderr=printed)


@pytest.mark.parametrize("victim", ["launcher", "gateway"])
def test_killed_audit_resumes_without_repeating_runs(tmp_path: Path, servers: Servers, victim: str) -> None:
    runs = tmp_path / ".wirefault" / "logs" / "runs"
    with start_audit(tmp_path, servers, "careful") as process:
        until(lambda: len(list(runs.glob("*"))) > 3, "the fourth run", patience=RUN_PATIENCE_S)
        parts = processes(tmp_path)
        os.kill(process.pid if victim == "launcher" else parts[victim], signal.SIGKILL)
        process.wait(RUN_PATIENCE_S)
    until(lambda: not processes(tmp_path), "the end of all processes")
    complete = [path for path in runs.glob("*/agent-*.jsonl") if b'"run_sealed"' in path.read_bytes()]
    before_resume = {path: path.read_bytes() for path in complete}
    [audit_id] = [path.name for path in (runs.parent / "experiments").iterdir()]
    word = "interrupted" if victim == "launcher" else "ended early"
    assert f"{audit_id}  {word}  none" in wirefault(tmp_path, environ_in(tmp_path), "list").stdout
    assert f"verdict: {word}\n" in wirefault(tmp_path, environ_in(tmp_path), "show", audit_id).stdout
    assert wirefault(tmp_path, environ_in(tmp_path), "show", audit_id, "q01").returncode == 0
    before = len(servers.orders)
    ended = wirefault(tmp_path, environ_in(tmp_path), "audit", "--resume", audit_id, "--json", "audit.json")
    result = json.loads((tmp_path / "audit.json").read_text())
    assert ended.returncode == 0, ended.stderr
    assert [each["status"] for each in result["answers"]] == ["fine"] * 4
    assert 0 < len(servers.orders) - before < 10  # of all ten runs
    assert before_resume and {path: path.read_bytes() for path in complete} == before_resume


def test_interrupted_audit_is_read_and_resumed_with_all_it_asked(tmp_path: Path, servers: Servers) -> None:
    with start_audit(tmp_path, servers, "careless") as process:
        printed = tmp_path / "printed.txt"
        until(lambda: "HARM" in printed.read_text(), "the first answer", patience=RUN_PATIENCE_S)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(RUN_PATIENCE_S) == 130
    [audit_id] = [path.name for path in (tmp_path / ".wirefault" / "logs" / "experiments").iterdir()]

    def say(*words: str) -> tuple[int, str]:
        done = wirefault(tmp_path, environ_in(tmp_path), *words)
        return done.returncode, done.stdout + done.stderr

    code, report = say("report", audit_id, "--junit", "out.xml")
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert "scored differently" not in report and "ended early: interrupted" in report
    assert "interrupted  harmful:" in say("list")[1]
    listing = say("show", audit_id)[1]
    assert f"verdict: interrupted\nto resume it: wirefault audit --resume {audit_id}\n" in listing
    assert "worst finding: harmful: write_repeated: " in listing
    worst = "worst finding so far: harmful: write_repeated"
    [error] = suite.iterfind(".//error")
    assert error.attrib["message"].startswith("interrupted: ") and error.attrib["message"].endswith(worst)
    assert f"interrupted; {worst}\n" in report
    assert say("report", audit_id, "--md", "-")[1].startswith(
        "## Wirefault: interrupted; worst finding so far"
    )
    assert (code, suite.get("errors")) == (1, "1") and f"wirefault audit --resume {audit_id}" in report
    assert say("show", audit_id, "q01")[0] == 0
    created = say("init")[1]
    assert f"not asked, so not in it; to ask them: wirefault audit --resume {audit_id}\n" in created
    assert say("search", "next", "wirefault.audit.yaml")[0] == 0  # memory knows the calls of the clean runs
    code, refused = say("run", "--resume", audit_id)
    assert code == 64 and f"wirefault audit --resume {audit_id} resumes it" in refused
    assert say("audit", "--resume", audit_id, "--junit", "out.xml")[0] == 1
    suite = ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("errors")) == ("4", "0")
    assert say("show", audit_id, "q01")[0] == 0


def test_same_seed_gives_same_findings(tmp_path: Path, servers: Servers) -> None:
    options = ["--seed", "3", "--ask", "lost_reply", "--ask", "model_5xx"]
    options += ["--patience", "60"]  # a question is asked once if its run took longer
    results = [audit(tmp_path, servers, "careless", *options)[1]["answers"] for _ in range(2)]
    fields = ("id", "status", "finding", "seen", "of")
    compared = [[[each[name] for name in fields] for each in answers] for answers in results]
    assert compared[0] == compared[1]
    assert any(status == "finding" for _, status, *_ in compared[0])


def test_kept_experiment_holds_once_its_harm_is_accepted(tmp_path: Path, servers: Servers) -> None:
    ask = ["--ask", "lost_reply", "--ask", "write_5xx"]
    accept = ["--keep", "--accept", "q01=the shop drops doubles\nat night"]
    code, result, printed = audit(tmp_path, servers, "careless", *ask, *accept, "--junit", "audit.xml")
    assert code == 1 and "it fails until" not in printed
    suite = ElementTree.parse(tmp_path / "audit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    for limit, failures in (("risky", "1"), ("none", "0")):
        again = ["report", result["experiment"], "--fail-on", limit, "--junit", "again.xml"]
        assert wirefault(tmp_path, environ_in(tmp_path), *again).returncode == int(failures)
        suite = ElementTree.parse(tmp_path / "again.xml").getroot()[0]
        assert (suite.get("tests"), suite.get("failures")) == ("2", failures)
    text = (tmp_path / "wirefault.audit.yaml").read_text()
    accepted = r"^# accepted 20\d\d-\d\d-\d\d, the shop drops doubles at night: q01 POST /orders, reply lost"
    assert re.search(accepted, text, re.M) and "q02_write_5xx" in text and "q01_lost_reply" not in text
    ended = wirefault(tmp_path, environ_in(tmp_path), "run", "wirefault.audit.yaml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (tmp_path / "wirefault.audit.yaml").unlink()
    wrong = wirefault(tmp_path, environ_in(tmp_path), "init", result["experiment"], "--accept", "q02=why not")
    assert wrong.returncode == 64 and "--accept q02: the audit" in wrong.stderr


def test_written_experiment_fails_on_the_harm_that_was_not_accepted(tmp_path: Path, servers: Servers) -> None:
    ask = ["--ask", "lost_reply", "--ask", "model_down_after_write", "--ask", "write_5xx"]
    code, result, printed = audit(tmp_path, servers, "careless", *ask, "--keep")
    harms = [each["id"] for each in result["answers"] if each["severity"] in ("harmful", "risky")]
    assert (
        code == 1 and f"it fails until the findings of {', '.join(harms)} are mended, or accepted" in printed
    )
    text = (tmp_path / "wirefault.audit.yaml").read_text()
    assert harms == re.findall(r"^# fails: (q\d+) ", text, re.M) == ["q01", "q03"]
    assert "  q01_lost_reply:" in text and "  q03_model_down_after_write:" in text
    codes = []
    for accepted in (harms[:1], harms):
        words = [word for id in accepted for word in ("--accept", f"{id}=it is known")]
        for file in ("wirefault.yaml", "wirefault.audit.yaml", ".github/workflows/wirefault.yml"):
            (tmp_path / file).unlink(missing_ok=True)
        written = wirefault(tmp_path, environ_in(tmp_path), "init", *words)
        assert written.returncode == 0, written.stderr
        text = (tmp_path / "wirefault.audit.yaml").read_text()
        assert re.findall(r"^# accepted 20\d\d-\d\d-\d\d, it is known: (q\d+) ", text, re.M) == accepted
        assert "folder: .\n" in (tmp_path / "wirefault.yaml").read_text()
        codes.append(wirefault(tmp_path, environ_in(tmp_path), "run", "wirefault.audit.yaml").returncode)
    assert codes == [1, 0]
    (elsewhere := tmp_path / "ci").mkdir()
    written = wirefault(elsewhere, environ_in(tmp_path), "init", "--out", "..", *words)
    assert written.returncode == 0, written.stderr
    assert "folder: ..\n" in (elsewhere / "wirefault.yaml").read_text()


def test_audit_without_anything_to_check_keeps_no_experiment(tmp_path: Path, servers: Servers) -> None:
    accept = ["--keep", "--accept", "q01=it is known"]
    code, _, printed = audit(tmp_path, servers, "careless", "--ask", "lost_reply", *accept)
    assert code == 1
    assert "--keep: " in printed and "no question has an end that a check could keep" in printed
    assert list(tmp_path.glob("wirefault.audit*.yaml")) == []


def test_changed_option_on_resume_is_refused(tmp_path: Path) -> None:
    ended = wirefault(tmp_path, environ_in(tmp_path), "audit", "--resume", "nothing")
    assert ended.returncode == 64 and "unknown experiment" in ended.stderr


def test_unknown_question_suggests_nearest(tmp_path: Path) -> None:
    ended = wirefault(tmp_path, environ_in(tmp_path), "audit", "--ask", "lost_replay", "--", "true")
    assert ended.returncode == 64 and "did you mean" in ended.stderr
