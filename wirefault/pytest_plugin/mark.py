"""The arguments of the marker, checked."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from wirefault.core.errors import InputError, nearest
from wirefault.experiments.assertions.evaluators import Check, as_check
from wirefault.experiments.assertions.on_arm import check_episode
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.faults.sets.conditions import FaultSetError
from wirefault.faults.sets.fault_set import FaultSet
from wirefault.faults.sets.presets import find_set, preset_names, read_canonical
from wirefault.judging.findings.outcomes import OUTCOME_RULES
from wirefault.judging.findings.rules import RULES
from wirefault.pytest_plugin import MAX_REPEATS
from wirefault.wiring.links import Links

_ARGUMENTS = ("faults", "repeats", "expect", "allow", "checks", "paid")
_RULES = tuple(rule.name for rule in (*RULES, *OUTCOME_RULES))


@dataclass(frozen=True)
class Mark:
    """A marked test's faults, and the findings that do not fail it."""

    faults: str = ""
    """The fault set in full, as the settings take it; empty for none."""
    each_must_arrive: bool = False
    """The user listed the faults, so that each must arrive; of a preset, any."""
    expect: tuple[str, ...] = ()
    """Rules that must find something."""
    allow: tuple[str, ...] = ()
    """Rules that may find something."""
    paid: bool = False
    """Whether the test costs money."""
    checks: tuple[Check, ...] = ()
    """Run after the episode, outside of the lab."""

    @property
    def by_chance(self) -> bool:
        """Whether chance decides if a fault acts."""
        fault_set = read_canonical(self.faults)
        chances = [entry.when.probability for entry in fault_set.faults]
        return any(chance < 1 for chance in (*chances, *(toxic.probability for toxic in fault_set.toxics)))


def read_mark(
    arguments: Sequence[object], named: Mapping[str, object], links: Links, faults: str = ""
) -> Mark:
    """Check the marker's arguments. ``faults`` replaces its own, if it has any. Raises ``InputError``."""
    if len(arguments) > 1:
        raise InputError("takes one argument, the faults; name the others")
    if arguments and "faults" in named:
        raise InputError("faults: given twice")
    for name in named:
        if name not in _ARGUMENTS:
            raise InputError(f"unknown argument {name!r}{nearest(name, _ARGUMENTS)}")
    repeats = named.get("repeats", 1)
    if not isinstance(repeats, int) or isinstance(repeats, bool) or not 1 <= repeats <= MAX_REPEATS:
        raise InputError(f"repeats: must be a whole number from 1 to {MAX_REPEATS}, not {repeats!r}")
    paid = named.get("paid", False)
    if not isinstance(paid, bool):
        raise InputError(f"paid: must be True or False, not {paid!r}")
    own = arguments[0] if arguments else named.get("faults", "")
    chosen: object = faults if faults and own else own
    return Mark(
        read_faults(chosen, links),
        is_list(chosen),
        _rules("expect", named.get("expect", ())),
        _rules("allow", named.get("allow", ())),
        paid,
        _checks(named.get("checks", ())),
    )


def read_faults(faults: object, links: Links) -> str:
    """A fault set in full: a name, a file, a fault, a list of faults or the set itself. ``InputError``."""
    try:
        return find_set(_set_text(faults), links).dump() if faults else ""
    except FaultSetError as error:
        raise InputError(f"faults: {error}") from None


def is_list(faults: object) -> bool:
    """Whether the user listed the faults, instead of naming a preset."""
    return bool(faults) and not (isinstance(faults, str) and faults.strip() in preset_names())


def _set_text(faults: object) -> str:
    match faults:
        case str():
            return faults
        case FaultSet():
            return faults.dump()
        case {"faults": _} | {"toxics": _}:
            return _json(faults)
        case {"fault": _}:
            return _json({"faults": [faults]})
        case {"toxic": _}:
            return _json({"toxics": [faults]})
        case list() | tuple():
            entries: list[Any] = [{"fault": each} if isinstance(each, str) else each for each in faults]
            toxics = [each for each in entries if isinstance(each, dict) and "toxic" in each]
            others = [each for each in entries if each not in toxics]
            return _json({"faults": others, "toxics": toxics})
        case _:
            raise InputError(
                f"faults: must be a name, a file, a fault set or a list of faults, not {faults!r:.80}"
            )


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"faults: {error}") from None


def _checks(value: object) -> tuple[Check, ...]:
    """Assertions as an experiment has them, evaluators of other packages, and functions of the episode."""
    entries = value if isinstance(value, list | tuple) else (value,)
    checks: list[Check] = []
    for entry in entries:
        try:
            if isinstance(entry, str | dict):
                checks.append(partial(check_episode, parse_assertion(entry)))
            else:
                checks.append(as_check(entry))
        except (TypeError, ValueError) as error:
            raise InputError(f"checks: {error}") from None
    return tuple(checks)


def _rules(name: str, value: object) -> tuple[str, ...]:
    rules: Collection[object] = (value,) if isinstance(value, str) else value  # type: ignore[assignment]
    if not isinstance(rules, list | tuple | set | frozenset) or not all(isinstance(r, str) for r in rules):
        raise InputError(f"{name}: must be the name of a finding or a list of names, not {value!r:.80}")
    for rule in rules:
        if rule not in _RULES:
            raise InputError(f"{name}: unknown finding {rule!r}{nearest(str(rule), _RULES)}")
    return tuple(map(str, rules))
