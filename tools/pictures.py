"""Make the README's pictures from a recorded run: ``python -m tools.pictures RUN [LOGS]``. Needs chromium."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from wirefault.history.reader import read_run
from wirefault.judging.summary import summarise
from wirefault.report.charts import select_runs, write_charts
from wirefault.report.console import episode_line, print_summary
from wirefault.report.reproduce import command
from wirefault.settings.settings import Settings

HERE = Path("docs/pictures")
WIDTH = 110


def console_svg(logs: Path, run: str) -> str:
    """The console's own rendering of the run."""
    summary = summarise(read_run(logs, run))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text("$ make run", style="bold"))
    for index, judgement in enumerate(summary.episodes, start=1):
        console.print(episode_line(judgement, index, len(summary.episodes), WIDTH))
    print_summary(console, summary, command(Settings(**summary.settings)))
    return console.export_svg(title="wirefault")


def main() -> None:
    run, logs = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else "logs")
    svg = console_svg(logs, run)
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "console.html"
        page.write_text(f"<body style='margin:0'><style>svg{{width:1400px}}</style>{svg}", encoding="utf-8")
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--hide-scrollbars",
                f"--window-size=1400,{int(height * 1400 / width)}",
                f"--user-data-dir={folder}/profile",
                f"--screenshot={HERE / 'console.png'}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        write_charts(select_runs(logs, run, lambda _: None), Path(folder) / "charts")
        (Path(folder) / "charts" / "overview.png").replace(HERE / "overview.png")


if __name__ == "__main__":
    main()
