"""Recompute figures of open episodes, of faults and of recovery from JSON lines, by numpy and scipy alone.

Like ``recompute``, whose formulas it uses, it imports nothing of Wirefault. It reads the gateway's requests:
the agent of such a history keeps no record, and no request has a toxic.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from tests.independent import recompute

Interval = tuple[float, float]
Row = dict[str, Any]
OPEN = ("invalid", "unjudged")
NOT_ASKED = "not_applicable"
MIN_SEEN = 5
"""So many episodes must show a value, or a mixed cluster, before it has an interval."""


@dataclass
class Request:
    """One request, as the gateway recorded it."""

    start: float
    end: float
    failed: bool
    same: object
    of_model: bool = False
    tokens: tuple[int, int] = (0, 0)
    """In and out."""


@dataclass
class Episode:
    """One episode by its events."""

    outcome: str
    world: str
    value: str
    delivered: int
    seconds: list[float] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    ended: float = 0.0
    shadows: set[tuple[str, str]] = field(default_factory=set)
    drawn: set[str] = field(default_factory=set)
    used: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The use of each budget that was spent, and its limit."""

    @property
    def tokens(self) -> int:
        return sum(sum(request.tokens) for request in self.requests)

    @property
    def is_complete(self) -> bool | None:
        """Whether it lacks neither an effect nor the value; None if nothing asks for it."""
        if self.world == self.value == NOT_ASKED:
            return None
        return self.world != "lost" and self.value != "none"

    @property
    def is_consistent(self) -> bool | None:
        """Whether its world has nothing twice, wrong or extra; None if nothing asks for it."""
        if self.world == NOT_ASKED:
            return None
        return self.outcome != "duplicate" and self.world not in ("duplicated", "wrong", "extra")

    @property
    def calls(self) -> list[list[Request]]:
        """The requests for the same until one works."""
        calls: list[list[Request]] = []
        for _, group in _groups(self.requests):
            call: list[Request] = []
            for request in group:
                call.append(request)
                if not request.failed:
                    calls.append(call)
                    call = []
            calls += [call] if call else []
        return calls

    @property
    def outages(self) -> list[tuple[float, bool]]:
        """The seconds of each failure until the same request worked, or the episode's end."""
        return [
            (call[-1].end - call[0].end, True) if not call[-1].failed else (self.ended - call[0].end, False)
            for call in self.calls
            if call[0].failed
        ]


def _groups(requests: Iterable[Request]) -> Iterator[tuple[object, Iterator[Request]]]:
    ordered = sorted(requests, key=lambda request: (str(request.same), request.start))
    return itertools.groupby(ordered, key=lambda request: request.same)


def read_arms(logs: Path, experiment: str) -> dict[str, dict[str, Episode]]:
    """The episodes of each arm by key; one that was run again counts by its first valid run."""
    verdict = json.loads((logs / "experiments" / experiment / "verdict.json").read_text())
    arms: dict[str, dict[str, Episode]] = {}
    for arm in verdict["arms"]:
        episodes = arms.setdefault(arm["arm"], {})
        for run in arm["run_ids"]:
            for key, episode in _read(logs / "runs" / run).items():
                if key not in episodes or episodes[key].outcome == "invalid":
                    episodes[key] = episode
    return arms


def _read(run: Path) -> dict[str, Episode]:
    events = [
        json.loads(line)
        for file in sorted(run.glob("*.jsonl"))
        for line in file.read_text().split("\n")
        if line
    ]
    of = {kind: [e for e in events if e["event"] == kind] for kind in {e["event"] for e in events}}
    episodes = {}
    for judged in of.get("episode_judged", []):
        delivered = sum(fault["delivered"] is True for fault in judged.get("faults", []))
        episodes[judged["episode"]] = Episode(
            judged["outcome"], judged.get("world", NOT_ASKED), judged.get("value", NOT_ASKED), delivered
        )
    for event in of.get("exchange", []):
        episode = episodes[event["episode"]]
        status = event.get("status")
        failed = status is None or status >= 400 or not event.get("reply_complete", True)
        same = event["link"], event["fingerprint"]
        end = event["start"] + event["ms"] / 1000
        of_model = event.get("dialect") == "openai_chat"
        tokens = event.get("tokens_in") or 0, event.get("tokens_out") or 0
        episode.requests.append(Request(event["start"], end, failed, same, of_model, tokens))
        episode.shadows |= {(each["arm"], each["id"]) for each in event.get("shadows", [])}
        episode.drawn |= {each["id"] for each in event.get("faults", [])}
    for event in of.get("budget_spent", []):
        episodes[event["episode"]].used[event["budget"]] = event["used"], event["limit"]
    for event in of.get("attempt_ended", []):
        episode = episodes[event["episode"]]
        episode.seconds.append(event["ms"] / 1000)
        episode.ended = max([event["end"], episode.ended, *(each.end for each in episode.requests)])
    return episodes


# -- intervals


def clustered(clusters: Sequence[tuple[int, int]], error: float) -> Interval:
    """Korn and Graubard's; a cluster counts once where fewer than five are mixed."""
    m, n, k = len(clusters), sum(size for _, size in clusters), sum(count for count, _ in clusters)
    size = float(n)
    if n != m:
        if m < 2:
            return 0.0, 1.0
        p, residuals = k / n, np.array([count - k / n * size for count, size in clusters])
        of_mean = m / (m - 1) * float((residuals**2).sum()) / n**2
        size = float(m)
        if of_mean > 0 and p * (1 - p) > 0:
            t_n, t_m = scipy.stats.t.ppf(1 - error, [n - 1, m - 1])
            size = min(p * (1 - p) / of_mean * float(t_n / t_m) ** 2, float(n))
        if min(sum(c < s for c, s in clusters), sum(c > 0 for c, _ in clusters)) < MIN_SEEN:
            size = min(size, float(m))
    return recompute.rate_interval(k / n * size, size, error)


def ratio_interval(above: Sequence[float], below: Sequence[float], error: float) -> Interval:
    """Studentised bootstrap of a ratio of sums, with Cochran's standard error."""
    a, b = np.array(above, dtype=float), np.array(below, dtype=float)
    n = len(a)
    if n < 20:
        return -math.inf, math.inf

    def spread_of(a: Any, b: Any, ratio: Any) -> Any:
        squares = ((a - ratio * b) ** 2).sum(axis=-1)
        return np.sqrt(squares * n / (n - 1)) / b.sum(axis=-1)

    ratio = a.sum() / b.sum()
    spread = float(spread_of(a, b, ratio))
    if spread < 1e-12 * abs(ratio):
        return float(ratio), float(ratio)
    draws = random.Random(1)
    chosen = np.array([draws.choices(range(n), k=n) for _ in range(999)])
    again = a[chosen].sum(axis=1) / b[chosen].sum(axis=1)
    errors = spread_of(a[chosen], b[chosen], again[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.where(errors > 1e-9 * spread, (again - ratio) / errors, np.sign(again - ratio) * np.inf)
    drawn = np.sort(np.nan_to_num(drawn, nan=0.0, posinf=np.inf, neginf=-np.inf))
    rank = math.floor(0.75 * error * 1000 + 1e-9)
    low, high = (drawn[rank - 1], drawn[-rank]) if rank else (-math.inf, math.inf)
    return float(ratio - high * spread), float(ratio - low * spread)


def time_percentile(times: dict[str, list[tuple[float, bool]]], percent: float, error: float) -> Row:
    """Kaplan and Meier's, with log-log limits whose variance sums the influence of each episode."""
    flat = [(seconds, ended, key) for key, each in times.items() for seconds, ended in each]
    seconds = np.array([each[0] for each in flat])
    ended = np.array([each[1] for each in flat])
    keys = np.array([each[2] for each in flat])
    survival, influence = 1.0, np.zeros(len(flat))
    points = []
    for at in np.unique(seconds[ended]):
        risk, now = seconds >= at, ended & (seconds == at)
        at_risk, events = int(risk.sum()), int(now.sum())
        survival *= 1 - events / at_risk
        left, units = at_risk - events, len(set(keys[risk]))
        variance = math.inf
        if left:
            influence = influence + now / left - risk * events / (at_risk * left)
            by_key = np.array([influence[keys == key].sum() for key in set(keys)])
            groups = len(by_key)
            variance = groups / (groups - 1) * float((by_key**2).sum())
        points.append((float(at), survival, *_limits(survival, variance, units, error)))
    share = 1 - percent / 100 + 1e-12

    def first(column: int) -> float | None:
        return next((point[0] for point in points if point[column] <= share), None)

    low, high = (first(2) or 0.0, first(3)) if len(times) >= 20 else (0.0, None)
    return {"estimate": first(1), "low": low, "high": high, "n": len(flat)}


def _limits(survival: float, variance: float, units: int, error: float) -> Interval:
    if survival <= 1e-15:
        return 0.0, float(1 - error ** (1 / units))
    spread = math.exp(float(scipy.stats.norm.ppf(1 - error)) * math.sqrt(variance) / -math.log(survival))
    return survival**spread, survival ** (1 / spread)


# -- figures


def recovery_measures(episodes: dict[str, Episode], error: float) -> Iterator[tuple[str, Row]]:
    """Of an arm whose episodes are all valid."""
    outages = {key: each.outages for key, each in episodes.items() if each.outages}
    times = [seconds for each in outages.values() for seconds, _ in each]
    is_censored = not all(ended for each in outages.values() for _, ended in each)
    sums = [[seconds for seconds, _ in each] for each in outages.values()]
    low, high = ratio_interval([sum(each) for each in sums], [len(each) for each in sums], error)
    mttr = {"estimate": float(np.mean(times)), "low": max(low, 0.0), "high": high, "n": len(outages)}
    yield "mttr", mttr | ({"estimate": None, "high": None} if is_censored else {})
    for percent in (50, 90, 95, 99):
        yield f"mttr_p{percent}", time_percentile(outages, percent, error)
    recovered = [(sum(ended for _, ended in each), len(each)) for each in outages.values()]
    yield "recovery_rate", _share(recovered, error)
    every = episodes.values()
    calls = [(sum(not call[-1].failed for call in each.calls), len(each.calls)) for each in every]
    yield "availability", _share(calls, error)
    reached = [each for each in every if each.delivered]
    worked = [(sum(not r.failed for r in each.requests), len(each.requests)) for each in reached]
    yield "recovery_efficiency", _share(worked, error)
    failed = [[call for call in each.calls if call[0].failed] for each in every]
    repeated = [(sum(map(len, each)), len(each)) for each in failed if each]
    low, high = ratio_interval(*zip(*repeated, strict=True), error)
    factor = sum(above for above, _ in repeated) / sum(below for _, below in repeated)
    yield "amplification", {"estimate": factor, "low": max(low, 1.0), "high": high, "n": len(repeated)}
    costs = [sum(r.end - r.start for r in each.requests if r.failed) for each in every]
    yield "cost_of_faults_seconds", _rare(costs, error)
    right = [each.value == "right" for each in reached if each.value != NOT_ASKED]
    complete = [known for each in reached if (known := each.is_complete) is not None]
    consistent = [known for each in reached if (known := each.is_consistent) is not None]
    answers = {"correctness": right, "completeness": complete, "consistency": consistent}
    for name, known in answers.items():
        if known:
            yield f"recovery_{name}", _share([(answer, 1) for answer in known], error)


def cost_measures(
    episodes: dict[str, Episode], price: tuple[float, float], limit: int, error: float
) -> Iterator[tuple[str, Row]]:
    """Of an arm whose episodes are all valid. ``price``: USD for a million tokens in, and out.

    ``limit``: the budget of an episode, in tokens.
    """
    every = episodes.values()
    n = len(episodes)
    for name, costs in _costs(episodes, price).items():
        yield name, _ends(float(np.mean(costs)), recompute.mean_interval(costs, error), n)
    for name, costs in _costs(episodes, price, failed=True).items():
        yield f"cost_of_faults_{'usd' if name == 'cost' else name}", _rare(costs, error)
    beyond = [max(0.0, each.tokens / limit - 1) for each in every]
    yield "budget_overshoot", _rare(beyond, error)
    spent = sum(len(each.used) for each in every)
    yield "budgets_spent", {"estimate": spent, "bounds": [spent, spent]}


def rises(
    control: dict[str, Episode], arm: dict[str, Episode], price: tuple[float, float], error: float
) -> Iterator[tuple[str, Row]]:
    """The rise of each cost per episode against the same episodes of the control."""
    before, after = (_costs({key: side[key] for key in arm}, price) for side in (control, arm))
    for name, costs in after.items():
        differences = [cost - other for cost, other in zip(costs, before[name], strict=True)]
        low, high = recompute.mean_interval(differences, error, -math.inf)
        if np.count_nonzero(differences) < MIN_SEEN:
            low, high = -math.inf, math.inf
        yield name, _ends(float(np.mean(differences)), (low, high), len(differences))


def _costs(
    episodes: dict[str, Episode], price: tuple[float, float], *, failed: bool = False
) -> dict[str, list[float]]:
    """Tokens and USD of each episode; ``failed``: of its failed tries alone."""
    tried = [[r for r in each.requests if r.failed or not failed] for each in episodes.values()]
    usd = [
        sum(tokens * usd / 1e6 for r in each for tokens, usd in zip(r.tokens, price, strict=True))
        for each in tried
    ]
    return {"tokens": [float(sum(sum(r.tokens) for r in each)) for each in tried], "cost": usd}


def _rare(values: Sequence[float], error: float) -> Row:
    """A mean of which most values may be 0: it has no ends until five episodes had another one."""
    ends = recompute.mean_interval(list(values), error) if np.count_nonzero(values) >= MIN_SEEN else None
    return _ends(float(np.mean(values)), ends or (0.0, math.inf), len(values))


def slowdown(control: dict[str, Episode], arm: dict[str, Episode], error: float) -> Row:
    """The seconds of the reached episodes by the seconds of the same episodes in the control."""
    reached = [key for key, each in arm.items() if each.delivered and key in control]
    slow, quick = ([sum(side[key].seconds) for key in reached] for side in (arm, control))
    low, high = ratio_interval(slow, quick, error)
    return _ends(sum(slow) / sum(quick), (max(low, 0.0), high), len(reached))


def error_budget(measure: Row, objective: float) -> Row:
    """The failures that the objective allows the measure, and those that were."""
    n, allowed = measure["n"], 1 - objective
    failed = round((1 - measure["estimate"]) * n)
    burn = [(1 - measure[end]) / allowed for end in ("high", "low")]
    return {
        "objective": objective,
        "n": n,
        "total": allowed * n,
        "consumed": failed,
        "remaining": 1 - failed / (allowed * n),
        "burn_rate": failed / (allowed * n),
        "burn_rate_interval": burn,
    }


def _share(clusters: Sequence[tuple[int, int]], error: float) -> Row:
    known = [each for each in clusters if each[1]]
    k, n = (sum(each[side] for each in known) for side in (0, 1))
    return _ends(k / n, clustered(known, error), n)


def _ends(estimate: float | None, ends: Interval, n: int) -> Row:
    return {"estimate": estimate, "low": ends[0], "high": ends[1], "n": n}


def open_measures(episodes: dict[str, Episode], error: float) -> Iterator[tuple[str, Row]]:
    """Of an arm with episodes that are invalid or not judged: both ends count them."""
    outcomes = [each.outcome for each in episodes.values()]
    n, k = len(outcomes), outcomes.count("success")
    open_ = sum(outcome in OPEN for outcome in outcomes)
    ends = recompute.rate_interval(k, n, error)[0], recompute.rate_interval(k + open_, n, error)[1]
    yield "success_rate", {**_ends(None if open_ else k / n, ends, n), "bounds": [k / n, (k + open_) / n]}
    yield "success", {"estimate": None if open_ else k, "bounds": [k, k + open_]}
    yield "failures", {"estimate": None if open_ else n - k, "bounds": [n - k - open_, n - k]}
    for outcome in ("crash", "invalid"):  # an episode that no oracle judges did not crash
        count, invalid = outcomes.count(outcome), outcomes.count("invalid")
        could = invalid if outcome == "crash" else open_ - invalid
        yield outcome, {"bounds": [count, count + could]}
    yield "success_share", {"estimate": k / (n - open_), "bounds": [k / (n - open_)] * 2}
    valid = [each for each in episodes.values() if each.outcome != "invalid"]
    missing = n - len(valid)
    seconds = [sum(each.seconds) for each in valid]
    low, high = recompute.mean_interval(seconds, error)
    mean, ends = sum(seconds) / n, (low * len(valid) / n, math.inf if missing else high)
    row = _ends(None if missing else mean, ends, len(valid))
    yield "seconds", {**row, "bounds": [mean, None if missing else mean]}
    times = [each for episode in valid for each in episode.seconds]
    for percent in (50, 95):
        filled = [[*times, *[end] * missing] for end in (0.0, math.inf)]
        values = [float(np.percentile(each, percent, method="inverted_cdf")) for each in filled]
        ends = tuple(recompute.percentile_interval(each, percent / 100, error) for each in filled)
        row = _ends(values[0] if values[0] == values[1] else None, (ends[0][0], ends[1][1]), len(filled[0]))
        yield f"p{percent}", {**row, "bounds": values}


def loss(before: dict[str, Episode], after: dict[str, Episode], error: float) -> Row:
    """The paired loss whatever the open episodes were: every number of each kind of pair is tried."""
    pairs = [(_success(before[key]), _success(each)) for key, each in after.items() if key in before]
    closed = [(bool(b), bool(a)) for b, a in pairs if None not in (b, a)]
    either = (True, False)
    kinds = [
        (either if b is None else (b,), either if a is None else (a,)) for b, a in pairs if None in (b, a)
    ]
    counts = {(0, 0, 0)}  # pairs that were lost, won, and neither
    for firsts, seconds in kinds:
        options = {(b and not a, a and not b) for b in firsts for a in seconds}
        counts = {(x + lost, y + won, z + (lost == won)) for x, y, z in counts for lost, won in options}
    lost, won = (sum(pair == each for pair in closed) for each in ((True, False), (False, True)))
    intervals = [_loss_ends(lost + x, won + y, len(pairs), error) for x, y, _ in counts]
    ends = min(low for low, _ in intervals), max(high for _, high in intervals)
    return _ends(None if kinds else (lost - won) / len(pairs), ends, len(pairs))


def _loss_ends(lost: int, won: int, n: int, error: float) -> Interval:
    losses = [1.0] * lost + [-1.0] * won + [0.0] * (n - lost - won)
    return recompute.loss_interval({str(place): each for place, each in enumerate(losses)}, "these", error)


def _success(episode: Episode | None) -> bool | None:
    return None if episode is None or episode.outcome in OPEN else episode.outcome == "success"


def effects(control: dict[str, Episode], arm: dict[str, Episode], name: str, error: float) -> list[Row]:
    """Each fault in the episodes of which the control recorded that the arm draws it."""
    planned: dict[str, set[str]] = {}
    for key, episode in control.items():
        for of_arm, fault in episode.shadows:
            if of_arm == name:
                planned.setdefault(fault, set()).add(key)
    rows = []
    for fault, keys in sorted(planned.items()):
        others = set[str]().union(*(each for other, each in planned.items() if other != fault))
        pairs = [(_success(control.get(key)), _success(arm.get(key))) for key in keys]
        known = [(bool(before), bool(after)) for before, after in pairs if None not in (before, after)]
        lost, won = (sum(pair == each for pair in known) for each in ((True, False), (False, True)))
        low, high = _loss_ends(lost, won, len(known), error)
        rise = {"value": (won - lost) / len(known), "low": -high, "high": -low, "n": len(known)}
        judged = [[pair[side] for pair in pairs if pair[side] is not None] for side in (0, 1)]
        counts = {
            "planned": len(keys),
            "drawn": sum(fault in arm[key].drawn for key in keys if key in arm),
            "alone": len(keys - others),
            "open": len(pairs) - len(known),
            "control": judged[0].count(True),
            "control_judged": len(judged[0]),
            "struck": judged[1].count(True),
            "struck_judged": len(judged[1]),
        }
        rows.append({"arm": name, "fault": fault, **counts, "success": rise if known else None})
    return rows


def differing(recorded: Any, ours: Any, place: str = "") -> Iterator[str]:
    """Each number that is not the same, as far as ours has it; an infinite one is null there."""
    if isinstance(ours, dict):
        for name, each in ours.items():
            yield from differing(recorded[name], each, f"{place} {name}")
    elif isinstance(ours, list | tuple):
        for place_in, (known, each) in enumerate(zip(recorded, ours, strict=True)):
            yield from differing(known, each, f"{place} {place_in}")
    elif isinstance(ours, str):
        yield from [f"{place} {recorded}, not {ours}"] if recorded != ours else []
    else:
        number = None if ours is None or not math.isfinite(ours) else float(ours)
        same = recorded is None if number is None else recorded is not None
        if not same or (
            number is not None and not math.isclose(recorded, number, rel_tol=1e-6, abs_tol=1e-7)
        ):
            yield f"{place} {recorded}, not {number}"
