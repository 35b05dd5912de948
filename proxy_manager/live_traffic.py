"""The run ``live``: traffic on a lab that is up while no run has its lane, as one open episode.

It begins when faults are set, yields the lane to any run, and continues afterwards. It is not judged.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxy_manager.gateway_control import GatewayFaults
from proxy_manager.lane import LaneParts
from wirefault.core.redaction import Redaction
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import AttemptArmed, EpisodeStarted, Exchange, RunStarted
from wirefault.history.reader import LIVE, read_file
from wirefault.history.writer import history_file
from wirefault.settings.settings import Settings
from wirefault.state.state import AttemptRow, RunRow
from wirefault.state.tables import ConfigurationRow
from wirefault.toxiproxy.planned import plan_toxics
from wirefault.wiring.links import Links

_EPISODE, _ATTEMPT = "live", 1
_SUBJECT = "any caller, outside any run"


class LiveTraffic:
    """The live traffic of one lane.

    Raises ``GatewayError``, ``ToxiproxyError``, ``sqlite3.Error``, ``OSError``.
    """

    def __init__(self, parts: LaneParts) -> None:
        self._parts = parts
        lab_id, lane = parts.lab
        self.run_id = f"{LIVE}{lab_id}" + (f"-{lane}" if lane else "")
        self._settings = Settings(seed=0, toxic_prob=0, error_prob=0)
        self._open = False
        self._toxics_of = 0  # the configuration whose toxics are in force

    def yield_lane(self) -> None:
        """Give the lane to a run. The faults are set again after it."""
        self._open = False
        self._toxics_of = 0

    def keep(self, latest: ConfigurationRow | None, faults: GatewayFaults, links: Links) -> str | None:
        """Keep the faults in force in a step without a run; return the live run's id after it has begun."""
        if latest is None or not (latest.faults or self._open):
            return None
        run, attempt = self._rows()
        if not self._open:
            self._begin(run, attempt, links)
            faults.forget()
        faults.send(attempt, run)
        if self._toxics_of != latest.number:
            self._set_toxics(attempt, latest, links)
        return self.run_id

    def _rows(self) -> tuple[RunRow, AttemptRow]:
        """Return rows of the live run and its attempt, for which configurations of any time are valid."""
        settings, now = self._settings, self._parts.clock()
        run = RunRow(self.run_id, *self._parts.lab, "live", 0, settings.dump(), settings.hash, 0.0, now)
        lab_id, lane = self._parts.lab
        attempt = AttemptRow(
            0, self.run_id, lab_id, lane, _EPISODE, _ATTEMPT, "armed", now, now, None, None, None, ()
        )
        return run, attempt

    def _begin(self, run: RunRow, attempt: AttemptRow, links: Links) -> None:
        if self._parts.state.run(self.run_id) is None:
            now, settings = self._parts.clock(), self._settings.model_dump()
            lab_id, lane = self._parts.lab
            self._parts.state.insert_run(
                run.run_id, lab_id, lane, run.settings, run.settings_hash, run.seed, now, status="live"
            )
            recorded = links.redacted(Redaction(os.environ))
            self._parts.history.write(
                self.run_id,
                RunStarted(now, self.run_id, lab_id, lane, 0, settings, _SUBJECT, 0, links=recorded),
                EpisodeStarted(now, _EPISODE, "(traffic on the lab outside any run)", None),
            )
        self._parts.gateway.begin(attempt, run.settings_hash)
        self._open = True

    def _set_toxics(self, attempt: AttemptRow, latest: ConfigurationRow, links: Links) -> None:
        """Set the toxics that last a whole attempt, drawn once: an open episode has no turns and no end.

        Toxics set by hand since the last set are removed.
        """
        entries = read_canonical(latest.faults).on(links).toxics
        drawn = plan_toxics(
            0, 0.0, (), links.tool_names, _EPISODE, latest.number, entries, configuration=latest.number
        )
        plan = [toxic for toxic in drawn if toxic.lasts_attempt]
        observed = self._parts.proxies.apply(plan)
        armed = AttemptArmed(self._parts.clock(), _EPISODE, _ATTEMPT, 0.0, plan, latest.number)
        self._parts.history.write(self.run_id, armed)
        self._parts.history.record(attempt, "armed", observed)
        self._toxics_of = latest.number


def live_counts(logs: Path, run_id: str, lane: int) -> Mapping[str, Any]:
    """Return counts of the live run: requests by link, and how often each fault was met and injected.

    Raises ``OSError``, ``HistoryError``.
    """
    path = history_file(logs, run_id, "gateway", lane)
    requests: Counter[str] = Counter()
    met_counts: Counter[tuple[str, str]] = Counter()
    injected: Counter[tuple[str, str]] = Counter()
    for event in read_file(path) if path.exists() else ():
        if isinstance(event, Exchange):
            requests[event.link] += 1
            keys = [(fault.id or fault.kind, event.link) for fault in event.faults]
            met_counts.update(keys)
            injected.update(key for key, fault in zip(keys, event.faults, strict=True) if fault.injected)
    faults = [
        {"fault": fault, "link": link, "met": count, "injected": injected[fault, link]}
        for (fault, link), count in sorted(met_counts.items())
    ]
    return {"run": run_id, "requests": dict(requests), "faults": faults}
