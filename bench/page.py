"""The page of a large run: its size, and how fast it is made, opened and filtered in Chromium.

``python -m bench.page [EPISODES]`` prints the figures; targets for 10,000: under 10 MB, opened in under 2 s,
filtered in under .2 s.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.report.synthetic import SyntheticRun
from wirefault.experiments.recorded import open_recording
from wirefault.report.page.write import page_content, page_html

_FILTER = """() => {
  const text = document.querySelector('#filters input[name=text]');
  const began = performance.now();
  text.value = 'e09';
  text.dispatchEvent(new Event('input', {bubbles: true}));
  document.body.offsetHeight;
  return performance.now() - began;
}"""


def measure_page(episodes: int = 10_000) -> dict[str, float]:
    """Make and open the page of a synthetic run. Seconds, and megabytes of the file."""
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name, "page.html")
        SyntheticRun(folder, prompts=episodes).write()
        began = time.perf_counter()
        file.write_text(page_html(page_content(open_recording(folder, "run-a", {}))), encoding="utf-8")
        made = time.perf_counter() - began
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            tab = browser.new_page()
            began = time.perf_counter()
            tab.goto(file.as_uri())
            tab.wait_for_selector("html[data-ready]")
            opened = time.perf_counter() - began
            filtered = tab.evaluate(_FILTER) / 1000
            browser.close()
        figures = {"megabytes": file.stat().st_size / 1e6, "made_s": made}
    return {
        name: round(value, 3)
        for name, value in (figures | {"opened_s": opened, "filtered_s": filtered}).items()
    }


if __name__ == "__main__":
    print(measure_page(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
