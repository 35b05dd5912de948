"""The account of a run's faults: how many reached each stage, and why the others did not. Pure.

Each row counts one entry of a fault set under one configuration (the run's set is number 0), one kind of
fault that ``TOXIC_PROB`` or ``ERROR_PROB`` drew, or one effect of a budget. All tables of faults use these
rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import unquote

from wirefault.dialects.mcp import MCP
from wirefault.faults.sets.fault_set import Entry, FaultSetError
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import (
    AttemptArmed,
    EpisodeStarted,
    Event,
    Exchange,
    FaultsSet,
    RunStarted,
    WentPastLab,
)
from wirefault.history.judged_events import (
    DELIVERED_BY,
    LAB_FAILURES,
    STAGES,
    DeliveredBy,
    FaultRecord,
    FaultSource,
)
from wirefault.settings.episode_faults import links_of_toxics
from wirefault.wiring.links import FOUND_MODELS, FOUND_TOOLS

AlwaysOn = Literal[
    "held",  # every eligible request met it
    "invalid",  # the lab let a request pass
    "unknown",  # it could not change any request
]
NOT_READ = "http2_only"
"""Why a fault could not act: so many connections on its links, whose clients speak only HTTP/2."""
_RowKey = tuple[int, str, FaultSource, str]  # configuration, entry, source, and the kind without an entry


@dataclass(frozen=True)
class FaultAccount:
    """How many faults of one entry, or of one kind without an entry, reached each stage.

    ``met`` and later stages are None (unknown) for toxics whose callers did not record their calls.
    """

    configuration: int
    entry: str
    source: FaultSource
    kind: str
    links: list[str]
    # complete requests for a fault of the gateway, pairs of attempt and link for a toxic (times its outages);
    # None if the fault set cannot be read
    eligible: int | None
    drawn: int
    armed: int
    met: int | None
    injected: int | None
    observed: int | None
    delivered: int | None
    # the side that must show the injected (toxics: met) ones, and how many; see ``FaultRecord``
    delivered_by: dict[DeliveredBy, int] = field(default_factory=dict)
    why_not: dict[str, int] = field(default_factory=dict)  # why some were not observed
    always_on: AlwaysOn | None = None  # for an entry that every eligible request must meet
    because: str = ""  # the failure of the lab
    given_up: int = 0  # how many delays the client did not wait for

    @property
    def name(self) -> str:
        if not self.entry:
            return f"{self.kind} ({'TOXIC_PROB' if self.source == 'toxic' else 'ERROR_PROB'})"
        return self.entry + (f" (configuration {self.configuration})" if self.configuration else "")

    @property
    def label(self) -> str:
        """Its name, with its kind where the name does not begin with that."""
        return self.name if self.name.startswith(self.kind) else f"{self.name}: {self.kind}"


@dataclass(frozen=True)
class RunAccount:
    rows: list[FaultAccount]
    notes: list[str]  # why a configuration cannot be accounted for, or can do nothing

    @property
    def invalid_because(self) -> list[str]:
        """Why the run is invalid; empty if the lab injected every fault that it had to."""
        return [f"fault {row.name}: {row.because}" for row in self.rows if row.always_on == "invalid"]

    def remarks(self) -> Iterator[str]:
        """Describe the active faults that had no effect."""
        yield from self.notes
        idle = [row for row in self.rows if row.eligible == 0]
        for text, rows in (
            ("always-on faults (delivery unknown)", [row for row in idle if row.always_on]),
            ("faults", [row for row in idle if not row.always_on]),
        ):
            if rows:
                yield f"not exercised, no call was eligible: {text}: {', '.join(row.name for row in rows)}"
        for row in self.rows:
            if count := row.why_not.get(NOT_READ):
                connections = f"{count} connection{'s' if count > 1 else ''}"
                yield f"{row.name} could not act on {connections} over HTTP/2, whose requests cannot be read"
        without_effect = [r for r in self.rows if r.source == "fault" and r.met and not r.injected]
        names = [
            f"{r.name} ({', '.join(why for why in r.why_not if why != NOT_READ)})"
            for r in without_effect
            if r.always_on != "invalid"
        ]
        if names:
            yield f"met, but changed nothing: {', '.join(names)}"


def account(started: RunStarted, events: Iterable[Event], records: Iterable[FaultRecord]) -> RunAccount:
    """The account of a run. ``records`` are the fault records of its episodes."""
    events = list(events)
    exchanges = [event for event in events if isinstance(event, Exchange) and event.episode]
    armed = [event for event in events if isinstance(event, AttemptArmed)]
    needed = {event.episode: event.tool_links for event in events if isinstance(event, EpisodeStarted)}
    by_row: defaultdict[_RowKey, list[FaultRecord]] = defaultdict(list)
    for record in records:
        kind = record.kind if not record.entry or record.source == "budget" else ""
        by_row[record.configuration, record.entry, record.source, kind].append(record)
    changing = {link.name for link in started.wired if link.found and link.recognised}
    past_lab = [event for event in events if isinstance(event, WentPastLab)]
    unread = [event for event in past_lab if event.link]
    rows: list[FaultAccount] = []
    notes: list[str] = []
    for number, text, level in _configurations(started, events):
        try:
            named = read_canonical(text, level)
            faults = named.on(started.wired)
        except FaultSetError as error:
            problem = f"configuration {number}: {error}"
            notes.append(f"faults not counted, because this version cannot read them: {problem}")
            continue
        for toxic, as_named in zip(faults.toxics, named.toxics, strict=True):
            attempts = sum(a.configuration == number and toxic.strikes(a.episode) for a in armed)
            drawn = by_row.pop((number, toxic.id, "toxic", ""), [])
            key: _RowKey = (number, toxic.id, "toxic", toxic.spec.kind)
            # a found link may be in another group now than when it was drawn for
            links = dict.fromkeys([*toxic.links, *(record.link for record in drawn)])
            possible = attempts * len(links) * max(len(toxic.spans), 1)
            rows.append(_row(key, links, possible, drawn))
            names_one_group = (FOUND_TOOLS in as_named.links) != (FOUND_MODELS in as_named.links)
            changed = [link for link in links if link in changing and link not in as_named.links]
            if names_one_group and changed and rows[-1].drawn < possible:
                notes.append(
                    f"{rows[-1].name} on {', '.join(changed)}: a link found at run time has the toxics of"
                    " tools until its first model request, and of model from the next attempt on"
                )
        for entry in faults.faults:
            eligible = [e for e in exchanges if e.configuration == number and _is_eligible(entry, e)]
            met = by_row.pop((number, entry.id, "fault", ""), [])
            row = _entry_row(number, entry, eligible, met, bypassed=bool(past_lab))
            rows.append(_with_unread(row, entry, unread))
        if text and not faults.can_be_met:
            notes.append(
                f"none of the fault set's faults can occur: their probability is 0 at chaos level {level:g}"
            )
    left = {unquote(each.target[1:]) for each in exchanges if each.left_to_requests}
    if left and any(row.eligible == 0 for row in rows):
        notes.append(
            f"functions that send requests, or whose code may: {', '.join(sorted(left))}; faults act on"
            " the requests, and on the function itself only by name (links: functions, or only: {tool: NAME})"
        )
    order = sorted(by_row, key=lambda key: (key[2] != "toxic", key[3]))  # toxics first, then by kind
    tools = started.wired.with_tool_requests
    scope = str(started.settings.get("toxic_scope", "each"))
    pairs = sum(len(links_of_toxics(scope, tools, needed.get(each.episode))) for each in armed)
    without_entry = [_row_without_entry(key, by_row[key], pairs, exchanges, tools) for key in order]
    return RunAccount([*without_entry, *rows], notes)


def _configurations(started: RunStarted, events: Iterable[Event]) -> Iterator[tuple[int, str, float]]:
    """The number, text and chaos level of each active fault set."""
    settings = started.settings
    yield 0, str(settings.get("faults", "")), float(settings.get("chaos_level", 1.0))
    # a gateway may record the same set more than once
    later = {event.number: event.faults for event in events if isinstance(event, FaultsSet)}
    yield from ((number, text, 1.0) for number, text in later.items())


def _is_eligible(entry: Entry, exchange: Exchange) -> bool:
    """Whether the entry selects the request, which must be complete and belong to the current attempt.

    This compares method and path again. The history has no headers or bodies: for entries that select by
    them, for probable writes, and on MCP links, the gateway recorded which entries selected a request.
    """
    if any(met.id == entry.id for met in exchange.faults):
        return True
    if not exchange.request_complete:
        return False
    if not entry.only.in_episode(exchange.episode):
        return False
    if entry.fault.where == "mcp" and exchange.dialect not in ("", MCP.name):
        return False  # a link that was found at run time may speak both MCP and plain HTTP
    if exchange.left_to_requests and not entry.names(exchange.link):
        return False
    only, path = entry.only, exchange.target.partition("?")[0]
    if not only.by_history or exchange.dialect == MCP.name or exchange.link in entry.writes_only:
        return entry.id in exchange.eligible
    if exchange.link not in entry.links or not entry.strikes(exchange.link, of_model=exchange.of_model):
        return False
    return only.matches_head(exchange.method, path)


def _entry_row(
    configuration: int,
    entry: Entry,
    eligible: Sequence[Exchange],
    records: Sequence[FaultRecord],
    *,
    bypassed: bool,
) -> FaultAccount:
    """``bypassed``: connections bypassed the lab, so some calls may not have met the fault."""
    certain = entry.certain and not entry.fault.chooses
    passed = sum(all(met.id != entry.id for met in exchange.faults) for exchange in eligible)
    failures = Counter(
        record.why_not + (f": {record.detail}" if record.detail else "")
        for record in records
        if record.why_not in LAB_FAILURES
    )
    of = f"of {len(eligible)}"
    parts = [f"{passed} {of} calls passed without it"] if certain and passed else []
    because = "; ".join([*parts, *(f"{count} {of}: {why}" for why, count in failures.items())])
    always_on: AlwaysOn | None = None
    if certain:
        injected = any(record.reached("injected") for record in records)
        always_on = "invalid" if because else "held" if injected and not bypassed else "unknown"
    key: _RowKey = (configuration, entry.id, "fault", entry.fault.name)
    return _row(key, entry.links, len(eligible), records, always_on, because)


def _with_unread(row: FaultAccount, entry: Entry, unread: Iterable[WentPastLab]) -> FaultAccount:
    """Return the row with the connections on its links whose requests could not be read."""
    count = sum(past.link in entry.links and entry.only.in_episode(past.episode) for past in unread)
    return replace(row, why_not={**row.why_not, NOT_READ: count}) if count else row


def _row_without_entry(
    key: _RowKey,
    records: Sequence[FaultRecord],
    pairs: int,
    exchanges: Sequence[Exchange],
    tools: Sequence[str],
) -> FaultAccount:
    """The row of faults without a readable entry: drawn by settings.

    ``pairs``: how many pairs of attempt and link ``TOXIC_PROB`` drew for.
    """
    configuration, entry, source, _ = key
    eligible: int | None = None
    if not entry and source == "toxic":
        eligible = pairs
    elif not entry:
        eligible = sum(e.link in tools and e.request_complete and not e.of_model for e in exchanges)
    links = dict.fromkeys(record.link for record in records) if entry else tools
    return _row((configuration, entry, source, records[0].kind), links, eligible, records)


def _row(
    key: _RowKey,
    links: Iterable[str],
    eligible: int | None,
    records: Sequence[FaultRecord],
    always_on: AlwaysOn | None = None,
    because: str = "",
) -> FaultAccount:
    reached = {stage: sum(record.reached(stage) for record in records) for stage in STAGES}
    why_not = Counter[str](record.why_not for record in records if record.why_not)
    acted = [r for r in records if r.reached("met" if r.source == "toxic" else "injected")]
    delivered_by = Counter(record.delivered_by for record in acted)
    known = not records or any(record.delivered is not None for record in records)
    return FaultAccount(
        *key,
        links=list(links),
        eligible=eligible,
        drawn=reached["drawn"],
        armed=reached["armed"],
        met=reached["met"] if known else None,
        injected=reached["injected"] if known else None,
        observed=reached["observed"] if known else None,
        delivered=sum(record.delivered is True for record in records) if known else None,
        delivered_by={side: delivered_by[side] for side in DELIVERED_BY if delivered_by[side]},
        why_not=dict(sorted(why_not.items())),
        always_on=always_on,
        because=because,
        given_up=sum(record.client_gave_up for record in records),
    )


def nothing_known(faults: Sequence[FaultAccount], settings: Mapping[str, Any]) -> str:
    """Why a run shows nothing about faults; empty if one was injected, and for a run without faults."""
    wanted = faults or any(settings.get(name) for name in ("faults", "toxic_prob", "error_prob"))
    if not wanted or any(row.injected for row in faults):
        return ""
    if any(row.injected is None for row in faults):
        why = "it is not known whether a fault was injected"
    else:
        why = "no fault was injected" if any(row.met for row in faults) else "no fault was met"
    return f"{why}, so this run shows nothing about behaviour under faults"
