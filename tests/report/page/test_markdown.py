"""The short form of a page as Markdown: what it says, and that its texts do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.experiments.test_compare import SavedRuns
from tests.report.page.recorded import HOSTILE, doubled_order
from tests.support import replace
from wirefault.report.page.markdown import escaped, markdown
from wirefault.report.page.write import page_content

LINKS = "[x](https://a.example) ![y](//z) <https://a.example> www.a.example @someone #12 GH-3 a@b.example"


def tokens_of(text: str) -> list[Token]:
    parsed = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    return [token for each in parsed for token in (each, *(each.children or ()))]


def test_verdict_findings_and_repetition_are_there(tmp_path: Path) -> None:
    recording = doubled_order(tmp_path)
    content = page_content(recording)
    text = markdown(content, recording)
    assert text.startswith(f"## Wirefault: {content.verdict}\n")
    assert "### Findings" in text and f"```sh\n{content.findings[0].command}\n```" in text
    assert all(command in text for _, command in content.commands)
    assert "HARM      page.html#ep/1/gateway-0:1\n" in text and content.findings[0].href in text


def test_an_undecided_statement_counts_among_the_findings(tmp_path: Path) -> None:
    recording = doubled_order(tmp_path)
    content = page_content(recording)
    [card] = content.findings
    undecided = replace(card, severity="note", label="unknown")
    assert "### Findings (2)" in markdown(replace(content, findings=[card, undecided]), recording)


def test_bars_show_the_success_rate(tmp_path: Path) -> None:
    recording = SavedRuns(tmp_path).run("run-1", "SSSF")
    text = markdown(page_content(recording), recording)
    assert f"{15 * '█'}{5 * '░'}  75 % (3 of 4), 95 % interval" in text
    with_invalid = SavedRuns(tmp_path).run("run-2", "FI")
    text = markdown(page_content(with_invalid), with_invalid)
    assert "0 % (0 of 1), 95 % interval 0 % to 97.5 %; of all 2 planned between 0 % and 50 %\n" in text


def test_success_has_a_line_only_for_arms_with_an_outcome(tmp_path: Path) -> None:
    recording = doubled_order(tmp_path)
    text = markdown(page_content(recording), recording)
    assert "### Success" not in text and "no episode has an outcome" not in text


@pytest.mark.parametrize(
    ("text", "document"), [("1.0 s", "1.0 s"), ("1. s", "1\\. s"), ("2) s", "2\\) s"), ("- s", "\\- s")]
)
def test_only_what_begins_a_list_is_escaped(text: str, document: str) -> None:
    assert escaped(text) == document


@pytest.mark.parametrize("text", [HOSTILE, LINKS, "a | b\n\n# c\n- d\n```", "~~x~~ $y$ *z* _w_ `v"])
def test_texts_are_inert(tmp_path: Path, text: str) -> None:
    recording = doubled_order(tmp_path, text.replace('"', "'").replace("\n", " "))
    document = markdown(page_content(recording), recording)
    for part in (document, f"| a |\n| --- |\n| {escaped(text)} |", escaped(text)):
        types = {token.type for token in tokens_of(part)}
        assert not types & {"html_inline", "html_block", "link_open", "image", "em_open", "code_inline"}
        assert "\x1b" not in part and "\x00" not in part


@pytest.mark.parametrize(
    "text", ["@someone", "https://a.example", "www.a.example", "#12", "GH-3", "a@b.example"]
)
def test_nothing_is_a_mention_or_an_address(text: str) -> None:
    assert text not in escaped(text) and text in escaped(text).replace("\u2060", "").replace("\\", "")
