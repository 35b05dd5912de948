"""docs/mitigations.md from the measured cells. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.mitigations.cells import FAMILIES, FEW, MANY, NOT_RUN, SEED, Family, Trial
from wirefault.stats.rates import percent

Measured = Mapping[str, Mapping[str, Any]]
"""By family and trial: the table as JSON, how many episodes the fault reached, and their seconds."""

_INTRO = f"""# Mitigations, measured

Real clients and frameworks order one item of a shop under one fault each, on the real wire. `make tournament`
measures every cell and writes this page; it is not edited by hand.

Each cell is {MANY} episodes ({FEW} where each waits long, or is killed) with seed {SEED}.
`python -m bench.mitigations --arm ARM --trial FAULT` measures it again and says whether the share of each
outcome is within the interval of the measured one, `--check` does so for all cells of `--family NAME`. An
arm that fails without faults is not measured. Success means that the shop carried out each
order exactly once and that the answer does not say otherwise. Rates have 90 % intervals. The episodes are
too few for the interval of a mean, so seconds are the range over them. The model is the scripted one; a real
model may also ask again, as the last family shows. All clients of the shop have a timeout of 4 s.
[Tournaments](tournaments.md) explains the figures. The advice follows the rule there, and the pairs of arms
under a fault share the error.
"""


def page(measured: Measured, versions: Mapping[str, Sequence[str]]) -> str:
    """Return the page. Cells that were not measured say so."""
    parts = [_INTRO]
    for family in FAMILIES:
        parts.append(f"## {family.title}\n")
        parts += _family(family, measured.get(family.name, {}))
    rows = list(NOT_RUN.items())
    parts += ["## Versions\n", *(f"- {', '.join(each)}" for each in versions.values()), ""]
    parts += ["## Not run\n", "Rows that are planned and were not measured.\n", _table(("row", "why"), rows)]
    return "\n".join(parts)


def _family(family: Family, cells: Mapping[str, Any]) -> Iterator[str]:
    head = ("arm", *(trial.name for trial in family.trials))
    if family.note:
        yield f"{family.note}\n"
    yield "Success:\n"
    yield _table(
        head, [(arm, *(_success(cells, trial, arm) for trial in family.trials)) for arm in family.arms]
    )
    at_shop = [trial for trial in family.trials if _has_other_effects(cells, trial)]
    if at_shop:
        yield f"{family.effects} not at all, once, and more often:\n"
        rows = [(arm, *(_effects(cells, trial, arm) for trial in at_shop)) for arm in family.arms]
        yield _table(("arm", *(trial.name for trial in at_shop)), rows)
    yield "Honest claims, of those that can be checked; requests for each call; seconds of an episode:\n"
    yield _table(head, [(arm, *(_cost(cells, trial, arm) for trial in family.trials)) for arm in family.arms])
    waiting = [trial for trial in family.trials if trial.name.startswith("429")]
    if waiting:
        yield "Retry-After kept, of the refused requests that were sent again:\n"
        rows = [
            (arm, *(_figure(cells, trial, arm, "retry_after_kept") for trial in waiting))
            for arm in family.arms
        ]
        yield _table(("arm", *(trial.name for trial in waiting)), rows)
    for trial in family.trials:
        if trial.name in cells:
            yield f"- **{trial.name}** ({trial.says}): {cells[trial.name]['table']['advice']}"
    yield ""


def _arm(cells: Mapping[str, Any], trial: Trial, arm: str) -> Mapping[str, Any] | None:
    arms = cells.get(trial.name, {}).get("table", {}).get("arms", ())
    return next((each for each in arms if each["arm"] == arm), None)


def _has_other_effects(cells: Mapping[str, Any], trial: Trial) -> bool:
    """Whether an arm differs from one effect for each order."""
    arms = cells.get(trial.name, {}).get("table", {}).get("arms", ())
    return any(each[name]["estimate"] != 0 for each in arms for name in ("no_effect", "more_effects"))


def _reached(cells: Mapping[str, Any], trial: Trial, arm: str) -> int:
    return int(cells[trial.name]["reached"].get(arm, 0))


def _success(cells: Mapping[str, Any], trial: Trial, arm: str) -> str:
    figures = _arm(cells, trial, arm)
    if figures is None:
        return "not run"
    text = _rate(figures["success_rate"])
    return (
        text if not trial.faults or _reached(cells, trial, arm) else f"{text}; the fault reached no episode"
    )


def _figure(cells: Mapping[str, Any], trial: Trial, arm: str, name: str) -> str:
    figures = _arm(cells, trial, arm)
    return "not run" if figures is None else _rate(figures[name])


def _effects(cells: Mapping[str, Any], trial: Trial, arm: str) -> str:
    figures = _arm(cells, trial, arm)
    if figures is None:
        return "not run"
    names = ("no_effect", "one_effect", "more_effects")
    shares = [figures[name] for name in names]
    if any(each["estimate"] is None for each in shares):
        return "open"
    return f"{'; '.join(map(_share, shares))}; n = {shares[0]['n']}"


def _rate(figure: Mapping[str, Any]) -> str:
    return f"{_share(figure)} n = {figure['n']}" if figure["n"] else "no data"


def _share(figure: Mapping[str, Any]) -> str:
    value = "open" if figure["estimate"] is None else percent(figure["estimate"])
    return f"{value} [{percent(figure['low'])}, {percent(figure['high'])}]"


def _cost(cells: Mapping[str, Any], trial: Trial, arm: str) -> str:
    figures = _arm(cells, trial, arm)
    if figures is None:
        return "not run"
    seconds = cells[trial.name]["seconds"][arm]
    requests = figures["requests_per_call"]["estimate"]
    return (
        f"{_rate(figures['honest'])}; "
        f"{'unknown' if requests is None else f'{requests:.3g}'}; {min(seconds):.1f} to {max(seconds):.1f} s"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
