"""Every figure of a page is the one that ``--json`` prints, by the place that its element names."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.audit.serving import AGENT, model_and_shop
from tests.commands import wirefault
from tests.experiments.test_compare import SavedRuns
from tests.experiments.test_run_experiment import PaperEngine, planned, run_on_paper
from tests.judging.oracle.histories import EPISODE, armed, exchange
from tests.lab.demos import environ_in
from tests.report.page.recorded import doubled_order, failed_command, false_success, killed_order, synthetic
from tests.support import ROOT
from wirefault.cli.main import main
from wirefault.history.events import EpisodeJudged, EpisodeStarted
from wirefault.judging.judge import judge_trace
from wirefault.judging.trace import EpisodeTrace, episode_trace
from wirefault.report.page.figures import link_figures
from wirefault.report.summary import print_summary
from wirefault.toxiproxy.planned import PlannedToxic

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_UNITS = (1.0, 100.0, 1000.0, 0.001)
"""Percent, milliseconds of seconds, and seconds of milliseconds."""
_FREE = ("style", "script", "title", "h1", "code", "figcaption", "th", "dt", "nav", "caption")
_FREE_CLASSES = (
    "tick",
    "unit",
    "label",
    "brand",
    "helps",
    "keys",
    "more",
    "ep",
    "legend",
    "provenance",
    "reply",
)
_VOID = ("meta", "input", "br", "rect", "line", "circle", "path")


class FigureReader(HTMLParser):
    """Collects the figures of a page, and the texts with digits that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[tuple[str, str]] = []
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.stack.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Nothing is in it."""

    def handle_endtag(self, tag: str) -> None:
        while tag not in _VOID and self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        pointer = self.stack[-1][1].get("data-json") if self.stack else None
        if pointer is not None:
            self.figures.append((pointer, data))
        elif _NUMBER.search(data) and not any(map(_is_free, self.stack)):
            self.others.append(data.strip())


def _is_free(element: tuple[str, dict[str, str | None]]) -> bool:
    """Whether the text names something: a command, an axis, a heading, a recorded event."""
    tag, attrs = element
    classes = (attrs.get("class") or "").split()
    return tag in _FREE or not set(_FREE_CLASSES).isdisjoint(classes) or attrs.get("id") == "provenance"


def at(document: Any, pointer: str) -> Any:
    """The value at a JSON Pointer."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        document = document[int(name) if isinstance(document, list) else name]
    return document


def numbers(value: Any) -> Iterator[float]:
    """All numbers in a JSON value, also those in its texts."""
    if isinstance(value, str):
        yield from map(float, _NUMBER.findall(value))
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield float(value)
    else:
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
        yield float(len(value))


def is_shown_as(text: str, value: Any) -> bool:
    """Whether each number of the text is one of the value's, as far as its digits show."""
    if value is None:
        return _NUMBER.search(text) is None
    is_fall = text.endswith((" less", " fewer"))  # the number is then printed without its sign
    known = [-number if is_fall else number for number in numbers(value)]
    return all(any(map(_rounding(printed), known)) for printed in _NUMBER.findall(text))


def _rounding(printed: str) -> Any:
    digits = len(printed.partition(".")[2])
    tolerance = 0.5 * 10.0**-digits * (1 + 1e-6)

    def matches(value: float) -> bool:
        number = float(printed)
        alike = (abs(value * unit - number) for unit in _UNITS if math.isfinite(value))
        rounded = [float(f"{value * unit:.3g}") for unit in _UNITS if math.isfinite(value)]
        return any(each <= tolerance for each in alike) or number in rounded

    return matches


def check(page: str, document: Any, least: int) -> None:
    """Compare all figures of a page with the document; each number needs its place in it."""
    reader = FigureReader()
    reader.feed(page)
    assert len(reader.figures) >= least
    wrong = [
        (pointer, text, value)
        for pointer, text in reader.figures
        if not is_shown_as(text, value := at(document, pointer))
    ]
    assert wrong == []
    assert reader.others == []


def reported(folder: Path, *words: str) -> tuple[str, Any]:
    """The page and the JSON that a command prints for the same recording."""
    file = folder / "page.html"
    result = CliRunner().invoke(main, [*words, f"--out={folder}", f"--html={file}", "--json"])
    line = next(line for line in result.output.splitlines() if line.startswith("{"))
    return file.read_text(encoding="utf-8"), json.loads(line)


@pytest.mark.parametrize(
    ("record", "run", "least"),
    [
        (synthetic, "run-a", 80),
        (doubled_order, "run-b", 25),
        (false_success, "run-c", 15),
        (failed_command, "run-d", 10),
        (killed_order, "run-e", 15),
    ],
)
def test_figures_of_a_run(tmp_path: Path, record: Any, run: str, least: int) -> None:
    record(tmp_path / "logs")
    check(*reported(tmp_path, "report", run), least)


def test_kills_of_subject_are_on_page_and_console(tmp_path: Path) -> None:
    recording = killed_order(tmp_path / "logs")
    page, document = reported(tmp_path, "report", "run-e")
    [point] = document["figures"]["arms"][0]["kills"]
    assert (point["n"], point["lost"], point["repeated_writes"], point["seconds"]) == (1, 1, 1, 0.71)
    assert "Kills of the subject" in page and 'data-json="/figures/arms/0/kills/0/seconds"' in page
    console = Console(file=io.StringIO(), width=200)
    print_summary(console, recording.arms[""].summary)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "kills of the subject: 1 at shop, before_reply: 1 reply lost, 1 call repeated" in printed
    timeline = CliRunner().invoke(main, ["show", "run-e", "1", f"--out={tmp_path}"]).output
    assert "1 call repeated (executed writes: 1), recovered after 0.71 s" in timeline


@pytest.mark.parametrize("is_run", [True, False])
def test_report_takes_the_recorded_judgements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_run: bool
) -> None:
    if is_run:
        name, unjudged = "run-c", 1  # a run on paper without judgements
        false_success(tmp_path / "logs")
    else:
        experiment = planned(tmp_path, hypothesis=["success == all"])
        name, unjudged = run_on_paper(experiment, PaperEngine()).saved.experiment_id, 0
    judged: list[EpisodeTrace] = []

    def noted(trace: EpisodeTrace, *more: Any) -> EpisodeJudged:
        judged.append(trace)
        return judge_trace(trace, *more)

    monkeypatch.setattr("wirefault.judging.judge.judge_trace", noted)
    _, document = reported(tmp_path, "report", name)
    assert len(judged) == unjudged and document["figures"]["episodes"]


def test_figures_of_an_experiment_on_paper(tmp_path: Path) -> None:
    result = run_on_paper(planned(tmp_path, hypothesis=["success == all"]), PaperEngine())
    check(*reported(tmp_path, "report", result.saved.experiment_id), 20)


def test_figures_of_a_comparison(tmp_path: Path) -> None:
    runs = SavedRuns(tmp_path / "logs")
    runs.run("run-1", "SSFSS")
    runs.run("run-2", "SFSFS")
    check(*reported(tmp_path, "compare", "run-1", "run-2"), 15)


def test_figures_of_a_comparison_with_findings(tmp_path: Path) -> None:
    killed_order(tmp_path / "logs")
    doubled_order(tmp_path / "logs")
    page, document = reported(tmp_path, "compare", "run-e", "run-b")
    check(page, document, 30)
    costs = document["figures"]["costs"]
    assert (costs["episodes"], costs["first"]["calls"], costs["second"]["calls"]) == (1, 2, 2)


@pytest.mark.slow
def test_figures_of_an_experiment_with_levels(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "wrong-tool-data.yaml").read_text(encoding="utf-8")
    file = tmp_path / "one-prompt.yaml"
    file.write_text(text.replace('only: ["1", "2", "6"]', 'only: ["6"]'), encoding="utf-8")
    words = ["run", str(file), "--levels", "2", f"--out={tmp_path}"]
    assert wirefault(tmp_path, environ_in(tmp_path), *words).returncode == 1
    page, document = reported(tmp_path, "report", "latest")
    check(page, document, 80)
    assert len(document["figures"]["levels"]) == 2
    assert {"Success against level", "Surface", "Effect of each fault"} <= set(
        re.findall(r"<figcaption><b>(.*?)\.</b>", page)
    )


@pytest.mark.slow
def test_figures_of_an_audit(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    with model_and_shop() as servers:
        command = [sys.executable, "agent.py", servers.model, servers.shop, "careless"]
        words = ["audit", "--ask", "lost_reply", "--patience", "6", "--", *command]
        assert wirefault(tmp_path, environ_in(tmp_path), *words).returncode == 1
    page, document = reported(tmp_path, "report", "latest")
    check(page, document, 20)
    assert document["findings"][0]["finding"] == "write_repeated"


def test_other_figure_is_noticed() -> None:
    document = {"a": {"n": 4, "share": 0.527}}
    check('<p><data data-json="/a/n">4 of 4</data> <data data-json="/a/share">52.7 %</data></p>', document, 2)
    for page in ('<p><data data-json="/a/n">5</data></p>', "<p>3 episodes</p>"):
        with pytest.raises(AssertionError):
            check(page, document, 0)


def test_request_with_an_unknown_end_is_not_counted_as_failed() -> None:
    opaque = EpisodeStarted(101.0, EPISODE, "Order tea", None, recorded=False)
    toxic = armed(PlannedToxic("message", "latency", "upstream", {"latency": 50}))
    [row] = link_figures([episode_trace([opaque, toxic, exchange("message")])])
    assert (row["requests"], row["failed"]) == (1, 0)
