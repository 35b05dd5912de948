"""Test suites of users, run by a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.support import PATIENCE_S

CONFTEST = """
import logging, threading
import pytest
from flask import Flask, request
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

@pytest.fixture(scope="session")
def shop():
    app, orders = Flask("shop"), []

    @app.post("/orders")
    def order():
        orders.append(request.json)
        return {"id": len(orders)}

    @app.get("/items")
    def items():
        return ["mug"]

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
"""
NAMED = (
    CONFTEST
    + """
@pytest.fixture(scope="session")
def wirefault_links(shop):
    return {"shop": {"upstream": shop, "writes": ["POST /orders"]}}
"""
)
COMMAND = (sys.executable, "-m", "pytest", "-p", "no:langsmith_plugin", "-p", "no:cacheprovider", "-v")


def write_suite(folder: Path, tests: str, settings: str = "", conftest: str = CONFTEST) -> None:
    """Write a suite with one file of tests."""
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_agent.py").write_text(tests)
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}wirefault_toxiproxy = embedded\n")


@dataclass(frozen=True)
class Case:
    """A test's row in the JUnit file."""

    result: str
    """passed, failure, error or skipped"""
    message: str
    properties: dict[str, str]


@dataclass(frozen=True)
class Session:
    """A finished session of pytest."""

    code: int
    output: str
    cases: dict[str, Case]


def run_suite(folder: Path, *options: str) -> Session:
    """Run the suite of that folder in a new process."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*COMMAND, "--junitxml=junit.xml", *options],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 4,
        check=False,
    )
    file = folder / "junit.xml"
    rows = ElementTree.parse(file).iter("testcase") if file.exists() else ()
    return Session(
        done.returncode, done.stdout + done.stderr, {row.attrib["name"]: _case(row) for row in rows}
    )


def _case(row: ElementTree.Element) -> Case:
    properties = {each.attrib["name"]: each.attrib["value"] for each in row.iter("property")}
    for result in ("failure", "error", "skipped"):
        element = row.find(result)
        if element is not None:
            return Case(result, element.attrib["message"], properties)
    return Case("passed", "", properties)
