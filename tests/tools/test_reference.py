"""The generated pages match the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    assert Path(name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"
