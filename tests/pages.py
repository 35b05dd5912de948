"""Sections of the pages in ``docs``."""

from __future__ import annotations

from tests.support import ROOT


def page_section(page: str, title: str) -> str:
    """The text below ``## title``, up to the next heading of that level."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    _, heading, rest = text.partition(f"\n## {title}\n")
    assert heading, f"docs/{page} has no section {title!r}"
    return rest.partition("\n## ")[0]
