"""``python -m tests.subjects.taps.unprivileged FOLDER COMMAND ...``: the command behind a namespace tap."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.subjects.taps.front import answering_front
from tests.subjects.taps.tapped import opened, run


def main(folder: Path, command: list[str]) -> None:
    with answering_front(folder) as front, opened(front, folder, "namespace") as tap:
        sys.stdout.write(run(tap, command, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
