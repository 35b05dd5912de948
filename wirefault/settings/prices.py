"""What a model's tokens cost, by its name: read from a file, and kept as text in a run's settings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wirefault.core.errors import nearest
from wirefault.core.plain_data import plain_data, read_yaml, short_repr

_FIELDS = ("input", "output")
# what a process can be handed in its environment is bounded by the system
_LARGEST = 100_000


@dataclass(frozen=True)
class Price:
    """In US dollars for a million tokens."""

    input: float
    output: float


def prices_in_full(given: str) -> str:
    """The text of the price file at that path, or of prices given as text; what is empty stays empty.

    Raises ``ValueError`` that names the file, the model and the field, ``OSError`` if there is no such file.
    """
    if not given.strip() or given.lstrip().startswith("{") or "\n" in given:
        return canonical_prices(given)
    return canonical_prices(_read(Path(given)), given)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text") from None


def canonical_prices(text: str, where: str = "text") -> str:
    """The prices as JSON, by the models' names. Raises ``ValueError``."""
    if not text.strip():
        return ""
    models = plain_data(read_yaml(text, where), where)
    if not isinstance(models, dict) or not models:
        raise ValueError(f"{where}: must be a mapping: model: {{input: 2.5, output: 10}}")
    prices = {name: asdict(_price(value, f"{where}: {name}")) for name, value in sorted(models.items())}
    canonical = json.dumps(prices, ensure_ascii=False)
    if len(canonical.encode()) > _LARGEST:
        raise ValueError(f"{where}: larger than {_LARGEST} bytes; leave out the models that are not asked")
    return canonical


def load_prices(canonical: str) -> Mapping[str, Price]:
    """The prices by the models' names; none of an empty text."""
    return {name: Price(**fields) for name, fields in json.loads(canonical or "{}").items()}


def _price(value: Any, where: str) -> Price:
    fields = value if isinstance(value, dict) else {}
    for name in fields:
        if name not in _FIELDS:
            raise ValueError(f"{where}.{name}: no such field{nearest(name, _FIELDS)}")
    for name in _FIELDS:
        if not _is_amount(fields.get(name)):
            told = short_repr(fields[name]) if name in fields else "nothing"
            raise ValueError(f"{where}.{name}: must be US dollars for a million tokens, not {told}")
    return Price(float(fields["input"]), float(fields["output"]))


def _is_amount(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0
