"""The faults of an arm one by one: leave some out, or change a number of one. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from wirefault.core.errors import nearest
from wirefault.faults.sets.conditions import FaultSetError
from wirefault.faults.sets.fault_set import Entry, FaultSet, ToxicEntry
from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.settings import Settings

LEVEL = "level"
"""The field that multiplies the probabilities of all faults."""
CHANCES = ("toxic_prob", "error_prob")
"""Settings that inject faults, too."""


def fault_names(settings: Settings) -> tuple[str, ...]:
    """The ids of the arm's faults and toxics, and the settings that draw faults."""
    names = read_canonical(settings.faults, settings.chaos_level).ids
    return (*names, *(name for name in CHANCES if getattr(settings, name)))


def with_faults(settings: Settings, names: Collection[str]) -> Settings:
    """The settings with only these faults. Ids stay, so these are drawn as before."""
    whole = read_canonical(settings.faults, settings.chaos_level)
    part = FaultSet(
        tuple(entry for entry in whole.faults if entry.id in names),
        tuple(entry for entry in whole.toxics if entry.id in names),
    )
    off = {name: 0.0 for name in CHANCES if name not in names}
    return settings.model_copy(update={"faults": part.dump(), "chaos_level": 1.0, **off})


@dataclass(frozen=True)
class NumberField:
    """A number of one fault: a parameter, or its probability."""

    fault: str
    """Its id."""
    name: str
    value: float
    """As written, or the fault's default."""

    @property
    def text(self) -> str:
        return f"{self.fault}.{self.name}"


def number_field(settings: Settings, text: str) -> NumberField:
    """Return the field named ``FAULT.FIELD``, or ``FIELD`` if one fault has it. Raises ``ValueError``."""
    fields = list(_fields(read_canonical(settings.faults, settings.chaos_level)))
    chosen = [field for field in fields if text in (field.text, field.name)]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        raise ValueError(f"several faults have {text}: name one of {', '.join(f.text for f in chosen)}")
    known = [LEVEL, *(field.text for field in fields)]
    raise ValueError(f"unknown field {text!r}{nearest(text, known)}")


def _fields(faults: FaultSet) -> Iterator[NumberField]:
    entries: list[Entry | ToxicEntry] = [*faults.faults, *faults.toxics]
    for entry in entries:
        for name, value in _numbers(entry).items():
            yield NumberField(entry.id, name, value)


def _numbers(entry: Entry | ToxicEntry) -> dict[str, float]:
    if isinstance(entry, Entry):
        parameters: dict[str, Any] = entry.fault.model_dump(by_alias=True)
        probability = entry.when.probability
    else:
        parameters, probability = dict(entry.spec.attributes), entry.probability
    numbers = {
        name: float(value)
        for name, value in parameters.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {**numbers, "probability": probability}


def with_number(settings: Settings, field: NumberField, value: float) -> Settings:
    """The settings with that number of that fault. Raises ``ValueError`` for one that it cannot have."""
    data = json.loads(read_canonical(settings.faults, settings.chaos_level).dump())
    for entry in (*data.get("faults", ()), *data.get("toxics", ())):
        if entry["id"] == field.fault:
            of_entry = entry["when"] if field.name == "probability" else entry["with"]
            of_entry[field.name] = int(value) if value == int(value) else value
    text = json.dumps(data, sort_keys=True)
    try:
        canonical = read_canonical(text).dump()
    except FaultSetError as error:
        raise ValueError(f"{field.text} = {value:g}: {error}") from None
    return settings.model_copy(update={"faults": canonical, "chaos_level": 1.0})
