"""The server's pages in a real Chromium: list, comparison, problem, and a run in progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli_process import CliProcess
from tests.lab.demos import CALM, environ_in
from tests.report.page.recorded import doubled_order, synthetic
from tests.report.page.test_browser import CHROMIUM
from tests.support import RUN_PATIENCE_S, required, until
from wirefault.core.api_server import api_in_thread
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.memory.histories import recorded_episodes, sources_in
from wirefault.memory.store import Memory
from wirefault.report.ui.app import Runs, ui_app

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None and not required("browser"), reason="needs chromium on PATH"),
]
_PAGES = ["/", "/compare?first=run-a&second=run-b", "/memory", "/runs/missing"]
# answers its first prompt, and the others once a file allows it
_GATED = """
import time
from contextlib import contextmanager
from pathlib import Path
from wirefault.subjects.subject import SubjectResult

def answer(prompt, context):
    while prompt != "one" and not Path(__file__).with_name("go").exists():
        time.sleep(0.02)
    return SubjectResult("text", response=prompt)

@contextmanager
def open_it(configuration):
    yield answer
"""
_PROMPTS = ("one", "two", "three", "four")
_PATIENCE_MS = 100 * RUN_PATIENCE_S


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("ui")
    synthetic(folder, 6)
    doubled_order(folder)
    Memory(folder).rebuild(recorded_episodes(folder, {"LOGS_DIR": str(folder)}, {}), sources_in(folder), {})
    with served(folder) as address:
        yield address


@contextmanager
def served(logs: Path) -> Iterator[str]:
    """Serve the runs below ``logs``; yield the address."""
    listener = bind(Address(LOOPBACK, 0))
    with api_in_thread(ui_app(logs, {"LOGS_DIR": str(logs)}), listener):
        yield f"http://{LOOPBACK}:{bound_address(listener).port}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", _PAGES)
def test_pages_of_the_server_are_accessible_and_fit_a_phone(
    browser: Browser, url: str, path: str, scheme: str
) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page.goto(f"{url}{path}")
    results = Axe().run(page)
    grave = [each for each in results.response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in grave] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


def test_keys_alone_filter_open_and_compare(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.goto(url)
    _tab_to(page, "input[name=text]")
    page.keyboard.type("run-b")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=run-b")
    assert page.locator("tbody tr").count() == 1
    _tab_to(page, "tbody a")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/run-b")
    page.goto(url)
    _tab_to(page, "form[action='/compare'] button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?**")
    assert page.locator("h1").inner_text() == "Two recordings compared"
    page.close()


def _tab_to(page: Page, selector: str) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by Tab")


def test_open_page_takes_in_the_episodes_of_a_run_in_progress(browser: Browser, tmp_path: Path) -> None:
    logs = tmp_path / ".wirefault" / "logs"
    (tmp_path / "gated.py").write_text(_GATED)
    words = ("demo", "--no-charts", "--subject", "gated:open_it", "--attempt-time", "600", *CALM)
    words += tuple(word for text in _PROMPTS for word in ("--prompt", text))
    with CliProcess(tmp_path, environ_in(tmp_path), *words) as running, served(logs) as address:
        runs = Runs(logs, {"LOGS_DIR": str(logs)})
        until(lambda: _judged(logs) or running.poll() is not None, patience=RUN_PATIENCE_S)
        assert running.poll() is None, running.output()
        try:
            page = browser.new_page()
            page.goto(f"{address}/runs/{runs.ids()[0]}")
            page.wait_for_selector("html[data-ready]", timeout=_PATIENCE_MS)
            page.evaluate("window.mark = 'never loaded again'")
            assert page.locator("#list > li").count() < len(_PROMPTS)
            assert running.poll() is None
        finally:
            (tmp_path / "go").touch()  # the run ends, whatever the page shows
        # no wait_for_function: the page's policy forbids eval
        page.locator("#list > li").nth(len(_PROMPTS) - 1).wait_for(timeout=_PATIENCE_MS)
        page.locator(".verdict", has_text="4 episodes").wait_for(timeout=_PATIENCE_MS)
        assert page.evaluate("window.mark") == "never loaded again"
        page.close()


def _judged(logs: Path) -> bool:
    return any("episode_judged" in file.read_text() for file in logs.glob("runs/*/agent-0.jsonl"))
