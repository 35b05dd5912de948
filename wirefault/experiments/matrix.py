"""The matrix of an experiment: combinations of faults, doses, settings, subjects and prompts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Any

from pydantic import Field

from wirefault.wiring.spec_file import Spec

MAX_ARMS = 200
_Dose = Annotated[float, Field(gt=0, le=100)]


class Matrix(Spec):
    """Each list is one dimension; an empty one leaves the experiment as it is."""

    faults: list[str | dict[str, Any]] = Field(
        default_factory=list, description="each is an arm; instead of `method` and `variants`"
    )
    doses: list[_Dose] = Field(default_factory=list, description="factors for all probabilities of each arm")
    settings: dict[str, list[str | int | float]] = Field(
        default_factory=dict, description="the values of each setting, by its name"
    )
    subjects: list[str] = Field(default_factory=list, description="each as `subject`")
    prompts: list[str | list[str | dict[str, Any]]] = Field(
        default_factory=list, description="each as `prompts`"
    )


def expanded(data: Mapping[str, Any], matrix: Matrix) -> list[dict[str, Any]]:
    """Expand a matrix into the data of its experiments, which have no matrix.

    Raises ``ValueError`` for too many arms and for an empty dimension.
    """
    for name, values in matrix.settings.items():
        if not values:
            raise ValueError(f"settings.{name} has no value")
    named = [_name_of(faults, place) for place, faults in enumerate(matrix.faults, 1)]
    if twice := next((name for name in named if named.count(name) > 1), ""):
        raise ValueError(f"faults: two of them have the name {twice}")
    arms = dict(_arms(data, matrix))
    if not arms:
        raise ValueError("needs `faults`, or doses of a `method` or of `variants`")
    cells = list(_cells(matrix))
    if len(arms) * len(cells) > MAX_ARMS:
        raise ValueError(f"has {len(arms)} x {len(cells)} arms with faults;at most {MAX_ARMS} are run")
    common = {key: value for key, value in data.items() if key not in ("matrix", "method")}
    return [_cell_experiment({**common, "variants": arms}, cell) for cell in cells]


def _arms(data: Mapping[str, Any], matrix: Matrix) -> Iterator[tuple[str, Any]]:
    named = {_name_of(faults, place): {"faults": faults} for place, faults in enumerate(matrix.faults, 1)}
    method = data.get("method")
    arms = named or ({"method": method} if method else data.get("variants") or {})
    for name, arm in arms.items():
        if not matrix.doses:
            yield name, arm
        for dose in matrix.doses:
            yield f"{name}-x{dose:g}", {**_as_dict(arm), "dose": dose}


def _as_dict(arm: Any) -> dict[str, Any]:
    return dict(arm) if isinstance(arm, Mapping) else dict(arm.model_dump(exclude_unset=True))


def _name_of(faults: str | dict[str, Any], place: int) -> str:
    """The file name of a preset or file; a number for an inline set."""
    if isinstance(faults, dict):
        return f"faults-{place}"
    stem = faults.rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:30] or f"faults-{place}"


def _cells(matrix: Matrix) -> Iterator[list[tuple[str, Any]]]:
    """Name and value of the dimensions that also change the control, for each experiment."""
    dimensions: list[Sequence[tuple[str, Any]]] = [
        [(f"settings.{name}", value) for value in values] for name, values in matrix.settings.items()
    ]
    dimensions += [[("subject", subject) for subject in matrix.subjects]] if matrix.subjects else []
    dimensions += [[("prompts", prompts) for prompts in matrix.prompts]] if matrix.prompts else []
    yield from map(list, product(*dimensions))


def _cell_experiment(data: dict[str, Any], cell: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    settings = dict(data.get("settings") or {})
    words = []
    for name, value in cell:
        key, _, setting = name.partition(".")
        if setting:
            settings[setting] = value
        else:
            data[key] = value
        words.append(f"{setting or key}={value if isinstance(value, str | int | float) else 'in place'}")
    if settings:
        data["settings"] = settings
    if words:
        data["title"] = f"{data.get('title', '')} [{', '.join(words)}]"
    return data
