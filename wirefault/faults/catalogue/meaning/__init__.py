"""Faults of a tool result's content."""

from __future__ import annotations

from wirefault.faults.base import Fault
from wirefault.faults.catalogue.meaning.arguments import ChangedArguments
from wirefault.faults.catalogue.meaning.statements import (
    Contradiction,
    EntitySwap,
    Fabricated,
    Instruction,
    NonexistentReference,
    PartialTruth,
)
from wirefault.faults.catalogue.meaning.values import Outdated, UnitError, WrongValue

MEANING_FAULTS: tuple[type[Fault], ...] = (
    WrongValue,
    EntitySwap,
    UnitError,
    Contradiction,
    Fabricated,
    Outdated,
    NonexistentReference,
    PartialTruth,
    Instruction,
    ChangedArguments,
)
