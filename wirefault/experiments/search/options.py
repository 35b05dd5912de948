"""Plan searches from an experiment's file, and write what they found as an experiment and a pytest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from wirefault.core.errors import InputError
from wirefault.core.yaml_text import dump_yaml
from wirefault.experiments.cost import MIN_CONTROLS
from wirefault.experiments.experiment import CONTROL, Experiment
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.faults import CHANCES, LEVEL, fault_names, number_field, with_faults
from wirefault.experiments.search.limit import LimitSearch
from wirefault.experiments.search.minimise import Smallest, Terms
from wirefault.experiments.search.pairs import Factor, by_link, covering_rows, factors_of, with_row
from wirefault.experiments.search.run_search import SearchResult, dosed_arm
from wirefault.experiments.search.trials import (
    base_arm,
    check_failures,
    planned_search,
    search_plan,
)
from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings
from wirefault.wiring.spec_file import read_spec_file

# a search has its own number of episodes
_ALONE: Mapping[str, Any] = {
    "repeats": 1,
    "until_decided": False,
    "perturb": [],
    "limits": {"episodes": None},
}
_MAX_LEVEL = 100.0
_MIN_DECISIONS = 16
_MIN_CONTROLS = 4
# with them a set of which 60 % of the episodes fail survives in 1 of 100 runs
_WRITTEN_REPEATS = 5


@dataclass(frozen=True)
class SearchSource:
    """The experiment's file, and what the command line changes in it."""

    file: Path
    arm: str
    """The arm with faults; empty for the only one."""
    failures: tuple[str, ...]
    """Outcomes that count as a failure; empty: all but ``success``."""
    changes: Mapping[str, Any]
    environ: Mapping[str, str]

    def plan(self) -> tuple[ExperimentPlan, PlannedArm]:
        """The plan with the control alone, and the arm. Raises ``InputError``."""
        check_failures(self.failures)
        limits = {**self.changes.get("limits", {}), **_ALONE["limits"]}
        source = load_experiment(self.file, {**self.changes, **_ALONE, "limits": limits})
        return search_plan(source, self.environ, self.arm)


def plan_limit(
    source: SearchSource,
    of: str,
    ends: tuple[float, float] | None,
    steps: int,
    *,
    rate: float,
    confidence: float,
    cap: int,
    within: float,
) -> ExperimentPlan:
    """Plan the search for a dose. Raises ``InputError`` for a field or doses that the faults cannot have."""
    plan, base = source.plan()
    try:
        if of != LEVEL:
            of = number_field(base.settings, of).text
        low, high = ends or _level_range(of, base.settings)
        doses = [float(f"{low + (high - low) * place / (steps - 1):.4g}") for place in range(steps)]
        LimitSearch(doses, rate, confidence, cap, within)
        for dose in (doses[0], doses[-1]):
            dosed_arm(base, of, dose)
    except ValueError as error:
        raise InputError(f"{source.file}: {error}") from None
    terms = {"of": of, "doses": doses, "rate": rate, "confidence": confidence, "cap": cap, "within": within}
    terms["failures"] = list(source.failures)
    return planned_search(plan, base, "limit", terms, cap)


def _level_range(of: str, settings: Settings) -> tuple[float, float]:
    """Up to the level at which every probability is 1. Raises ``ValueError`` for other fields."""
    if of != LEVEL:
        raise ValueError(f"name the doses of {of} by --doses LOW:HIGH")
    faults = read_canonical(settings.faults, settings.chaos_level)
    chances = [entry.when.probability for entry in faults.faults]
    chances += [entry.probability for entry in faults.toxics]
    chances += [chance for chance in (settings.toxic_prob, settings.error_prob) if chance]
    if not (chances := [chance for chance in chances if chance]):
        raise ValueError("has no fault with a probability, so it has no level: name a field by --of")
    high = min(_MAX_LEVEL, 1 / min(chances))
    return high / 20, high


def plan_minimise(
    source: SearchSource, *, fails_at: float, passes_at: float, error: float, cap: int
) -> ExperimentPlan:
    """Plan the search for the smallest failing set. Raises ``InputError``."""
    plan, base = source.plan()
    names = fault_names(base.settings)
    if len(names) < 2:
        raise InputError(f"{source.file}: has {len(names)} faults; a smaller set needs at least two")
    decisions = max(_MIN_DECISIONS, 4 * len(names))
    try:
        terms = asdict(Terms(fails_at, passes_at, error, decisions, cap))
    except ValueError as problem:
        raise InputError(f"--fails-at {fails_at:g} and --passes-at {passes_at:g}: {problem}") from None
    return planned_search(plan, base, "minimise", {**terms, "failures": list(source.failures)}, cap)


def plan_pairs(source: SearchSource, doses: Mapping[str, Sequence[float]], repeats: int) -> ExperimentPlan:
    """Plan the rows of a covering array over the faults by link. Raises ``InputError``, ``NotInstalled``.

    ``doses`` by the field that has them; ``repeats``: episodes of each prompt in a row.
    """
    plan, base = source.plan()
    try:
        settings, ids = by_link(base.settings)
        fields = {number_field(base.settings, name): values for name, values in doses.items()}
        factors = factors_of(ids, fields)
        for factor in factors:
            for dose in factor.doses:
                with_row(settings, factors, {factor.id: dose})
    except ValueError as error:
        raise InputError(f"{source.file}: {error}") from None
    rows, each = covering_rows(factors), repeats * len(plan.prompts)
    terms = {"factors": [asdict(factor) for factor in factors], "rows": rows, "each": each}
    terms["failures"] = list(source.failures)
    # the control needs several episodes also where a row has one
    episodes = max(each, _MIN_CONTROLS)
    return planned_search(plan, structs.replace(base, settings=settings), "pairs", terms, episodes)


def write_rows(source: SearchSource, plan: ExperimentPlan, target: Path) -> None:
    """Write the rows of a planned search for pairs as the variants of one experiment. Raises ``OSError``."""
    terms, name = plan.search["terms"], plan.search["arm"]
    own_plan = plan.configuration
    settings = load_configuration(own_plan.environ, plan.search["settings"], own_plan.wiring).settings
    factors = [Factor(each["id"], each["field"], tuple(each["doses"])) for each in terms["factors"]]
    data, method = _without_faults(source, name)
    data["variants"] = {
        f"row-{number}": {**method, "faults": json.loads(with_row(settings, factors, row).faults)}
        for number, row in enumerate(terms["rows"], 1)
    }
    data |= {"title": f"{data.get('title', '')} [pairs]", "seed": plan.seed}
    target.write_text(dump_yaml(data), encoding="utf-8")


def _without_faults(source: SearchSource, arm: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The experiment without its faults; and, of the arm, all but its faults and chances."""
    data = {**read_spec_file(source.file).data}
    own = (data.get("variants") or {}).get(arm) or data.get("method") or {}
    for key in ("faults", "method", "variants", "matrix", "until_decided", "perturb"):
        data.pop(key, None)
    method: dict[str, Any] = {
        key: own[key] for key in ("checks", "hypothesis", "assertions", "budgets") if key in own
    }
    settings = {key: value for key, value in (own.get("settings") or {}).items() if key not in CHANCES}
    return data, {**method, **({"settings": settings} if settings else {})}


_PYTEST = '''"""The agent fails if these faults come together: {faults}."""

import subprocess
import sys
from pathlib import Path


def test_agent_survives_smallest_failing_set() -> None:
    experiment = Path(__file__).parent / {file!r}
    done = subprocess.run(
        [sys.executable, "-m", "wirefault", "run", str(experiment)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
'''


def check_targets(source: SearchSource, targets: Sequence[Path | None]) -> None:
    """Raise ``InputError`` for files outside the experiment's folder, to which its paths are relative."""
    for path in filter(None, targets):
        if path.absolute().parent != source.file.absolute().parent:
            raise InputError(f"{path}: must be in the folder of {source.file}, whose paths it repeats")
        if path.absolute() == source.file.absolute():
            raise InputError(f"{path}: would replace the experiment that is searched")


def write_smallest(
    source: SearchSource, result: SearchResult, target: Path, pytest: Path | None
) -> Iterator[Path]:
    """Write the experiment with the smallest set as its only faults, and a pytest of it; yield their paths.

    Nothing is written without such a set. Raises ``OSError``.
    """
    answer = result.answer
    if not isinstance(answer, Smallest) or answer.state not in ("minimal", "undecided"):
        return
    base = base_arm(result.saved)
    settings = with_faults(base.settings, answer.faults)
    data, method = _without_faults(source, base.name)
    if settings.faults:
        method["faults"] = json.loads(settings.faults)
    if chances := {name: getattr(settings, name) for name in CHANCES if name in answer.faults}:
        method["settings"] = {**method.get("settings", {}), **chances}
    failures = result.saved.plan.search["terms"]["failures"]
    survived = [f"{outcome} == 0" for outcome in failures] or ["success == all"]
    hypothesis = data.get("hypothesis") or []
    data |= {
        "title": f"{data.get('title', '')} [{', '.join(answer.faults)}]",
        "seed": result.saved.plan.seed,
        "repeats": max(data.get("repeats", 1), _WRITTEN_REPEATS),
        # what the search counted as a failure must not happen
        "hypothesis": [*hypothesis, *(each for each in survived if each not in hypothesis)],
        "method": method,
    }
    target.write_text(dump_yaml(data), encoding="utf-8")
    yield target
    if pytest is not None:
        text = _PYTEST.format(faults=", ".join(answer.faults), file=target.name)
        pytest.write_text(text, encoding="utf-8")
        yield pytest


def plan_explain(
    saved: SavedExperiment, arm: PlannedArm, episode: str, *, error: float, cap: int
) -> ExperimentPlan:
    """Plan the repetitions of a recorded episode. Raises ``InputError`` for one that shows nothing."""
    facts = next((each for each in saved.facts_of(arm).episodes if each.episode == episode), None)
    if facts is None or facts.judged.outcome in ("success", "invalid", "unjudged"):
        outcome = facts.judged.outcome if facts else "not completed"
        raise InputError(f"{episode} is {outcome}: name an episode that failed")
    names = fault_names(arm.settings)
    if not names:
        raise InputError(f"{episode} ran without faults: name an episode of an arm with faults")
    plan = saved.plan
    prompt = next(each for each in plan.prompts_of(arm) if each.key == episode)
    calm = with_faults(plan.configuration.settings, ())
    control = PlannedArm(CONTROL, calm.model_copy(update={"shadow": ""}), (), episodes=())
    title = f"Why {episode} of {saved.experiment_id} was {facts.judged.outcome}"
    experiment = Experiment(title=title, checks=["no crash"])
    base = structs.replace(arm, name="explained", hypothesis=(), assertions=(), perturbation="")
    terms = asdict(Terms(error=error, decisions=2 * len(names) + 2, cap=cap))
    planned = replace(
        plan, experiment=experiment, prompts=(prompt,), arms=(control,), perturbed={}, source=None
    )
    terms |= {"outcome": facts.judged.outcome, "faults": list(names)}
    return planned_search(planned, base, "explain", terms, MIN_CONTROLS)
