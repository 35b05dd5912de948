"""Recompute every figure and verdict of an experiment from its histories, by numpy and scipy alone.

``python tests/independent/recompute.py LOGS EXPERIMENT`` prints each difference from its verdict.json and
exits with 1 if there is any. It imports nothing of Wirefault: it reads JSON, and its statistics are scipy's.
It knows statements of one measure (success_rate, degradation, pass^k, pass@k, consistency, p50, p95, p99,
seconds, tokens, model_requests, and the added_ ones of these three), counts of outcomes, and experiments
until decided about success_rate.
"""

from __future__ import annotations

import functools
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy

Interval = tuple[float, float]
OPEN = ("invalid", "unjudged")
STATEMENT = re.compile(
    r"(no )?(?:mean\()?([a-z]\w*(?:[\^@]\d+)?)\)?(?: (<=|>=|==|<|>) ([\d.]+) ?(%|s)?(all)?)?"
)


@dataclass
class Episode:
    """The facts of an episode, from its events."""

    outcome: str = ""
    seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    model_requests: int = 0
    faults: int = 0


@dataclass
class Arm:
    """An arm with its episodes by key."""

    name: str
    hypothesis: list[str]
    episodes: dict[str, Episode]
    """In the order of the plan."""

    def succeeded(self) -> dict[str, bool]:
        assert not any(each.outcome in OPEN for each in self.episodes.values()), "open episodes"
        return {key: each.outcome == "success" for key, each in self.episodes.items()}


def read_arms(logs: Path, experiment: str) -> list[Arm]:
    """The arms of an experiment. An episode that was run again counts by its last run."""
    folder = logs / "experiments" / experiment
    plan, verdict, prompts = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("plan", "verdict", "prompts")
    )
    keys = [prompt["id"] for prompt in prompts]
    runs = {arm["arm"]: arm["run_ids"] for arm in verdict["arms"]}
    arms = []
    for arm in plan["arms"]:
        episodes: dict[str, Episode] = {}
        for run in runs.get(arm["arm"], []):
            episodes |= read_episodes(logs / "runs" / run)
        ordered = {key: episodes[key] for key in keys if key in episodes}
        arms.append(Arm(arm["arm"], arm["hypothesis"], ordered))
    return arms


def read_episodes(run: Path) -> dict[str, Episode]:
    episodes: dict[str, Episode] = {}
    lines = [
        json.loads(line)
        for file in sorted(run.glob("*.jsonl"))
        for line in file.read_text().split("\n")
        if line
    ]
    for event in lines:
        if "episode" not in event:
            continue
        episode = episodes.setdefault(event["episode"], Episode())
        if event["event"] == "episode_judged":
            episode.outcome = event["outcome"]
        elif event["event"] == "attempt_ended":
            episode.seconds.append(event["ms"] / 1000)
        elif event["event"] == "exchange":
            episode.faults += sum(fault.get("injected", False) for fault in event.get("faults", []))
            dialect = event.get("dialect")
            if (dialect not in ("http", "mcp")) if dialect else event["link"] == "model":
                episode.model_requests += 1
                episode.tokens += (event.get("tokens_in") or 0) + (event.get("tokens_out") or 0)
    return {key: each for key, each in episodes.items() if each.outcome}


# -- intervals, each with ``error`` on each side


def rate_interval(k: float, n: float, error: float) -> Interval:
    """Clopper and Pearson's, by scipy."""
    low = scipy.stats.beta.ppf(error, k, n - k + 1) if k > 0 else 0.0
    high = scipy.stats.beta.ppf(1 - error, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def prompt_of(key: str) -> str:
    return re.sub(r"\.r\d+$", "", key)


def effective_size(values: dict[str, float], variance: float, error: float) -> float:
    """Korn and Graubard's, with prompts as clusters."""
    clusters: dict[str, list[float]] = {}
    for key, value in values.items():
        clusters.setdefault(prompt_of(key), []).append(value)
    m, n, mean = len(clusters), len(values), float(np.mean(list(values.values())))
    if m == n:
        return float(n)
    residuals = np.array([sum(each) - mean * len(each) for each in clusters.values()])
    of_mean = m / (m - 1) * float((residuals**2).sum()) / n**2
    if of_mean < 1e-18 or variance < 1e-18:
        return float(m)
    t_n, t_m = scipy.stats.t.ppf(1 - error, [n - 1, m - 1])
    return min(variance / of_mean * float(t_n / t_m) ** 2, float(n))


def success_interval(arm: Arm, population: str, error: float) -> Interval:
    values = {key: float(each) for key, each in arm.succeeded().items()}
    rate = float(np.mean(list(values.values())))
    n = float(len(values))
    if population == "like_these":
        n = effective_size(values, rate * (1 - rate), error)
    return rate_interval(rate * n, n, error)


def paired(control: Arm, arm: Arm) -> dict[str, float]:
    before, after = control.succeeded(), arm.succeeded()
    return {key: float(before[key]) - float(each) for key, each in after.items() if key in before}


def loss_interval(losses: dict[str, float], population: str, error: float) -> Interval:
    """Tango's score interval with half a pair of correction; 0 is excluded only if McNemar's test does."""
    values = np.array(list(losses.values()))
    lost, won, n = float((values > 0).sum()), float((values < 0).sum()), float(len(values))
    discordant = lost, won
    if population == "like_these":
        size = effective_size(losses, float(values.var()), error)
        if len({prompt_of(key) for key in losses}) < len(values):
            sums: dict[str, float] = {}
            for key, value in losses.items():
                sums[prompt_of(key)] = sums.get(prompt_of(key), 0.0) + value
            discordant = float(sum(s > 0 for s in sums.values())), float(sum(s < 0 for s in sums.values()))
        lost, won, n = lost * size / n, won * size / n, size
    low, high = -highest(won, lost, n, error), highest(lost, won, n, error)
    total = int(sum(discordant))
    if total == 0 or min(scipy.stats.binom.sf(np.array(discordant) - 1, total, 0.5)) > error:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def highest(gains: float, losses: float, n: float, error: float) -> float:
    """The upper limit of the share of gains minus losses."""
    if not losses:
        return rate_interval(gains, n, error)[1]

    def excess(difference: float) -> float:
        def slope(rate: float) -> float:  # of the likelihood, with the difference held fixed
            ties = 1 - difference - 2 * rate
            return gains / (rate + difference) + losses / rate - 2 * (n - gains - losses) / ties

        least, most = max(0.0, -difference), (1 - difference) / 2
        width = most - least
        ends = least + 1e-13 * width, most - 1e-13 * width
        rate = scipy.optimize.brentq(slope, *ends, xtol=1e-16) if slope(ends[0]) > 0 else least
        spread = math.sqrt(n * (2 * rate + difference * (1 - difference)))
        return float((n * difference - (gains - losses) - 0.5) / spread - scipy.stats.norm.ppf(1 - error))

    limit = float(scipy.optimize.brentq(excess, (gains - losses) / n, 1 - 1e-12, xtol=1e-15))
    return limit if gains else max(limit, -rate_interval(losses, n, error)[0])


def percentile_interval(values: list[float], share: float, error: float) -> Interval:
    """Order statistics: the number of values below the percentile is binomial."""
    ordered, n = sorted(values), len(values)
    ranks = np.arange(1, n + 1)
    low = ranks[scipy.stats.binom.sf(ranks - 1, n, share) >= 1 - error]
    high = ranks[scipy.stats.binom.cdf(ranks - 1, n, share) >= 1 - error]
    return (
        float(ordered[low[-1] - 1]) if len(low) else 0.0,
        float(ordered[high[0] - 1]) if len(high) else math.inf,
    )


def mean_interval(values: list[float], error: float, lowest: float = 0.0) -> Interval:
    """Studentised bootstrap: 999 resamples by Python's generator with seed 1, ends at 3/4 of the error."""
    data = np.array(values, dtype=float)
    n, mean = len(data), float(np.mean(values))
    if n < 20:
        return lowest, math.inf
    spread = float(scipy.stats.sem(data))
    if spread < 1e-12:
        return mean, mean
    draws = random.Random(1)
    again = np.array([draws.choices(values, k=n) for _ in range(999)], dtype=float)
    errors = scipy.stats.sem(again, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.sort(
            np.nan_to_num((again.mean(axis=1) - mean) / errors, nan=0.0, posinf=np.inf, neginf=-np.inf)
        )
    rank = math.floor(0.75 * error * 1000 + 1e-9)
    low, high = (statistics[rank - 1], statistics[-rank]) if rank else (-math.inf, math.inf)
    return max(mean - float(high) * spread, lowest), mean - float(low) * spread


def tries(arm: Arm) -> list[tuple[int, int]]:
    """The successes and the tries at each prompt."""
    prompts: dict[str, list[bool]] = {}
    for key, succeeded in arm.succeeded().items():
        prompts.setdefault(prompt_of(key), []).append(succeeded)
    return [(sum(each), len(each)) for each in prompts.values()]


def mean_rate_interval(prompts: list[tuple[int, int]], error: float) -> Interval:
    """Each prompt counts with as many tries as the one with the fewest."""
    least = min(n for _, n in prompts)
    expected, total = sum(k / n * least for k, n in prompts), least * len(prompts)
    return (
        rate_interval(math.floor(expected + 1e-9), total, error)[0],
        rate_interval(math.ceil(expected - 1e-9), total, error)[1],
    )


def pass_figures(measure: str, arm: Arm, population: str) -> Figures:
    """Of repeats: pass^k and pass@k by Jensen and Bonferroni, for other prompts by the sum over prompts."""
    is_any, k = "@" in measure, int(re.split(r"[\^@]", measure)[1])
    prompts = [(n - c if is_any else c, n) for c, n in tries(arm) if n >= k]
    values = [float(scipy.special.comb(c, k) / scipy.special.comb(n, k)) for c, n in prompts]
    value = float(np.mean(values))

    def interval(error: float) -> Interval:
        if population == "like_these":
            low, high = rate_interval(sum(values), len(values), error)
        else:
            low = mean_rate_interval(prompts, error)[0] ** k
            own = [rate_interval(c, n, error / 2 / len(prompts))[1] ** k for c, n in prompts]
            high = min(mean_rate_interval(prompts, error / 2)[1], float(np.mean(own)))
            if k == 1 or len(prompts) == 1:
                high = mean_rate_interval(prompts, error)[1] ** k
        low, high = min(low, value), max(high, value)
        return (1 - high, 1 - low) if is_any else (low, high)

    return Figures(1 - value if is_any else value, interval, sum(n for _, n in prompts))


def consistency_figures(arm: Arm, population: str) -> Figures:
    prompts = [(c, n) for c, n in tries(arm) if n >= 2]
    values = [(c * (c - 1) + (n - c) * (n - c - 1)) / (n * (n - 1)) for c, n in prompts]
    value = float(np.mean(values))

    def lowest(ends: Interval) -> float:
        nearest = min(max(0.5, ends[0]), ends[1])
        return nearest**2 + (1 - nearest) ** 2

    def interval(error: float) -> Interval:
        if population == "like_these":
            low, high = rate_interval(sum(values), len(values), error)
        else:
            own = [rate_interval(c, n, error / 2 / len(prompts)) for c, n in prompts]
            low = max(lowest(mean_rate_interval(prompts, error / 2)), float(np.mean([*map(lowest, own)])))
            high = float(np.mean([max(end**2 + (1 - end) ** 2 for end in ends) for ends in own]))
        return min(low, value), max(high, value)

    return Figures(value, interval, sum(n for _, n in prompts))


# -- statements


@dataclass
class Statement:
    """``measure sign threshold``, or a count of outcomes."""

    text: str
    measure: str
    sign: str
    threshold: Fraction
    of_all: bool = False

    def holds(self, low: float, high: float) -> bool | None:
        """Whether it holds in the whole interval, in no part of it, or neither."""
        number = float(self.threshold)
        truths = {_compare(end, self.sign, number) for end in (low, high)}
        return truths.pop() if len(truths) == 1 else None


def _compare(value: float, sign: str, number: float) -> bool:
    results = {"<=": value <= number, "<": value < number, ">=": value >= number, ">": value > number}
    return {**results, "==": value == number}[sign]


def parse(text: str) -> Statement:
    match = STATEMENT.fullmatch(text)
    assert match is not None, f"unknown statement {text!r}"
    if match[1]:
        return Statement(text, match[2], "==", Fraction(0))
    return Statement(
        text, match[2], match[3], Fraction(match[4] or 0) / (100 if match[5] == "%" else 1), bool(match[6])
    )


@dataclass
class Figures:
    """An estimate and its interval by the error on each side."""

    estimate: float | None
    interval: Callable[[float], Interval]
    n: int


MEANS = "seconds|tokens|model_requests"


def per_episode(measure: str, arm: Arm) -> dict[str, float]:
    return {key: float(np.sum(getattr(each, measure))) for key, each in arm.episodes.items()}


def rise_interval(rises: list[float], error: float) -> Interval:
    """A rise that fewer than five pairs show has no ends."""
    if np.count_nonzero(rises) < 5:
        return -math.inf, math.inf
    return mean_interval(rises, error, -math.inf)


def figures_of(measure: str, arm: Arm, control: Arm, population: str) -> Figures:
    if measure == "success_rate":
        rate = float(np.mean(list(arm.succeeded().values())))
        return Figures(rate, lambda error: success_interval(arm, population, error), len(arm.episodes))
    if measure == "degradation":
        losses = paired(control, arm)
        mean = sum(losses.values()) / len(losses)
        return Figures(mean, lambda error: loss_interval(losses, population, error), len(losses))
    if "^" in measure or "@" in measure:
        return pass_figures(measure, arm, population)
    if measure == "consistency":
        return consistency_figures(arm, population)
    if percentile := re.fullmatch(r"p(\d+)", measure):
        seconds = [each for episode in arm.episodes.values() for each in episode.seconds]
        return Figures(
            None, lambda error: percentile_interval(seconds, int(percentile[1]) / 100, error), len(seconds)
        )
    if added := re.fullmatch(f"added_({MEANS})", measure):
        before, after = (per_episode(added[1], side) for side in (control, arm))
        rises = [value - before[key] for key, value in after.items() if key in before]
        return Figures(float(np.mean(rises)), lambda error: rise_interval(rises, error), len(rises))
    values = list(per_episode(measure, arm).values())
    return Figures(float(np.mean(values)), lambda error: mean_interval(values, error), len(values))


# -- verdicts

VERDICTS = {True: "held", False: "deviated", None: "unknown"}
Row = dict[str, Any]


def recompute(logs: Path, experiment: str) -> tuple[str, list[Row]]:
    """The verdict, and each check: arm, statement, verdict, and for a claim its figures."""
    plan = json.loads((logs / "experiments" / experiment / "plan.json").read_text())["experiment"]
    arms = read_arms(logs, experiment)
    control, population = arms[0], plan.get("population", "these")
    error = (1 - _confidence(plan.get("confidence", 0.9))) / 2
    if plan.get("until_decided"):
        rows = [row for arm in arms for row in _decided_rows(arm, control, error, plan)]
    else:
        rows = _shared_error([row for arm in arms for row in _rows(arm, control, population)], error)
    return _verdict(rows), rows


def _confidence(value: Any) -> float:
    return float(str(value).removesuffix("%")) / 100 if isinstance(value, str) else float(value)


def _verdict(rows: list[Row]) -> str:
    if any(row["arm"] == "control" and row["verdict"] != "held" for row in rows):
        return "unknown"
    verdicts = {row["verdict"] for row in rows}
    return next((each for each in ("deviated", "unknown") if each in verdicts), "held")


def _rows(arm: Arm, control: Arm, population: str) -> Iterator[Row]:
    """Checks decided, and claims with their figures."""
    if arm.name.startswith("control."):  # perturbed prompts without faults: nothing is demanded
        return
    calm = arm.name in ("control", "control-after")
    if not calm:
        faults = sum(each.faults for each in arm.episodes.values())
        yield {"arm": arm.name, "statement": "faults_delivered > 0", "verdict": VERDICTS[faults > 0 or None]}
    for text in arm.hypothesis:
        statement = parse(text)
        estimated = rf"success_rate|degradation|consistency|p\d+|pass[\^@]\d+|(added_)?({MEANS})"
        if re.fullmatch(estimated, statement.measure):
            figures = figures_of(statement.measure, arm, control, population)
            yield {"arm": arm.name, "statement": text, "claim": statement, "figures": figures}
        else:
            yield {"arm": arm.name, "statement": text, "verdict": VERDICTS[_count_holds(statement, arm)]}
    if arm.name == "control-after":
        losses = np.array(list(paired(control, arm).values()))
        lost, won = int((losses > 0).sum()), int((losses < 0).sum())
        worse = lost > 0 and scipy.stats.binom.sf(lost - 1, lost + won, 0.5) <= 0.01
        verdict = "deviated" if worse else "held"
        yield {"arm": arm.name, "statement": "not worse than before the faults", "verdict": verdict}


def _count_holds(statement: Statement, arm: Arm) -> bool:
    if statement.measure == "success_share":
        return _compare(
            float(np.mean(list(arm.succeeded().values()))), statement.sign, float(statement.threshold)
        )
    outcomes = [each.outcome for each in arm.episodes.values()]
    count = (
        len(outcomes) - outcomes.count("success")
        if statement.measure == "failures"
        else outcomes.count(statement.measure)
    )
    return _compare(count, statement.sign, len(outcomes) if statement.of_all else float(statement.threshold))


def _shared_error(rows: list[Row], error: float) -> list[Row]:
    """Decide the claims: held at the error, deviated at its part by Holm, over all arms with faults."""
    claims = [row for row in rows if "claim" in row]
    sharing = [row for row in claims if row["arm"] != "control"]

    def deviates(row: Row, at: float) -> bool:
        return row["claim"].holds(*row["figures"].interval(at)) is False

    deviated: dict[int, float] = {}
    while len(deviated) < len(sharing):
        share = error / (len(sharing) - len(deviated))
        new = [id(row) for row in sharing if id(row) not in deviated and deviates(row, share)]
        if not new:
            break
        deviated |= dict.fromkeys(new, share)
    left = error / max(len(sharing) - len(deviated), 1)
    for row in claims:
        truth = row["claim"].holds(*row["figures"].interval(error))
        at = error
        if truth is False and row["arm"] != "control":
            at = deviated.get(id(row), left)
            truth = False if id(row) in deviated else None
        low, high = row["figures"].interval(at)
        row |= {"verdict": VERDICTS[truth], "low": low, "high": high, "confidence": 1 - 2 * at}
        row |= {"estimate": row["figures"].estimate, "n": row["figures"].n}
    return rows


# -- until decided


def evidence(k: int, n: int, threshold: float) -> tuple[float, float]:
    """Logarithms of the e-values for a rate above and below the threshold, by scipy's beta function."""
    at = k * math.log(threshold) + (n - k) * math.log1p(-threshold)
    whole = scipy.special.betaln(k + 1, n - k + 1) - at
    above = scipy.stats.beta.logsf(threshold, k + 1, n - k + 1) + whole - math.log1p(-threshold)
    below = scipy.stats.beta.logcdf(threshold, k + 1, n - k + 1) + whole - math.log(threshold)
    if n <= 200:  # a second time by quadrature
        likelihood = lambda p: math.exp(scipy.special.xlogy(k, p) + scipy.special.xlog1py(n - k, -p) - at)  # noqa: E731
        area, _ = scipy.integrate.quad(likelihood, threshold, 1)
        assert math.isclose(math.log(area / (1 - threshold)), above, rel_tol=1e-4, abs_tol=1e-4)
    return float(above), float(below)


def _decided_rows(arm: Arm, control: Arm, error: float, plan: Row) -> Iterator[Row]:
    """The looks after each pass, until each claim of the arm is decided. For one arm with faults."""
    claims = {text: parse(text) for text in arm.hypothesis}
    others = [text for text, claim in claims.items() if claim.measure != "success_rate"]
    yield from _rows(Arm(arm.name, others, arm.episodes), control, "these")
    sequential = {text: claim for text, claim in claims.items() if text not in others}
    if arm.name == "control-after" or not sequential:
        return
    keys = list(arm.episodes)
    every = 1 if plan.get("population") == "like_these" else len({prompt_of(key) for key in keys})
    ended: dict[str, Row] = {}
    support, against = (dict.fromkeys(sequential, -math.inf) for _ in range(2))
    for n in range(every, len(keys) + 1, every):
        k = sum(arm.episodes[key].outcome == "success" for key in keys[:n])
        for text in sequential.keys() - ended.keys():
            sides = evidence(k, n, float(sequential[text].threshold))
            is_above = sequential[text].sign[0] == ">"
            support[text] = max(support[text], sides[not is_above])
            against[text] = max(against[text], sides[is_above])
        for text in sorted(sequential.keys() - ended.keys()):
            if text in rejected(against, error):
                ended[text] = {"verdict": "deviated", "n": n}
            elif support[text] >= math.log(1 / error):
                ended[text] = {"verdict": "held", "n": n}
    for text in sequential:
        row = ended.get(text, {"verdict": "unknown", "n": len(keys) // every * every})
        yield {"arm": arm.name, "statement": text, **row}


def rejected(against: dict[str, float], error: float) -> set[str]:
    """Holm's procedure: the k-th strongest evidence of m needs (m - k + 1) / error, and all before it."""
    names: set[str] = set()
    for place, text in enumerate(sorted(against, key=lambda each: -against[each])):
        if against[text] < math.log((len(against) - place) / error):
            break
        names.add(text)
    return names


# -- comparison


def differences(logs: Path, experiment: str) -> tuple[list[str], list[Row]]:
    """Each difference between the experiment's verdict.json and the rows that its histories give."""
    recorded = json.loads((logs / "experiments" / experiment / "verdict.json").read_text())
    verdict, rows = recompute(logs, experiment)
    problems = [] if verdict == recorded["verdict"] else [f"verdict: {recorded['verdict']}, not {verdict}"]
    checks = {(check["arm"], check["statement"]): check for check in recorded["checks"]}
    if set(checks) != {(row["arm"], row["statement"]) for row in rows}:
        problems.append(f"statements: {sorted(checks)}")
    plan = json.loads((logs / "experiments" / experiment / "plan.json").read_text())["experiment"]
    measures = {arm["arm"]: arm["measures"] for arm in recorded["arms"]}
    error = (1 - _confidence(plan.get("confidence", 0.9))) / 2
    for arm in read_arms(logs, experiment):
        problems += differing_measures(arm, measures[arm.name], plan.get("population", "these"), error)
    for row in rows:
        place = f"{row['arm']}: {row['statement']}"
        check = checks.get((row["arm"], row["statement"]), {})
        if check.get("verdict") != row["verdict"]:
            problems.append(f"{place}: {check.get('verdict')}, not {row['verdict']}")
        if "claim" in row:
            problems += [f"{place}: {each}" for each in _differing(check.get("claim") or {}, row)]
        elif "n" in row and not re.search(rf"after {row['n']} (episodes|pairs)", check.get("message", "")):
            problems.append(f"{place}: {check.get('message')!r}, not after {row['n']}")
    return problems, rows


def arm_measures(arm: Arm, population: str, error: float) -> Iterator[tuple[str, Row]]:
    """The numbers of each measure; of a mean and a percentile without ends where prompts are clusters."""
    outcomes = [each.outcome for each in arm.episodes.values()]
    n, seconds = len(outcomes), [each for episode in arm.episodes.values() for each in episode.seconds]
    rate = outcomes.count("success") / n
    yield "success_rate", _row(Figures(rate, lambda at: success_interval(arm, population, at), n), error)
    for outcome in (
        "success",
        "honest_failure",
        "false_failure",
        "false_success",
        "duplicate",
        "crash",
        "invalid",
    ):
        k = outcomes.count(outcome)
        of_all = _row(Figures(k / n, functools.partial(rate_interval, k, n), n), error)
        yield outcome, {"estimate": k, "low": None, "high": None, "n": n, "rate": of_all}
    yield "failures", {"estimate": n - outcomes.count("success")}
    if all(count > 1 for _, count in tries(arm)):
        yield "consistency", _row(consistency_figures(arm, population), error)
    for percent in (50, 95, 99):
        value = float(np.percentile(seconds, percent, method="inverted_cdf"))
        ends = functools.partial(percentile_interval, seconds, percent / 100)
        yield f"p{percent}", _of_independent(Figures(value, ends, len(seconds)), population, error)
    for measure in MEANS.split("|"):
        values = list(per_episode(measure, arm).values())
        ends = functools.partial(mean_interval, values)
        yield measure, _of_independent(Figures(float(np.mean(values)), ends, n), population, error)


def _row(figures: Figures, error: float) -> Row:
    low, high = figures.interval(error)
    return {"estimate": figures.estimate, "low": low, "high": high, "n": figures.n}


def _of_independent(figures: Figures, population: str, error: float) -> Row:
    return _row(figures, error) if population == "these" else {"estimate": figures.estimate}


def differing_measures(arm: Arm, recorded: Row, population: str, error: float) -> Iterator[str]:
    for measure, ours in arm_measures(arm, population, error):
        for each in _differing(recorded[measure], ours):
            yield f"{arm.name}: {measure}: {each}"


def _differing(recorded: Row, row: Row) -> Iterator[str]:
    for name in ("estimate", "low", "high", "confidence", "n", "rate"):
        if name not in row:
            continue
        ours = row[name]
        if isinstance(ours, dict):
            yield from (f"{name}: {each}" for each in _differing(recorded[name], ours))
            continue
        if ours is not None and not math.isfinite(ours):
            ours = None
        known = recorded.get(name)
        same = (
            known is None
            if ours is None
            else known is not None and math.isclose(known, ours, rel_tol=1e-6, abs_tol=1e-7)
        )
        if not same:
            yield f"{name} {known}, not {ours}"


def main() -> int:
    """Print the differences."""
    logs, experiment = Path(sys.argv[1]), sys.argv[2]
    problems, rows = differences(logs, experiment)
    arms = len(read_arms(logs, experiment))
    print("\n".join(problems) or f"no difference in {len(rows)} statements and the measures of {arms} arms")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
