"""Marked tests of a user's suite, with real clients, servers and a real lab."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pytest_plugin.suites import NAMED, Session, run_suite, write_suite
from wirefault.cli.main import main
from wirefault.experiments.index import listed_run, lone_runs

pytestmark = pytest.mark.slow

TESTS = """
import _socket
import os
import httpx
import pytest
import requests

ONCE = {"nth": "1", "of": "try"}

def items(shop):
    for _ in range(3):
        reply = httpx.get(shop + "/items")
        if reply.status_code == 200:
            return reply.json()

def order(shop):
    for _ in range(2):
        try:
            return requests.post(shop + "/orders", json={"item": "mug"}).json()
        except requests.ConnectionError:
            pass

LOST = [{"id": "lost", "fault": "lose_reply", "when": ONCE}]

@pytest.mark.wirefault(faults=[{"fault": "unavailable", "when": ONCE}])
def test_retry(shop):
    assert items(shop) == ["mug"]

@pytest.mark.wirefault(faults=LOST)
def test_blind_retry(shop):
    order(shop)

@pytest.mark.wirefault(faults=LOST, allow="write_repeated")
def test_allowed(shop):
    order(shop)

@pytest.mark.wirefault(faults=LOST, expect=["write_repeated"])
def test_expected(shop):
    order(shop)

@pytest.mark.wirefault(faults=[{"fault": "unavailable", "when": ONCE}], expect="write_repeated")
def test_expected_in_vain(shop):
    items(shop)

@pytest.mark.wirefault(faults="lose_reply")
def test_no_call():
    pass

@pytest.mark.wirefault(faults=[{"fault": "delay", "only": {"path": "/orders"}}, {"fault": "unavailable"}])
def test_one_of_two(shop):
    items(shop)

@pytest.mark.wirefault(faults="unavailable")
def test_own_assertion(shop):
    assert items(shop) == ["mug"]

@pytest.mark.wirefault(faults="unavailable")
def test_own_skip(shop):
    pytest.skip("not today")

@pytest.mark.wirefault("unavailable", repeat=3)
def test_misspelt(shop):
    pass

@pytest.mark.wirefault("unavailable")
def test_provider(shop):
    httpx.post("https://api.openai.com/v1/chat/completions", json={})

@pytest.mark.wirefault("unavailable", paid=True)
def test_says_paid(shop):
    items(shop)

@pytest.mark.wirefault(faults={"toxics": [{"toxic": "latency", "with": {"latency": 100}}]})
def test_toxic(shop):
    assert items(shop) == ["mug"]  # a host's first connection is before the toxic
    assert items(shop) == ["mug"]

@pytest.mark.wirefault("unavailable")
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async(shop, anyio_backend):
    async with httpx.AsyncClient() as client:
        assert (await client.get(shop + "/items")).status_code == 503

@pytest.mark.wirefault(faults=[{"fault": "unavailable", "when": {"probability": 0.5}}], repeats=12)
def test_repeated(shop):
    items(shop)

@pytest.mark.wirefault(faults=[{"fault": "unavailable", "when": {"probability": 0.000001}}], repeats=2)
def test_never_drawn(shop):
    items(shop)

class TestInClass:
    pytestmark = pytest.mark.wirefault("unavailable")

    def test_method(self, shop):
        assert httpx.get(shop + "/items").status_code == 503

def test_plain(shop):
    assert "WIREFAULT_TAP" not in os.environ
    assert httpx.get(shop + "/items").status_code == 200

CLIENT = httpx.Client(limits=httpx.Limits(keepalive_expiry=600))

@pytest.mark.wirefault("unavailable")
def test_client_from_import(shop):
    assert CLIENT.get(shop + "/items").status_code == 503

PAST = []

@pytest.mark.wirefault("unavailable")
def test_past_the_tap(shop):
    PAST.append(_socket.socket())
    PAST[0].connect(("127.0.0.1", int(shop.rpartition(":")[2])))

def test_addresses(wirefault):
    assert "HTTPS_PROXY" not in os.environ
    assert wirefault.variables["HTTPS_PROXY"] == wirefault.proxy
    assert wirefault.variables["SSL_CERT_FILE"] == wirefault.ca_bundle
    with pytest.raises(ValueError, match="unknown link 'shop'"):
        wirefault.url("shop")
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    write_suite(folder, TESTS)
    return folder


@pytest.fixture(scope="module")
def session(suite: Path) -> Session:
    return run_suite(suite, "--wirefault-seed=7")


@pytest.mark.parametrize(
    "name",
    [
        *("test_retry", "test_allowed", "test_expected", "test_toxic", "test_async[asyncio]", "test_method"),
        *("test_plain", "test_addresses", "test_client_from_import"),
    ],
)
def test_passes(session: Session, name: str) -> None:
    assert session.cases[name].result == "passed", session.cases[name].message


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("test_blind_retry", "failure", r"write_repeated \(harmful\): POST /orders was sent again"),
        ("test_expected_in_vain", "failure", "the finding write_repeated was expected, and did not occur"),
        ("test_no_call", "failure", "unknown: the fault lose_reply never arrived: no call of the test"),
        ("test_past_the_tap", "failure", r"connection bypassed the lab: this process to 127.0.0.1:\d+"),
        ("test_one_of_two", "failure", "unknown: the fault delay never arrived: no call of the test"),
        ("test_own_assertion", "failure", r"assert None == \['mug'\]"),
        ("test_own_skip", "skipped", "not today"),
        ("test_misspelt", "error", "unknown argument 'repeat'; did you mean 'repeats'"),
        ("test_provider", "skipped", "it calls api.openai.com, which costs money: .*--wirefault-paid"),
        ("test_says_paid", "skipped", "costs money: .*--wirefault-paid"),
        ("test_never_drawn[repeat2]", "skipped", "it was not drawn for any of 1 calls"),
    ],
)
def test_says_why_not(session: Session, name: str, result: str, message: str) -> None:
    assert session.cases[name].result == result
    assert re.search(message, session.cases[name].message)


def test_repetitions_have_draws_of_their_own(session: Session) -> None:
    verdicts = {
        session.cases[f"test_repeated[repeat{number}]"].properties["wirefault_verdict"]
        for number in range(1, 13)
    }
    assert verdicts == {"passed", "not drawn"}


def test_section_has_findings_and_what_repeats_them(session: Session) -> None:
    section = session.output.partition("wirefault, seed 7")[2]
    assert "failed: test_agent.py::test_blind_retry\n    write_repeated (harmful)" in section
    assert "again: pytest test_agent.py::test_blind_retry --wirefault-seed=7" in section
    assert re.search(r"why: wirefault show \S+ test_blind_retry-[0-9a-f]+", section)
    assert "unknown: test_agent.py::test_never_drawn\n    no fault was drawn in any repetition" in section
    assert "test_agent.py::test_retry" not in section


def test_junit_file_has_the_verdict(session: Session) -> None:
    properties = session.cases["test_blind_retry"].properties
    assert properties["wirefault_verdict"] == "failed"
    assert properties["wirefault_seed"] == "7"
    assert properties["wirefault_faults"] == "fault lost: lose_reply: eligible 2, met 1, injected 1"
    assert "wirefault_verdict" not in session.cases["test_plain"].properties


def test_list_and_show_say_what_the_test_did(session: Session, suite: Path) -> None:
    logs = suite / ".wirefault" / "logs"
    rows = {row.tested: row for row in (listed_run(logs, name, is_saved=False) for name in lone_runs(logs))}
    words = {
        "test_blind_retry": ("harm found", "harmful: write_repeated", "failed"),
        "test_retry": ("nothing harmful found", "none", "passed"),
        "test_own_assertion": ("crash", "none", "failed"),
        "test_no_call": ("unknown", "none", "unknown"),
    }
    for name, (word, worst, verdict) in words.items():
        row, properties = rows[f"test_agent.py::{name}"], session.cases[name].properties
        assert (row.verdict, row.worst, properties["wirefault_verdict"]) == (word, worst, verdict)
        run = properties["wirefault_run"]
        output = CliRunner().invoke(main, ["show", run, "--out", str(suite)]).output
        assert f"\nverdict: {word}\n" in output and (worst == "none" or f"worst finding: {worst}" in output)
        page = CliRunner().invoke(main, ["report", run, "--out", str(suite), "--md", "-"]).output
        assert page.startswith(f"## Wirefault: {word}")


REPEATED = """
import httpx
import pytest

@pytest.mark.wirefault(faults=[{"fault": "unavailable", "when": {"probability": 0.5}}], repeats=6)
def test_repeated(shop, wirefault):
    httpx.get(shop + "/items")
"""


def test_same_seed_gives_same_draws_on_a_named_server(tmp_path: Path) -> None:
    write_suite(tmp_path, REPEATED, conftest=NAMED)
    first, again = (run_suite(tmp_path, "--wirefault-seed=7").cases for _ in range(2))
    verdicts = [
        {name: case.properties["wirefault_verdict"] for name, case in each.items()} for each in (first, again)
    ]
    assert verdicts[0] == verdicts[1]
    assert set(verdicts[0].values()) == {"passed", "not drawn"}


def test_port_that_decides_draws_is_named(session: Session) -> None:
    properties = session.cases["test_repeated[repeat1]"].properties
    assert re.search(r"# other draws if port_\d+ changes", properties["wirefault_again"])
    assert "#" not in session.cases["test_retry"].properties["wirefault_again"]


def test_fault_that_was_never_drawn_fails_the_session(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("never")
    write_suite(folder, TESTS)
    session = run_suite(folder, "-k", "test_never_drawn")
    assert session.code == 1
    assert {case.result for case in session.cases.values()} == {"skipped"}
