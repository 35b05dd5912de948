"""The common style of all charts: page, heading, axes, key. Object-oriented matplotlib, no pyplot."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from wirefault.judging.chart_data import Selection
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.rates import Rate, UncheckedClaims, rate, unchecked_claims
from wirefault.report.colors import CLEAN, LIGHT, REQUEST
from wirefault.stats.rates import percent, percentile
from wirefault.toxiproxy.toxics import TOXICS

INK, MUTED, FAINT, GHOST = (LIGHT[name] for name in ("ink", "muted", "faint", "ghost"))
FAILED = LIGHT["fault"]
ACCENT = REQUEST

_OUTCOME_COLORS: Mapping[str, str] = {row.name: row.color for row in OUTCOMES.values()}
NOT_JUDGED = "not judged"

FAULT_COLORS: dict[str, str] = {
    **{toxic.kind: toxic.color for toxic in TOXICS if toxic.color},
    "server_error": "#7b3294",
    "unavailable": "#a36bb8",
    "rate_limit": "#c2a5cf",
    # groups of the catalogue's other faults
    "other_error": "#e3d3ea",
    "delayed": "#44bb99",
    "lost_or_cut": "#88ccee",
    "wrong_in_form": "#999933",
    "wrong_in_content": "#cc6677",
    "model_misled": "#c49a6c",
    "context_changed": "#8da0cb",
}
OTHER = "#d0c9a8"


def outcome_color(name: str) -> str:
    return _OUTCOME_COLORS.get(name, OTHER)


def fault_color(kind: str | None) -> str:
    """Return the colour of a kind of fault; ``None``, no fault, is the grey of a clean try."""
    return CLEAN if kind is None else FAULT_COLORS.get(kind, OTHER)


def in_order(names: Collection[str], known: Collection[str]) -> list[str]:
    """Return known names in the palette's order, then the others by name."""
    return [name for name in known if name in names] + sorted(set(names) - set(known))


# A percentile needs values beyond it: with fewer than 20, the largest value is shown and named so.
LEAST_FOR_P95 = 20
LEAST_FOR_CURVE = 10


def duration(ms: float) -> str:
    """Format a duration: ``0.4 ms``, ``12 ms``, ``1.25 s``, ``2 min 5 s``."""
    if ms < 9.95:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.3g} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def percent_range(low: float, high: float) -> str:
    return f"{round(low * 100)}-{round(high * 100)} %"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Format a count: ``1 prompt``, ``2 prompts``, ``2 tries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def words(name: str) -> str:
    """Format an identifier: ``false_success`` as ``false success``."""
    return name.replace("_", " ")


def spread(values: Sequence[float]) -> str:
    """Describe median and p95, or the largest value if there are too few for p95."""
    middle = percentile(values, 50)
    if middle is None:
        return "no data"
    if len(values) == 1:
        return duration(middle)
    name, far = ("p95", 95) if len(values) >= LEAST_FOR_P95 else ("max", 100)
    return f"p50 {duration(middle)}, {name} {duration(percentile(values, far) or 0.0)}"


def visible(text: str) -> str:
    """Remove control characters except line feeds, for the console and the charts."""
    return "".join(char for char in text if char.isprintable() or char == "\n")


def printable(text: str, longest: int = 160) -> str:
    """Reduce to one line and to characters in the charts' font; long text ends in an ellipsis."""
    line = visible(" ".join(text.split()))
    line = "".join(char if char <= "\u024f" or char in "↑↓·–…" else "?" for char in line)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def success_rate(selection: Selection) -> Rate:
    """Return the same rate as in the run's summary; for several runs, over all their prompts."""
    outcomes = [name for prompt in selection.prompts for name in OUTCOMES if name == prompt.outcome]
    return rate(outcomes, selection.planned)


def claims_in(selection: Selection) -> UncheckedClaims:
    """The agent's claims in the prompts without an oracle."""
    return unchecked_claims(prompt.claim for prompt in selection.prompts if prompt.claim)


def success_title(overall: Rate, selection: Selection) -> str:
    """Return ``18 of 24 prompts succeeded (75 %, 95 % interval 55-88 %)``; claims if nothing is judged."""
    if not overall.n and (claimed := claims_in(selection).headline):
        return claimed
    if overall.rate is None or overall.low is None or overall.high is None:
        return "Success rate unknown: no prompts could be judged"
    share = f"{percent(overall.rate, decimals=0)}, 95 % interval {percent_range(overall.low, overall.high)}"
    return f"{overall.k} of {count(overall.n, 'prompt')} succeeded ({share})"


def left_out(overall: Rate, selection: Selection) -> str:
    """Describe the prompts that the rate excludes, with the bounds that they imply; empty if none."""
    outcomes = Counter(prompt.outcome for prompt in selection.prompts)
    uncounted = [(outcomes[row.name], row.name) for row in OUTCOMES.values() if not row.in_rate]
    absent = overall.planned - overall.n - sum(number for number, _ in uncounted)
    numbers = [*uncounted, (absent, "without a verdict")]
    parts = [f"{number} {name}" for number, name in numbers if number]
    if not parts or overall.worst is None or overall.best is None:
        return ""
    bounds = percent_range(overall.worst, overall.best)
    them = "it" if overall.planned - overall.n == 1 else "them"
    return f"Not counted: {', '.join(parts)}; with {them} the rate lies in {bounds}"


def uncounted(overall: Rate, selection: Selection) -> str:
    """Describe the prompts without an outcome that counts, and their claims; empty if the title has them."""
    notes = (left_out(overall, selection), claims_in(selection).text)
    return " · ".join(note for note in notes if note) if overall.n else ""


def subtitle(selection: Selection) -> str:
    """Return run, n, seed and subject, and whether the run is complete."""
    runs = selection.runs
    n = f"n = {count(len(selection.prompts), 'prompt')}"
    subjects = _either([run.subject for run in runs], "subjects")
    stopped = [run.unfinished for run in runs if run.unfinished]
    if not selection.several:
        ending = [f"UNFINISHED: {stopped[0]}"] if stopped else []
        return " · ".join([f"run {runs[0].run_id}", n, *ending, f"seed {runs[0].seed}", subjects])
    ending = [f"{len(stopped)} UNFINISHED"] if stopped else []
    seeds = _either([f"seed {run.seed}" for run in runs], "seeds")
    return " · ".join([f"{len(runs)} runs", n, *ending, seeds, subjects])


def _either(values: list[str], plural: str) -> str:
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else f"{len(distinct)} {plural}"


DPI = 160
_MAX_TEXT = 600
PAGE_WIDTH = 10.0
_PAGE_HEIGHT = 5.625
LEFT, RIGHT = 0.35, 0.35  # margins of the page in inches
_FOOT_ROWS = 2
_FOOT_SIZES = (9.0, 8.0, 7.0, 6.0)
_FLOOR_MS = 0.1
_LATENCY_TICKS = {
    0.1: "0.1 ms",
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1000: "1 s",
    10_000: "10 s",
    100_000: "100 s",
}

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "hatch.linewidth": 0.8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Apply our style over matplotlib's defaults, ignoring the user's matplotlibrc."""
    with matplotlib.style.context(["default", _RC]):
        yield


@dataclass(frozen=True)
class Page:
    """A figure with its heading, and helpers that place elements in inches."""

    figure: Figure
    height: float

    def grid(
        self,
        rows: int,
        columns: int,
        *,
        left: float,
        right: float,
        top: float,
        bottom: float,
        **more: Any,
    ) -> GridSpec:
        """Return a grid of axes; the margins are inches from the page's edges."""
        return self.figure.add_gridspec(
            rows,
            columns,
            left=left / PAGE_WIDTH,
            right=1 - right / PAGE_WIDTH,
            top=1 - top / self.height,
            bottom=bottom / self.height,
            **more,
        )

    def axes(self, *, left: float, right: float, top: float, bottom: float) -> Axes:
        """Return axes for a single chart; the margins are inches from the page's edges."""
        return self.figure.add_subplot(self.grid(1, 1, left=left, right=right, top=top, bottom=bottom)[0])

    def text(self, x: float, y_from_top: float, text: str, **style: Any) -> Text:
        """Draw text at inches from the left and the top of the page."""
        return self.figure.text(
            x / PAGE_WIDTH, 1 - y_from_top / self.height, printable(text, _MAX_TEXT), **style
        )

    def foot(self, *lines: str) -> None:
        """Draw notes at the bottom of the page, one per line.

        A note that is too wide continues on a second row; letters become smaller before that is too many.
        """
        notes = [line for line in lines if line]
        for size in _FOOT_SIZES:
            rows = [row for note in notes for row in self._rows(note, size)]
            if len(rows) <= max(len(notes), _FOOT_ROWS):
                break
        for up, row in enumerate(reversed(rows)):
            y = self.height - 0.13 - 0.021 * size * up
            self.text(LEFT, y, row, size=size, color=MUTED, va="bottom")

    def _rows(self, note: str, size: float) -> list[str]:
        """Break the note into rows of the page's width in letters of that size."""
        text = self.text(LEFT, 0, note, size=size)
        width = _width(text)
        text.remove()
        share = (PAGE_WIDTH - LEFT - RIGHT) / width if width else 1.0
        return [note] if share >= 1 else textwrap.wrap(note, int(0.95 * share * len(note)))


def page(title: str, selection: Selection, height: float = _PAGE_HEIGHT) -> Page:
    """Return a page whose ``title`` states the finding; below it are run, n, seed and subject."""
    figure = Figure(figsize=(PAGE_WIDTH, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    sheet = Page(figure, height)
    width = PAGE_WIDTH - LEFT - RIGHT
    fit(sheet.text(LEFT, 0.24, title, size=15.5, weight="bold", va="top"), width)
    fit(sheet.text(LEFT, 0.60, subtitle(selection), size=10, color=MUTED, va="top"), width)
    return sheet


def fit(text: Text, inches: float, least: float = 0.72) -> Text:
    """Make text smaller, down to a share of its size, then shorten it, until it fits."""
    full = float(text.get_fontsize())
    natural = _width(text)
    if natural > inches:
        text.set_fontsize(max(0.985 * full * inches / natural, full * least))
    while _width(text) > inches and len(text.get_text()) > 2:
        text.set_text(text.get_text()[:-2].rstrip() + "…")
    return text


def _width(text: Text) -> float:
    return float(text.get_window_extent().width) / DPI


def say_nothing(page: Page, sentence: str) -> Page:
    """Write in place of axes why data for this chart is missing."""
    page.text(PAGE_WIDTH / 2, page.height / 2, sentence, size=14, color=MUTED, ha="center", va="center")
    return page


def key(
    page: Page,
    y_from_top: float,
    entries: Sequence[tuple[str, str]],
    left: float = LEFT,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Draw a line of coloured chips with their names, ``(color, name)`` each; wraps when full.

    ``marks``: by name, matplotlib's marker in place of the chip.
    """
    x, y = left, y_from_top
    for color, name in entries:
        text = page.text(x + 0.22, y, name, size=9.5, color=MUTED, va="center")
        width = _width(text)
        if x + 0.22 + width > PAGE_WIDTH - RIGHT and x > left:
            x, y = left, y + 0.22
            text.set_position(((x + 0.22) / PAGE_WIDTH, 1 - y / page.height))
        if mark := marks.get(name):
            at = ((x + 0.075) / PAGE_WIDTH, 1 - y / page.height)
            page.figure.add_artist(
                Line2D(
                    *([each] for each in at), marker=mark, color=color, markersize=5.5, markeredgewidth=1.6
                )
            )
        else:
            corner = (x / PAGE_WIDTH, 1 - (y + 0.065) / page.height)
            chip = Rectangle(corner, 0.15 / PAGE_WIDTH, 0.13 / page.height, facecolor=color, edgecolor="none")
            page.figure.add_artist(chip)
        x += 0.22 + width + 0.28


def beside(axes: Axes, text: str, x: float, y: float, dx: float, dy: float = 0, **style: Any) -> None:
    """Draw text ``dx``, ``dy`` points from ``x``, a share of the axes' width, and ``y``, in data units."""
    axes.annotate(
        printable(text, 240) if "\n" not in text else text,
        (x, y),
        (dx, dy),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        annotation_clip=False,
        **{"va": "center", **style},
    )


def at_end(axes: Axes, text: str, x: float, y: float) -> None:
    """Draw a bar's figure, bold, just after its end at data ``x``, ``y``."""
    axes.annotate(
        text,
        (x, y),
        (7, 0),
        textcoords="offset points",
        va="center",
        weight="bold",
        annotation_clip=False,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def seconds_axis(axes: Axes, length: float, several: bool = False, label: bool = True) -> None:
    """Label the x axis as time since the start of the run."""
    minutes = length > 300
    unit, scale = ("minutes", 60.0) if minutes else ("seconds", 1.0)
    axes.set_xlim(-0.012 * length, 1.012 * length)
    axes.xaxis.set_major_locator(_minutes(length) if minutes else MaxNLocator(8, steps=[1, 2, 3, 5, 6, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / scale:g}"))
    if label:
        axes.set_xlabel(f"{unit} since the start of {'each' if several else 'the'} run")


def _minutes(length: float) -> FixedLocator:
    step = next((step for step in (60, 120, 300, 600, 1800, 3600, 7200) if length / step <= 9), 21600)
    return FixedLocator([float(tick) for tick in range(0, int(length) + 1, step)])


def latency_axis(axes: Axes, values: Sequence[float], vertical: bool) -> None:
    """Make a logarithmic axis in ms that spans the values, at least two decades wide."""
    low = max(min(values, default=1.0) / 1.5, _FLOOR_MS)
    high = max(max(values, default=100.0) * 1.6, low * 120)
    (axes.set_yscale if vertical else axes.set_xscale)("log")
    (axes.set_ylim if vertical else axes.set_xlim)(low, high)
    axis = axes.yaxis if vertical else axes.xaxis
    axis.set_major_locator(FixedLocator([tick for tick in _LATENCY_TICKS if low <= tick <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _LATENCY_TICKS.get(value, "")))
