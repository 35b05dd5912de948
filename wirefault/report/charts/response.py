"""How long the agent worked on each prompt, with and without a fault on its way."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from wirefault.report.charts.data import ChartedPrompt, Selection
from wirefault.report.charts.palette import ACCENT
from wirefault.report.charts.style import Page, latency_axis, page, say_nothing
from wirefault.report.charts.text import LEAST_FOR_P95, count, duration, spread
from wirefault.stats.intervals import percentile

# Whether a prompt crossed a fault, the colour of those that did or did not, and what they are called.
FAULT_GROUPS = ((False, ACCENT, "met no fault"), (True, "#d55e00", "crossed a fault"))


def draw_response(selection: Selection) -> Page:
    timed = [prompt for prompt in selection.prompts if prompt.response_ms is not None]
    sheet = page(_finding(timed), selection)
    if not timed:
        return say_nothing(sheet, "No attempt at a prompt ended in this run.")
    axes = sheet.axes(left=0.8, right=0.5, top=1.55, bottom=1.05)
    _groups(axes, sheet, timed)
    axes.set_xlabel("time the agent worked on the prompt, all attempts together (logarithmic)")
    axes.set_ylim(0, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_title("Share of prompts that were finished within ...")
    axes.grid(True)
    sheet.foot(_note(selection, timed))
    return sheet


def _groups(axes: Axes, sheet: Page, timed: list[ChartedPrompt]) -> None:
    latency_axis(axes, _times(timed), vertical=False)
    x = 0.8
    for crossed, color, name in FAULT_GROUPS:
        times = sorted(_times([prompt for prompt in timed if prompt.crossed_fault is crossed]))
        if not times:
            continue
        _curve(axes, times, color)
        label = f"{count(len(times), 'prompt')} {name}: {spread(times)}"
        sheet.text(x, 1.1, label, size=10, color=color, weight="bold", va="center")
        x = 5.3 if x < 1 else x


def _times(prompts: Sequence[ChartedPrompt]) -> list[float]:
    return [prompt.response_ms for prompt in prompts if prompt.response_ms is not None]


def _curve(axes: Axes, times: list[float], color: str) -> None:
    """The empirical distribution, a dot for each prompt."""
    low, _ = axes.get_xlim()
    shares = [(rank + 1) / len(times) for rank in range(len(times))]
    places = [max(time, low) for time in times]
    axes.step([places[0], *places], [0.0, *shares], where="post", color=color, linewidth=1.8)
    axes.plot(places, shares, "o", color=color, markersize=6 if len(times) < 60 else 3.5, clip_on=False)


def _finding(timed: list[ChartedPrompt]) -> str:
    times = _times(timed)
    middle = percentile(times, 50)
    if middle is None:
        return "No response time: no attempt ended"
    if len(times) == 1:
        return f"The prompt took {duration(middle)}"
    if len(times) < LEAST_FOR_P95:
        return f"Half of the prompts took at most {duration(middle)}, the slowest {duration(max(times))}"
    most = percentile(times, 95) or 0.0
    return f"Half of the prompts took at most {duration(middle)}, 95 % at most {duration(most)}"


def _note(selection: Selection, timed: list[ChartedPrompt]) -> str:
    absent = len(selection.prompts) - len(timed)
    note = "Without arming and healing. Each dot is a prompt; each line ends at 100 % of its own group."
    return note + (f" {count(absent, 'prompt')} without an ended attempt not drawn." if absent else "")
