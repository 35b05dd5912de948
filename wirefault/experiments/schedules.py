"""Whether arms met the same schedule of faults: compared from their histories, call by call. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from wirefault.experiments.tournament import Schedules
from wirefault.history.events import AttemptArmed, Event, Exchange

Try = tuple[str, ...]
"""Episode, attempt, link, fingerprint, call and try: everything but the seed that a draw is keyed by."""
_MAX_NAMED = 5


def drawn_faults(events: Iterable[Event]) -> dict[Try, tuple[str, ...]]:
    """Return the faults that were drawn for each try, and the toxics of each attempt. Budgets are left out:
    what they refuse depends on what came before.
    """
    drawn: dict[Try, tuple[str, ...]] = {}
    for event in events:
        if isinstance(event, Exchange):
            names = (event.episode, event.attempt, event.link, event.fingerprint, event.call, event.try_)
            faults = sorted(fault.id or fault.kind for fault in event.faults if not fault.of_budget)
            drawn[tuple(map(str, names))] = tuple(faults)
        elif isinstance(event, AttemptArmed):
            toxics = sorted(f"{toxic.kind} on {toxic.link}" for toxic in event.toxics)
            drawn[event.episode, str(event.attempt)] = tuple(toxics)
    return drawn


def compared_schedules(arms: Mapping[str, Mapping[Try, Sequence[str]]]) -> Schedules:
    """Compare the arms, by name, on every call that at least two of them made."""
    made: defaultdict[Try, dict[str, Sequence[str]]] = defaultdict(dict)
    for name, drawn in arms.items():
        for call, faults in drawn.items():
            made[call][name] = faults
    shared = {call: by_arm for call, by_arm in made.items() if len(by_arm) > 1}
    different = [
        f"{' '.join(call)}: {'; '.join(f'{name} {list(faults)}' for name, faults in by_arm.items())}"
        for call, by_arm in shared.items()
        if len(set(map(tuple, by_arm.values()))) > 1
    ]
    return Schedules(len(shared), different)
