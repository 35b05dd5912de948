"""The page of handoffs in a real Chromium: it asks for the token, lists the cases and decides them."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from proxy_manager.handoffs import PAGE, handoff_routes
from tests.gateway.lab import TOKEN
from tests.support import required
from wirefault.core.api_server import api_app, api_in_thread
from wirefault.core.control_access import ControlAccess, guarded
from wirefault.state.handoffs import HandoffQueue

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None and not required("browser"), reason="needs chromium on PATH"),
]


def test_page_lists_and_decides_with_token_only(tmp_path: Path) -> None:
    queue, now = HandoffQueue(tmp_path / "handoffs.db"), time.time()
    hostile = {"to": "<img src=x onerror=alert(1)>"}
    for tool in ("send_message", "add_event"):
        queue.put(("run-1", "order", 1), tool, hostile, "unknown_effect", "read_timeout", now, now + 600)
    queue.put(("run-1", "order", 1), "translate", {}, "exhausted", "http_503", now - 9, now - 4)  # no answer
    app = guarded(api_app(handoff_routes(queue)), ControlAccess(TOKEN, (), (PAGE,)))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        api_in_thread(app, listener),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, dialogs = browser.new_page(), list[str]()
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}{PAGE}")
        page.get_by_label("The lab's token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("send the lab's token")
        page.get_by_label("The lab's token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("2 waiting")
        unanswered = page.get_by_role("row", name="translate")
        expect(unanswered).to_contain_text("over")
        expect(unanswered.get_by_role("button")).to_have_count(0)
        page.get_by_role("row", name="send_message").get_by_role("button", name="Deny").click()
        expect(page.get_by_role("status")).to_have_text("1 waiting")
        page.get_by_role("row", name="add_event").get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_have_text("nothing waits")
        browser.close()
    assert dialogs == []
    assert {case.tool: case.decision for case in queue.latest()} == {
        "send_message": "deny",
        "add_event": "approve",
        "translate": None,
    }
