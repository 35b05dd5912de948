"""The cases: a client, its model's replies, its faults, and the rules that must report it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.plain_data import read_yaml
from wirefault.dialects.json_values import as_list, as_object

HERE = Path(__file__).parent
CLIENTS = HERE / "clients"
FILE = HERE / "cases.yaml"
_INTERPRETERS = {".py": sys.executable, ".mjs": "node", ".sh": "sh"}
_KEYS = {"name", "does", "client", "fault", "fires", "near", "prompt", "model", "tap", "slow", "batch"}


@dataclass(frozen=True)
class Case:
    """A client with its faults."""

    name: str
    does: str
    """Its behaviour, as a clause: "orders again after a lost reply"."""
    command: tuple[str, ...]
    """The client's file and arguments."""
    fires: frozenset[str]
    """The rules that must report it; no other rule may."""
    near: str
    """For a look-alike, the rule that it nearly breaks; else empty."""
    faults: tuple[dict[str, Any], ...]
    prompt: str
    model: tuple[Any, ...]
    """The replies of its model, in order: a text, or a tool with its arguments."""
    tap: bool = False
    """The proxy tap intercepts its connections."""
    slow: bool = False
    """It takes at least 5 s."""
    batch: int = 1
    """Number of the batch; the cases of a batch were written and first scored together."""

    @property
    def rule(self) -> str:
        """The rule that the case tests."""
        return self.near or min(self.fires)

    @property
    def argv(self) -> list[str]:
        file, *words = self.command
        path = CLIENTS / file
        return [_INTERPRETERS[path.suffix], str(path), self.prompt, *words]


def load_cases(path: Path = FILE) -> list[Case]:
    """Read the file. Raises ``ValueError`` for an invalid case or a duplicate name."""
    cases = [_case(entry) for entry in as_list(read_yaml(path.read_text(encoding="utf-8"), str(path)))]
    names = [case.name for case in cases]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{path}: duplicate names: {', '.join(sorted(doubled))}")
    return cases


def _case(entry: Any) -> Case:
    row = as_object(entry)
    if unknown := row.keys() - _KEYS:
        raise ValueError(f"{row.get('name')}: unknown keys {', '.join(sorted(unknown))}")
    fires, near, faults = _texts(row.get("fires")), row.get("near", ""), row.get("fault") or []
    if not fires and not near:
        raise ValueError(f"{row.get('name')}: missing `fires`, or `near` for a look-alike")
    return Case(
        name=row["name"],
        does=row["does"],
        command=tuple(_words(row["client"])),
        fires=frozenset(fires),
        near=near,
        faults=tuple(faults if isinstance(faults, list) else [faults]),
        prompt=row.get("prompt") or f"Order tea, please ({row['name']}).",
        model=tuple(as_list(row.get("model"))),
        tap=bool(row.get("tap")),
        slow=bool(row.get("slow")),
        batch=row.get("batch", 1),
    )


def _texts(value: Any) -> Sequence[str]:
    return [value] if isinstance(value, str) else as_list(value)


def _words(value: Any) -> Sequence[str]:
    return value.split() if isinstance(value, str) else [str(word) for word in value]
