"""Measured cells, kept in a file with one cell a line, so that a diff shows which were measured again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Cells = Mapping[str, Mapping[str, Any]]
"""By row or family, then by trial."""


def read_cells(file: Path) -> dict[str, dict[str, Any]]:
    """Return the last measurement; empty without one."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def write_cells(file: Path, measured: Cells) -> None:
    """Replace the file."""
    rows = [
        f"{json.dumps(row)}: {{\n"
        + ",\n".join(f" {json.dumps(trial)}: {json.dumps(cell)}" for trial, cell in cells.items())
        + "\n}"
        for row, cells in measured.items()
    ]
    file.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
