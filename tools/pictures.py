"""Make the README's pictures: ``python -m tools.pictures [RUN [LOGS]]``. A run's pictures need chromium."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from rich.console import Console
from rich.text import Text

from wirefault.history.reader import read_run
from wirefault.judging.summary import summarise
from wirefault.report.charts import select_runs, write_charts
from wirefault.report.console import episode_line
from wirefault.report.reproduce import command
from wirefault.report.summary import print_summary
from wirefault.settings.settings import Settings

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURES = DOCS / "pictures"
WIDTH = 110
ONCE, TWICE, INK, MUTED = "#0072b2", "#b3122d", "#1f2933", "#5f6c7b"
FRAMEWORKS = {
    "autogen": "AutoGen", "crewai": "CrewAI", "langchain": "LangChain", "langchain_js": "LangChain.js",
    "langgraph": "LangGraph", "llama_index": "LlamaIndex", "openai_agents": "OpenAI Agents",
    "openai_node": "OpenAI SDK, own loop", "pydantic_ai": "Pydantic AI", "smolagents": "smolagents",
    "strands": "Strands", "vercel_ai": "Vercel AI SDK",
}  # fmt: skip


def orders_after_a_lost_reply() -> dict[str, int]:
    """Return the number of orders that the shop executed, by agent, from docs/findings.md."""
    rows = re.findall(r"^\| (.*) \|$", (DOCS / "findings.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    header = next(row for row in rows if row.startswith("example | lost reply |"))
    column = header.split(" | ").index("lost reply, insistent model")
    cells = [row.split(" | ") for row in rows[rows.index(header) + 2 :][: len(FRAMEWORKS)]]
    return {row[0].strip("`"): 2 if "2 orders" in row[column] else 1 for row in cells}


def draw_orders(file: Path) -> None:
    """Draw a row for each agent with a tile for each order."""
    orders = dict(sorted(orders_after_a_lost_reply().items(), key=lambda item: (-item[1], item[0])))
    figure, axes = pyplot.subplots(figsize=(9, 4.4), dpi=150)
    figure.subplots_adjust(left=0.22, right=0.98, top=0.8, bottom=0.1)
    for row, (name, count) in enumerate(orders.items()):
        for tile in range(count):
            axes.barh(-row, 0.94, left=tile, height=0.72, color=TWICE if tile else ONCE)
            label = "the same order again" if tile else "order"
            axes.text(tile + 0.47, -row, label, color="white", ha="center", va="center_baseline", fontsize=9)
        axes.text(-0.04, -row, FRAMEWORKS[name], ha="right", va="center", fontsize=10, color=INK)
    twice = sum(count > 1 for count in orders.values())
    title = f"One reply is lost: {twice} of {len(orders)} agents order twice"
    figure.text(
        0.02,
        0.93,
        title,
        fontsize=16,
        color=INK,
        weight="bold",
    )
    note = (
        "The shop carries out an order and its reply is lost. A model that sees the error orders once more."
    )
    figure.text(0.02, 0.865, note, fontsize=9.5, color=MUTED)
    figure.text(
        0.02, 0.03, "Frameworks on their defaults; a scripted model that asks again; one run each.",
        fontsize=8.5, color=MUTED,
    )  # fmt: skip
    axes.set_xlim(0, 2)
    axes.axis("off")
    figure.savefig(file)


def console_svg(logs: Path, run: str) -> str:
    """Return the console's output of the run as SVG."""
    summary = summarise(read_run(logs, run))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text("$ make run", style="bold"))
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), WIDTH))
    print_summary(console, summary, command(Settings(**summary.settings)))
    return console.export_svg(title="wirefault")


def draw_run(logs: Path, run: str) -> None:
    """Draw the run's console and its overview chart."""
    svg = console_svg(logs, run)
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "console.html")
        page.write_text(f"<body style='margin:0'><style>svg{{width:1400px}}</style>{svg}", encoding="utf-8")
        chromium = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
        ]
        size = f"--window-size=1400,{int(height * 1400 / width)}"
        profile, picture = f"--user-data-dir={folder}/profile", f"--screenshot={PICTURES / 'console.png'}"
        command_line = [*chromium, "--hide-scrollbars", size, profile, picture, page.as_uri()]
        subprocess.run(command_line, check=True, capture_output=True)
        write_charts(select_runs(logs, run, lambda _: None), Path(folder, "charts"))
        Path(folder, "charts", "overview.png").replace(PICTURES / "overview.png")


if __name__ == "__main__":
    draw_orders(PICTURES / "orders.png")
    if len(sys.argv) > 1:
        draw_run(Path(sys.argv[2] if len(sys.argv) > 2 else "logs"), sys.argv[1])
