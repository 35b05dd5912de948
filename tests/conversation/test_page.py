"""The page of ``wirefault lab serve``: its forms through the real wire, who may use it, and a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.conversation.served import PATIENCE_S, Served
from tests.report.page.test_browser import CHROMIUM
from tests.support import required

pytestmark = pytest.mark.slow
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("page"))
    yield served
    served.stop()


class Visitor:
    """Somebody with the cookie, who fills in forms."""

    def __init__(self, server: Served) -> None:
        self.url, self.http = server.url, requests.Session()
        entered = self.http.get(f"{self.url}/", params={"token": server.token}, timeout=PATIENCE_S)
        assert (entered.status_code, entered.url) == (200, f"{self.url}/")

    def send(self, session: str, message: str, **more: str) -> requests.Response:
        data = {
            "session": session,
            "message": message,
            "mode": "",
            "recovery": "",
            "recovery_text": "",
            **more,
        }
        return self.http.post(f"{self.url}/", data=data, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def visitor(server: Served) -> Visitor:
    return Visitor(server)


def test_both_sides_differ_visibly(visitor: Visitor) -> None:
    page = visitor.send("sides", "What is 2 + 3?", mode="hallucination")
    assert page.history[0].status_code == 303 and page.url.endswith("?session=sides#latest")
    assert "natural: the upstream said" in page.text and "<mark>" in page.text
    assert "no mitigation acted" in page.text
    assert "<option selected>hallucination</option>" in page.text
    page = visitor.send("sides", "What is 2 + 3?", mode="none")
    assert "natural and observed are the same" in page.text and "Nothing failed." in page.text


def test_mitigation_recovers_each_time_and_the_time_line_has_it(visitor: Visitor) -> None:
    for count in (1, 2):
        page = visitor.send("back", "What is 2 + 3?", mode="service_unavailable", recovery="retry(model=3)")
        assert "Recovered by <strong>retry</strong>" in page.text
        assert "<td>retry, attempt 1</td>" in page.text and "<td>recovered</td>" in page.text
        assert re.search(r"<td>503 <span class=\"chip fault\">service_unavailable</span></td>", page.text)
        assert f"{count} messages, 0 failed, {count} recovered" in page.text
    assert re.search(r"wirefault show \S+ back<", page.text)


def test_free_text_comes_before_the_choice(visitor: Visitor) -> None:
    page = visitor.send(
        "free", "What is 2 + 3?", mode="auth_error", recovery="none", recovery_text="retry(tries=2)"
    )
    assert "<code>retry(tries=2)</code>" in page.text and 'value="retry(tries=2)"' in page.text


def test_reset_forgets_the_conversation(visitor: Visitor) -> None:
    visitor.send("anew", "What is 2 + 3?")
    page = visitor.http.post(f"{visitor.url}/reset", data={"session": "anew"}, timeout=PATIENCE_S)
    assert "This session: 0 messages" in page.text


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"recovery_text": "retri"}, "retri"),
        ({"mode": "nonsense"}, "unknown failure mode"),
        ({"message": ""}, "message: "),
        ({"session": HOSTILE}, "session_id: "),
    ],
)
def test_refused_form_says_why_and_keeps_its_fields(
    visitor: Visitor, fields: dict[str, str], problem: str
) -> None:
    page = visitor.send(**{"session": "bad", "message": "Draft", **fields})
    assert page.status_code == 422
    assert problem in re.findall(r'role="alert">(.*?)</p>', page.text)[0]
    assert fields.get("message", "Draft") in page.text and "<script" not in page.text


def test_planted_html_is_inert(visitor: Visitor) -> None:
    for page in (
        visitor.send("planted", HOSTILE),
        visitor.http.get(f"{visitor.url}/", params={"session": HOSTILE}, timeout=PATIENCE_S),
    ):
        assert page.status_code == 200
        assert "<script" not in page.text and "&lt;script&gt;" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")


def test_page_needs_the_cookie(server: Served, visitor: Visitor) -> None:
    for query in ({}, {"token": "wrong"}):
        page = requests.get(f"{server.url}/", params=query, timeout=PATIENCE_S)
        assert page.status_code == 401 and "Token" in page.text and not page.cookies
    form = {"session": "out", "message": "Hello"}
    assert requests.post(f"{server.url}/", data=form, timeout=PATIENCE_S).status_code == 401
    answer = requests.get(
        f"{server.url}/", params={"token": server.token}, timeout=PATIENCE_S, allow_redirects=False
    )
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and server.token not in cookie
    log = (server.folder / "serve.txt").read_text()
    assert f"page: {server.url}/ " in log and server.token not in log


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "lab.example:80"}, 421), ({"Origin": "http://127.0.0.1:1"}, 403), ({"Origin": "null"}, 403)],
)
def test_other_names_and_sites_are_refused(visitor: Visitor, headers: dict[str, str], status: int) -> None:
    form = {"session": "other", "message": "Hello"}
    answer = visitor.http.post(f"{visitor.url}/", data=form, headers=headers, timeout=PATIENCE_S)
    assert answer.status_code == status


@pytest.mark.skipif(CHROMIUM is None and not required("browser"), reason="needs chromium on PATH")
def test_keys_alone_send_a_message_on_a_phone_without_scripts(server: Served) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 360, "height": 740}, java_script_enabled=False)
        page = context.new_page()
        page.goto(f"{server.url}/?token={server.token}")
        page.locator("#message").focus()
        page.keyboard.type("What is 2 + 3?")
        page.keyboard.press("Tab")
        page.keyboard.type("halluc")
        for _ in range(3):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**#latest")
        assert page.locator("#latest mark").first.is_visible()
        cookies = context.cookies()
        for scheme in ("light", "dark"):
            with_scripts = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
            with_scripts.add_cookies(cookies)
            page = with_scripts.new_page()
            for url in (server.url, f"{server.url}/?token=wrong"):
                page.goto(url)
                grave = [
                    (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
                    for each in Axe().run(page).response["violations"]
                    if each["impact"] in ("serious", "critical")
                ]
                assert grave == [] and page.evaluate("document.documentElement.scrollWidth") <= 360
        browser.close()
