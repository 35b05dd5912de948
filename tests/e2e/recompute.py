"""The figures of a summary, computed by numpy and scipy from the JSON lines of a run's history.

Nothing of wirefault is imported, so it cannot share an error with the product. The input is the verdicts: the
last ``episode_judged`` of each episode with the stages of each fault. Counting, rates, intervals and ranking
are all done here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy

TOOLS = ("search", "weather", "movie", "calendar", "calculator", "message", "translator")
NOT_IN_RATE = ("invalid", "unjudged")
Event = dict[str, Any]
# default values of omitted fields that are read here: docs/files.md
USUAL: dict[str, Event] = {
    "attempt_armed": {"toxics": []},
    "episode_judged": {"faults": []},
    "exchange": {
        "try_": 1,
        "request_complete": True,
        "faults": [],
        "tokens_in": None,
        "tokens_out": None,
        "first_token_ms": None,
    },
    "model_call": {"try_": 1, "error": None},
    "tool_try": {"try_": 1, "error": None, "route": "proxy"},
}
RowName = tuple[int, str, str, str]  # configuration, entry, source; and the kind if there is no entry


class Recomputed:
    """The figures of the run in that folder."""

    def __init__(self, folder: Path) -> None:
        lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
        self.events = [_whole(json.loads(line)) for line in lines]
        [self.started] = self.of("run_started")
        [self.finished] = self.of("run_finished")
        self.verdicts = {verdict["episode"]: verdict for verdict in self.of("episode_judged")}

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["event"] == kind]

    def outcomes(self) -> dict[str, int]:
        return dict(Counter(verdict["outcome"] for verdict in self.verdicts.values()))

    def rate(self, field: str) -> dict[str, float | int | None]:
        """Of ``outcome`` or of ``first_attempt_outcome``."""
        judged = _judged(verdict.get(field, verdict["outcome"]) for verdict in self.verdicts.values())
        k, n, planned = judged.count("success"), len(judged), int(self.started["prompts"])
        from scipy.stats import binomtest  # here, as it takes a second and each worker reads this file

        bounds = binomtest(k, n).proportion_ci(0.95, method="exact") if n else None
        return {
            "k": k,
            "n": n,
            "planned": planned,
            "rate": float(numpy.divide(k, n)) if n else None,
            "low": float(bounds.low) if bounds else None,
            "high": float(bounds.high) if bounds else None,
            "worst": float(numpy.divide(k, planned)) if planned else None,
            "best": float(numpy.divide(planned - (n - k), planned)) if planned else None,
        }

    def share(self, exposed: bool) -> dict[str, float | int | None]:
        """Over episodes with a delivered fault, or the others."""
        among = [v for v in self.verdicts.values() if any(f["delivered"] for f in v["faults"]) == exposed]
        judged = _judged(verdict["outcome"] for verdict in among)
        k, n = judged.count("success"), len(judged)
        return {"k": k, "n": n, "rate": float(numpy.divide(k, n)) if n else None}

    def latencies(self) -> dict[str, dict[str, float | int | None]]:
        tries = [("model", call) for call in self.of("model_call")]
        tries += [(tried["link"], tried) for tried in self.of("tool_try") if tried["route"] == "proxy"]
        return {link: _latency([tried for name, tried in tries if name == link]) for link, _ in tries}

    def arming(self) -> dict[str, float | int | None]:
        times = [armed["arming_ms"] for armed in self.of("attempt_armed")]
        return {"p50": _percentile(times, 50), "p99": _percentile(times, 99), "n": len(times)}

    def usage(self) -> dict[str, Any]:
        requests = [exchange for exchange in self.of("exchange") if exchange["link"] == "model"]
        priced = [e for e in requests if e.get("tokens_in") is not None or e.get("tokens_out") is not None]
        prices = json.loads(self.started["settings"]["prices"] or "{}")
        costs = [
            numpy.dot([e[f"tokens_{way}"] or 0 for way in ("in", "out")], [price["input"], price["output"]])
            for e in priced
            if (price := prices.get(e["model"]))
        ]
        times = [e["first_token_ms"] for e in requests if e.get("first_token_ms") is not None]
        return {
            "replies": sum(e in priced or (e["status"] or 999) < 300 for e in requests),
            "with_usage": len(priced),
            "tokens_in": int(numpy.sum([e["tokens_in"] for e in priced])) if priced else None,
            "tokens_out": int(numpy.sum([e["tokens_out"] for e in priced])) if priced else None,
            "cost_usd": float(numpy.sum(costs)) / 1e6 if costs else None,
            "unpriced": sorted({e["model"] for e in priced} - set(prices)) if prices else [],
            "first_token_ms": {"p50": _percentile(times, 50), "p95": _percentile(times, 95), "n": len(times)},
        }

    def refused(self) -> dict[str, int]:
        return dict(Counter(event["why"] for event in self.of("tool_call_refused")))

    def failed_tries(self) -> set[tuple[Any, ...]]:
        """All that a fault must explain, or nothing does."""
        tools = [
            (e["episode"], e["attempt"], e["link"], e["call"], e["try_"], e["error"])
            for e in self.of("tool_try")
            if e["error"]
        ]
        models = [
            (e["episode"], e["attempt"], "model", e["ordinal"], e["try_"], e["error"])
            for e in self.of("model_call")
            if e["error"]
        ]
        return {*tools, *models}

    def remarks(self, unexplained: Sequence[object]) -> dict[str, int]:
        """Counts that the summary must mention, by the words of the remark."""
        episodes = {event["episode"] for event in self.of("episode_started")}
        counts = {
            "prompts not run": int(self.started["prompts"]) - len(self.verdicts),
            "failed tries that no fault explains": len(unexplained),
            "tool calls that the agent itself refused": sum(self.refused().values()),
            "requests at the gateway outside any episode": sum(
                exchange["episode"] not in episodes for exchange in self.of("exchange")
            ),
        }
        counts |= {f"prompts {name}": n for name, n in self.outcomes().items() if name in NOT_IN_RATE}
        ones = {"prompts": "prompt", "tries": "try", "calls": "call", "requests": "request"}
        return {
            " ".join(ones.get(word, word) for word in words.split()) if n == 1 else words: n
            for words, n in counts.items()
        }

    def headline(self) -> str:
        """As the console gives it."""
        rate, exposed = self.rate("outcome"), self.share(exposed=True)
        share = f"{round(100 * (rate['rate'] or 0))} % ({rate['k']} of {rate['n']}"
        judged = "" if rate["n"] == rate["planned"] else " judged"
        exposure = (
            f"of the {exposed['n']} that met a fault {exposed['k']}" if exposed["n"] else "none met a fault"
        )
        return f"{share}{judged}); {exposure}"

    # the tables of faults

    def faults(self) -> dict[RowName, dict[str, Any]]:
        """A row for each entry of the run's fault set, and for each kind that its settings drew besides."""
        records = [fault for verdict in self.verdicts.values() for fault in verdict["faults"]]
        by_row: dict[RowName, list[Event]] = {name: [] for name in self._entries()}
        for fault in records:
            by_row.setdefault(_row_name(fault), []).append(fault)
        return {name: self._row(name, faults) for name, faults in by_row.items()}

    def _row(self, name: RowName, records: Sequence[Event]) -> dict[str, Any]:
        """Counts that events of the wire contain come from those; later stages come from the records."""
        drawn = self._drawn(name) if name[2] == "toxic" else self._crossed(name)
        reached = Counter(record["stage"] for record in records)
        observed = reached["observed"]
        met_count = reached["met"] + reached["injected"] + observed if name[2] == "toxic" else drawn
        injected = observed if name[2] == "toxic" else self._crossed(name, injected=True)
        whys = Counter(record["why_not"] for record in records if record.get("why_not"))
        return {
            "eligible": self._eligible(name),
            "drawn": drawn,
            "armed": drawn,
            "met": met_count,
            "injected": injected,
            "observed": observed,
            "delivered": sum(record["delivered"] for record in records),
            "why_not": dict(whys),
        }

    def _entries(self) -> dict[RowName, Event]:
        chosen = json.loads(self.started["settings"]["faults"] or "{}")
        rows = {(0, entry["id"], "toxic", ""): entry for entry in chosen.get("toxics", [])}
        return rows | {(0, entry["id"], "fault", ""): entry for entry in chosen.get("faults", [])}

    def _drawn(self, name: RowName) -> int:
        toxics = [toxic for armed in self.of("attempt_armed") for toxic in armed["toxics"]]
        return sum(
            toxic["entry"] == name[1] and (bool(name[1]) or toxic["kind"] == name[3]) for toxic in toxics
        )

    def _crossed(self, name: RowName, injected: bool = False) -> int:
        faults = [
            fault for exchange in self.of("exchange") if exchange["episode"] for fault in exchange["faults"]
        ]
        mine = [
            fault for fault in faults if fault["id"] == name[1] and (fault["id"] or fault["kind"] == name[3])
        ]
        return sum(fault["injected"] for fault in mine) if injected else len(mine)

    def _eligible(self, name: RowName) -> int:
        entry = self._entries().get(name)
        if name[2] == "toxic":
            started = self.of("episode_started")
            needed = {event["episode"]: event.get("tool_links", TOOLS) for event in started}
            return sum(
                len(entry["links"] if entry else needed[attempt["episode"]])
                for attempt in self.of("attempt_armed")
            )
        whole = [e for e in self.of("exchange") if e["episode"] and e["request_complete"]]
        if entry is None:
            return sum(exchange["link"] in TOOLS for exchange in whole)
        return sum(_chooses(entry, exchange) for exchange in whole)


def _whole(event: Event) -> Event:
    return {**USUAL.get(event["event"], {}), **event}


def _chooses(entry: Event, exchange: Event) -> bool:
    """By its links, and by the method and the path, which are all that the presets select by."""
    only = {key: value for key, value in entry["only"].items() if value is not None}
    assert only.keys() <= {"method", "path"}
    path = exchange["target"].split("?")[0]
    return (
        exchange["link"] in entry["links"]
        and exchange["method"] == only.get("method", exchange["method"]).upper()
        and fnmatchcase(path, only.get("path", "*"))
    )


def _row_name(fault: Event) -> RowName:
    return fault["configuration"], fault["entry"], fault["source"], "" if fault["entry"] else fault["kind"]


def _judged(outcomes: Iterable[str]) -> list[str]:
    return [outcome for outcome in outcomes if outcome not in NOT_IN_RATE]


def _latency(tries: Sequence[Event]) -> dict[str, float | int | None]:
    times = [tried["ms"] for tried in tries if tried["error"] is None]
    percentiles = {f"p{percent}": _percentile(times, percent) for percent in (50, 95, 99)}
    return {**percentiles, "n": len(times), "failed": len(tries) - len(times)}


def _percentile(times: Sequence[float], percent: float) -> float | None:
    return float(numpy.percentile(times, percent, method="inverted_cdf")) if times else None
