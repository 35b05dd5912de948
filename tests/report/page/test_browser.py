"""The page in a real Chromium: keys, filters, links, accessibility, sizes, print, and without JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.report.page.recorded import doubled_order, hostile_order, synthetic
from tests.support import required
from wirefault.memory.document import memory_document
from wirefault.memory.histories import recorded_episodes, sources_in
from wirefault.memory.store import Memory
from wirefault.report.page.memory import memory_content
from wirefault.report.page.write import page_content, page_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None and not required("browser"), reason="needs chromium on PATH"),
]
_PRINTABLE = b"%PDF"
_MAX_STOPS = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Opener:
    """Opens pages; ``faults`` has what no page may do: errors, dialogs, requests."""

    browser: Browser
    faults: list[str]

    def __call__(self, file: Path, anchor: str = "", **how: object) -> Page:
        page = self.browser.new_page(**{"viewport": {"width": 1200, "height": 900}, **how})
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.faults.append(request.url))
        page.goto(f"{file.as_uri()}{anchor}")
        self.faults.remove(f"{file.as_uri()}{anchor}".partition("#")[0])
        if how.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]")
        return page


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opener]:
    opener = Opener(browser, [])
    yield opener
    for context in browser.contexts:
        context.close()
    assert opener.faults == []


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("many"), lambda folder: synthetic(folder, 60))


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("order"), doubled_order)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    synthetic(folder, 12)
    environ, memory = {"LOGS_DIR": str(folder)}, Memory(folder)
    memory.rebuild(recorded_episodes(folder, environ, {}), sources_in(folder), {})
    file = folder / "page.html"
    file.write_text(page_html(memory_content(memory_document(memory, folder, environ, []))), encoding="utf-8")
    return file


def _written(folder: Path, record: Callable[[Path], object]) -> Path:
    file = folder / "page.html"
    file.write_text(page_html(page_content(record(folder))), encoding="utf-8")
    return file


def test_link_of_a_finding_opens_its_event(opened: Opener, order: Path) -> None:
    page = opened(order)
    page.click(".finding h3 a")
    target = page.locator('[id="ep/1/gateway-0:1"]')
    assert target.is_visible()
    assert target.locator(".sides").is_visible()
    assert page.url.endswith("#ep/1/gateway-0:1")


def test_packed_episode_opens_by_its_link(opened: Opener, many: Path) -> None:
    page = opened(many, "#ep/50")
    page.wait_for_selector('[id="ep/50"][open] .nodes')
    assert "prompt e050" in page.locator('[id="ep/50"] > summary').inner_text()


def test_keys_alone_reach_and_open_an_episode(opened: Opener, many: Path) -> None:
    page = opened(many)
    for key in ("j", "j", "k", "j", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector('[id="ep/2"][open] .nodes')
    page.keyboard.press("+")
    assert page.locator('[id="ep/2"] svg.x2').count() == 1
    page.click('[id="ep/2"] button[data-zoom="-1"]')
    assert page.locator('[id="ep/2"] svg.x2').count() == 0
    page.keyboard.press("/")
    page.keyboard.type("e007")
    assert page.locator("#list > li").count() == 1
    assert page.locator("#count").inner_text() == "1 of 60 episodes"


def test_filters_narrow_the_list(opened: Opener, many: Path) -> None:
    page = opened(many)
    page.select_option("select[name=fault]", "timeout")
    count = page.locator("#list > li").count()
    assert 0 < count < 60
    assert page.locator("#count").inner_text() == f"{count} of 60 episodes"
    page.goto(f"{page.url.partition('#')[0]}#ep/1")
    page.wait_for_selector('[id="ep/1"][open]')
    opened.faults.clear()


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["many", "order", "memory"])
def test_tab_key_follows_the_page_and_shows_where_it_is(
    opened: Opener, request: pytest.FixtureRequest, name: str, width: int
) -> None:
    page = opened(request.getfixturevalue(name), viewport={"width": width, "height": 800})
    selector = "a, summary, button, select, input, .scroll, .sides pre"
    stops = page.locator(selector).count()
    page.evaluate("window.seen = []")
    for _ in range(min(stops, _MAX_STOPS)):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        page.evaluate("seen.push(document.activeElement)")
    wrong = page.evaluate(
        """seen.filter((each, at) => at && !(seen[at - 1].compareDocumentPosition(each) & 4)
             && !seen[at - 1].contains(each)).map((each) => each.outerHTML.slice(0, 100))"""
    )
    assert wrong == []
    assert page.evaluate("seen.length") >= 5
    page.keyboard.press("Shift+Tab")
    style = page.evaluate(
        "(({outlineStyle, outlineWidth}) => [outlineStyle, outlineWidth])"
        "(getComputedStyle(document.activeElement))"
    )
    assert style == ["solid", "3px"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["many", "order", "memory"])
def test_accessibility_rules_find_nothing_serious(
    opened: Opener, request: pytest.FixtureRequest, name: str, scheme: str
) -> None:
    anchor = "" if name == "memory" else "#ep/1"
    page = opened(request.getfixturevalue(name), anchor, color_scheme=scheme)
    if anchor:
        page.wait_for_selector('[id="ep/1"][open]')
    results = Axe().run(page)
    grave = [each for each in results.response["violations"] if each["impact"] in ("serious", "critical")]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in grave] == []


@pytest.mark.parametrize("width", [360, 1200])
def test_page_fits_the_width(opened: Opener, many: Path, width: int) -> None:
    page = opened(many, "#ep/1", viewport={"width": width, "height": 800})
    page.wait_for_selector('[id="ep/1"][open]')
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_findings_are_readable_without_javascript(opened: Opener, order: Path) -> None:
    page = opened(order, java_script_enabled=False)
    assert page.locator(".verdict strong").inner_text() == "harm found"
    page.click(".finding h3 a")
    assert page.locator('[id="ep/1/gateway-0:1"]').is_visible()
    assert not page.locator("#filters").is_visible()


def test_page_prints(opened: Opener, order: Path) -> None:
    page = opened(order)
    assert page.pdf()[:4] == _PRINTABLE
    page.emulate_media(media="print")
    cut = "pre => pre.scrollHeight > pre.clientHeight + 1"
    assert not page.evaluate(f"[...document.querySelectorAll('.finding .sides pre')].some({cut})")
    # white words without their background are hardly seen on paper
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.chip.harmful')).printColorAdjust") == "exact"
    )
    # a card that may not be broken begins a page for itself
    assert page.evaluate("getComputedStyle(document.querySelector('.finding')).breakInside") == "auto"


def test_hostile_texts_do_nothing(opened: Opener, tmp_path: Path) -> None:
    file = _written(tmp_path, hostile_order)
    page = opened(file, "#ep/1")
    page.wait_for_selector('[id="ep/1"][open]')
    assert page.locator("img").count() == 0
    assert "<img src=x onerror=alert(2)>" in page.locator('[id="ep/1"] > summary').inner_text()
