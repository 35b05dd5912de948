"""``python -m tests.subjects.taps.unprivileged FOLDER COMMAND ...``: the command behind a namespace tap."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.subjects.taps.ingress import answering_ingress
from tests.subjects.taps.tapped import opened, run


def main(folder: Path, command: list[str]) -> None:
    with answering_ingress(folder) as ingress, opened(ingress, folder, "namespace") as tap:
        sys.stdout.write(run(tap, command, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
