"""The page of a search: its answer, the doses or sets that it tried, and their episodes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from wirefault.audit.result import worst_so_far
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.index import early_word
from wirefault.experiments.recorded import Recording
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.chain import Chain
from wirefault.experiments.search.faults import fault_names
from wirefault.experiments.search.limit import Limit
from wirefault.experiments.search.pairs import Pairs
from wirefault.experiments.search.run_search import SearchResult, dosed_arm
from wirefault.experiments.search.trials import base_arm
from wirefault.judging.summary import Summary
from wirefault.report.experiment_plan import agent_line
from wirefault.report.next_command import command_on_run, with_folder
from wirefault.report.page.charts import (
    latency_chart,
    outcome_chart,
    provenance,
    reached_text,
    request_table,
)
from wirefault.report.page.episode import EpisodeCard
from wirefault.report.page.figures import arm_figures, link_figures, reached_figures
from wirefault.report.page.findings import finding_cards
from wirefault.report.page.parts import (
    Cell,
    Chart,
    Episodes,
    Matrix,
    PageContent,
    Table,
    Tone,
    count_text,
    early_verdict,
    first_to_open,
    resume_commands,
)
from wirefault.report.page.phrase import Figure, Phrase, capitalised, joined
from wirefault.report.page.svg import Band, LevelPoint, shares_by_level
from wirefault.report.search import answer_parts, risk_text
from wirefault.stats.exact import clopper_pearson
from wirefault.stats.rates import percent

_VERDICTS: Mapping[str, tuple[str, Tone]] = {
    "bounded": ("limit found", "bad"),
    "above": ("no limit in these doses", "good"),
    "below": ("fails at every dose", "bad"),
    "open": ("limit not decided", "open"),
    "not monotone": ("no limit", "open"),
    "minimal": ("smallest failing set found", "bad"),
    "undecided": ("not decided", "open"),
    "passes": ("does not fail", "good"),
    "fails without": ("fails without faults", "open"),
    "one": ("cause found", "bad"),
    "together": ("causes found", "bad"),
    "either": ("causes found", "bad"),
    "none": ("comes without faults", "open"),
    "unknown": ("cannot be told", "open"),
    "none delivered": ("no pair delivered", "open"),
    "incomplete": ("no answer yet", "open"),
    "safety": ("ended by a safety condition", "open"),
}
_CONFIDENCE = 0.95
_MIN_GAP = 0.1
"""Part of the doses' range from which on a dose has room for its count beside it."""
_MAX_NAMED = 3
"""Arms up to which the first lines name their faults."""
_MAX_BARS = 12
"""Arms up to which their outcomes are drawn."""


def search_content(recording: Recording, saved: SavedExperiment, result: SearchResult) -> PageContent:
    """Describe a search; its arms are the doses or sets that it tried."""
    episodes = Episodes(saved.logs, recording.id)
    by_arm = {
        name: episodes.add_arm(recording.arms[name], shown_arm=name)
        for name in _in_order(saved, recording, result)
    }
    summaries = episodes.summaries
    arms = [
        arm_figures(name, summaries[name], len(all)) | reached_figures(summaries[name], all)
        for name, all in by_arm.items()
    ]
    tested = [each for name, all in by_arm.items() if name != CONTROL for each in all]
    cards = finding_cards(tested or by_arm.get(CONTROL, []), by_arm.get(CONTROL, []))
    links = link_figures([each.trace for all in by_arm.values() for each in all])
    doses = _dose_figures(result.answer) if isinstance(result.answer, Limit) else []
    has_sets = saved.plan.search["kind"] not in ("limit", "next", "pairs")
    sets = _set_figures(saved, result, by_arm) if has_sets else []
    verdict, tone = _verdict(result)
    if early := early_word(saved.logs, recording.id):
        verdict, tone = early_verdict(early, worst_so_far(recording))
    return PageContent(
        id=recording.id,
        title=saved.plan.experiment.title,
        kind="search",
        tone=tone,
        verdict=verdict,
        sentence=_sentence(result),
        facts=list(_facts(saved, arms, summaries)),
        commands=[*_commands(saved), *resume_commands(recording)],
        findings=cards,
        matrix=_set_matrix(saved, sets, by_arm),
        charts=[
            *_dose_chart(result, doses),
            *(outcome_chart(arms) if len(arms) <= _MAX_BARS else ()),
            *latency_chart(links),
        ],
        tables=[
            *_dose_table(result, doses),
            *_step_table(result),
            *_pair_tables(result),
            *_reached_table(arms),
            *request_table(links),
        ],
        episodes=episodes.cards,
        provenance=provenance(recording.id, recording.evidence, summaries) if summaries else [],
        figures={
            "arms": arms,
            "episodes": episodes.rows,
            "links": links,
            "doses": doses,
            "sets": sets,
            "reached": {
                "faults": sum(arm["faults_reached"] for arm in arms),
                "requests": sum(arm["requests"] for arm in arms),
                "arms": len(arms),
            },
            "confidence": _CONFIDENCE,
        },
        opened=first_to_open(cards, tested),
    )


def _in_order(saved: SavedExperiment, recording: Recording, result: SearchResult) -> list[str]:
    """Return the recorded arms, the control first and the others by their dose."""
    places = {CONTROL: -1}
    if isinstance(result.answer, Limit):
        base, of = base_arm(saved), str(saved.plan.search["terms"]["of"])
        doses = sorted(result.answer.tallies)
        places |= {dosed_arm(base, of, dose).name: place for place, dose in enumerate(doses)}
    return sorted(recording.arms, key=lambda name: places.get(name, len(places)))


def _verdict(result: SearchResult) -> tuple[str, Tone]:
    if result.no_steady_state:
        return _VERDICTS["fails without"]
    if result.answer is None or not result.is_whole:
        return "no answer yet", "open"
    if isinstance(result.answer, Chain) and result.answer.state != "safety":
        return ("weaknesses found", "bad") if result.answer.weaknesses else ("no weakness showed", "good")
    if isinstance(result.answer, Pairs) and result.answer.delivered:
        failed = any(pair.failed for pair in result.answer.pairs)
        return ("failures found", "bad") if failed else ("no failure showed", "good")
    return _VERDICTS[result.answer.state]


def _sentence(result: SearchResult) -> Phrase:
    lines = []
    for parts in answer_parts(result):
        texts = [each if isinstance(each, str) else Figure(each.text, *each.path) for each in parts]
        lines.append(capitalised(Phrase(*texts)))
    return Phrase(joined(". ", list(lines)), ".")


def _facts(
    saved: SavedExperiment, arms: Sequence[Mapping[str, Any]], summaries: Mapping[str, Summary]
) -> Iterator[tuple[str, str]]:
    plan = saved.plan
    terms = plan.search["terms"]
    tested = agent_line(plan.configuration.wiring, plan.subject).removeprefix("agent: ")
    of_lab = plan.configuration.wiring.is_lab and arms
    subject = Figure(arms[0]["subject"], "figures", "arms", 0, "subject") if of_lab else ""
    yield "tested", Phrase(tested, *([": ", subject] if subject else []))
    yield "under", _under(arms, summaries)
    yield "searched", _question(plan.search["kind"], terms)
    failures = terms.get("failures") or []
    yield "a failure is", ", ".join(failures) or terms.get("outcome") or "every outcome but success"
    yield "episodes by arm", _by_arm(arms)
    yield "seed", Figure(plan.seed, "seed")


def _under(arms: Sequence[Mapping[str, Any]], summaries: Mapping[str, Summary]) -> str:
    """Say which faults reached a request; of many arms only how many, since a table has the rest."""
    reached = sum(arm["faults_reached"] for arm in arms)
    if len(arms) <= _MAX_NAMED or not reached:
        return reached_text(arms, (row for each in summaries.values() for row in each.faults))
    at = ("figures", "reached")
    return Phrase(
        *(Figure(count_text(reached, "fault"), *at, "faults"), " in "),
        *(Figure(count_text(sum(arm["requests"] for arm in arms), "request"), *at, "requests"), " of "),
        *(Figure(count_text(len(arms), "arm"), *at, "arms"), "; the table “Faults by arm” has each"),
    )


def _reached_table(arms: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield the faults that reached a request in each of many arms."""
    if len(arms) <= _MAX_NAMED:
        return
    rows = []
    for place, arm in enumerate(arms):
        at = ("figures", "arms", place)
        reached = [
            Phrase(
                f"{row['fault']} on {row['link']} (",
                Figure(row["count"], *at, "reached", number, "count"),
                ")",
            )
            for number, row in enumerate(arm["reached"])
        ]
        rows.append(
            (
                Figure(arm["arm"], *at, "arm"),
                Figure(arm["episodes"], *at, "episodes"),
                Figure(arm["requests"], *at, "requests"),
                Figure(arm["faults_reached"], *at, "faults_reached"),
                joined(", ", [*reached]) if reached else "none",
            )
        )
    heads = ("arm", "episodes", "requests", "faults that reached one", "by fault and link")
    yield Table("Faults by arm", heads, rows)


def _by_arm(arms: Sequence[Mapping[str, Any]]) -> Phrase:
    """Count the episodes of each arm; of many arms only all together."""
    if len(arms) > _MAX_BARS:
        return Phrase(Figure(f"{len(arms)} arms", "figures", "arms"))
    counts: list[str] = [
        Phrase(Figure(arm["arm"], *at, "arm"), " ", Figure(arm["episodes"], *at, "episodes"))
        for place, arm in enumerate(arms)
        for at in [("figures", "arms", place)]
    ]
    return joined(", ", counts)


def _question(kind: str, terms: Mapping[str, Any]) -> Phrase:
    def term(name: str, text: str) -> Figure:
        return Figure(text, "terms", name)

    if kind == "limit":
        doses = terms["doses"]
        return Phrase(
            f"the {terms['of']} between ",
            term("doses", f"{doses[0]:g} and {doses[-1]:g}"),
            " at which success falls to ",
            term("rate", percent(terms["rate"])),
            ", in at most ",
            term("cap", f"{terms['cap']} trials"),
        )
    if kind == "minimise":
        return Phrase(
            "the smallest set of faults with which at least ",
            term("fails_at", percent(terms["fails_at"])),
            " of the episodes fail",
        )
    if kind == "next":
        return Phrase("the next experiments, in at most ", term("budget", f"{terms['budget']} episodes"))
    if kind == "pairs":
        text = f"all pairs of {len(terms['factors'])} faults by link"
        return Phrase(term("factors", text), " in ", term("rows", f"{len(terms['rows'])} rows"))
    return Phrase(f"the faults because of which the episode was {terms['outcome']}")


def _commands(saved: SavedExperiment) -> Iterator[tuple[str, str]]:
    name = saved.experiment_id
    if words := saved.plan.search.get("command"):
        yield "repeat the whole search", with_folder(shlex.join(words), saved.logs)
    yield "show the answer", command_on_run(["wirefault", "report", name], [], saved.logs)


def _dose_figures(limit: Limit) -> list[dict[str, Any]]:
    """Return each dose with its successes and their exact interval."""
    rows = []
    for dose, tally in sorted(limit.tallies.items()):
        low, high = clopper_pearson(tally.successes, tally.trials, _CONFIDENCE) or (0.0, 1.0)
        rows.append({"dose": dose, "k": tally.successes, "n": tally.trials, "low": low, "high": high})
    return rows


def _dose_chart(result: SearchResult, doses: Sequence[Mapping[str, Any]]) -> Iterator[Chart]:
    limit = result.answer
    if not doses or not isinstance(limit, Limit):
        return
    span = limit.first_dose, limit.last_dose
    near = _MIN_GAP * (span[1] - span[0])
    places = [row["dose"] for row in doses]
    crowded = {one for one, other in pairwise(places) if other - one < near}
    series = [
        LevelPoint(
            row["dose"],
            row["k"] / row["n"],
            row["low"],
            row["high"],
            Figure(f"{row['k']} of {row['n']}", "figures", "doses", place)
            if row["dose"] not in crowded
            else "",
        )
        for place, row in enumerate(doses)
    ]
    of = str(result.saved.plan.search["terms"]["of"])
    band = None
    if limit.state in ("bounded", "open"):
        band = Band(limit.low, limit.median, limit.high, limit.rate)
    says = f"Share of successful episodes at each {of} tried, with {percent(_CONFIDENCE)} intervals."
    if band is not None:
        says += (
            f" Shaded: the {percent(limit.confidence)} credible interval of the {of} at which success falls"
            f" to {percent(limit.rate)}; the dashed lines are its median and that rate."
        )
    title = "Success against dose"
    yield Chart(title, says, shares_by_level(series, title, of, "success", band=band, span=span))


def _dose_table(result: SearchResult, doses: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    if doses:
        rows = [
            [
                Figure(f"{row['dose']:g}", *at, "dose"),
                Figure(row["k"], *at, "k"),
                Figure(row["n"], *at, "n"),
                Phrase(
                    Figure(percent(row["low"]), *at, "low"), " to ", Figure(percent(row["high"]), *at, "high")
                ),
            ]
            for place, row in enumerate(doses)
            for at in [("figures", "doses", place)]
        ]
        of = str(result.saved.plan.search["terms"]["of"])
        note = Phrase(Figure(percent(_CONFIDENCE), "figures", "confidence"), " intervals of success")
        yield Table("Doses tried", (of, "succeeded", "trials", "interval"), rows, note)


def _step_table(result: SearchResult) -> Iterator[Table]:
    """Yield the steps of a search for the next experiments, with their reasons."""
    if isinstance(result.answer, Chain):
        yield from chain_table(result.answer, ("answer",), "How it came there")


def chain_table(chain: Chain, path: tuple[str | int, ...], title: str, note: str = "") -> Iterator[Table]:
    """Yield the steps of a chain, if it has any. ``path``: its place in ``--json``; ``note``: said first."""
    rows = [
        [
            Figure(step.name, *at, "name"),
            Figure(step.text, *at, "text"),
            Phrase(Figure(step.reason, *at, "reason"), ": ", Figure(step.because, *at, "because")),
            Figure(risk_text(step.risk), *at, "risk"),
            Figure(", ".join(step.checks) or "none", *at, "checks"),
            Figure(step.result, *at, "result"),
        ]
        for place, step in enumerate(chain.steps)
        for at in [(*path, "steps", place)]
    ]
    heads = ("step", "what happens", "reason", "risk of harm", "checks added", "result")
    if rows:
        before = [note, ". "] if note else []
        risk = Phrase(*before, "Risk: the probability before the step, with its interval")
        yield Table(title, heads, rows, risk)


def _pair_tables(result: SearchResult) -> Iterator[Table]:
    """Yield the pairs of faults that were planned, and the rows that have them."""
    if not isinstance(result.answer, Pairs):
        return
    pairs = [
        [
            Figure(pair.first, *at, "first"),
            Figure(pair.second, *at, "second"),
            Figure(pair.delivered, *at, "delivered"),
            _failed_of(pair.failed, pair.judged, at),
        ]
        for place, pair in enumerate(result.answer.pairs)
        for at in [("answer", "pairs", place)]
    ]
    note = "Episodes in which both faults were delivered, by their histories"
    yield Table("Pairs of faults", ("fault", "with", "episodes with both", "failed"), pairs, note)
    rows = [
        [
            Figure(row.name, *at, "name"),
            Figure(", ".join(row.faults), *at, "faults"),
            Figure(row.episodes, *at, "episodes"),
            _failed_of(row.failed, row.judged, at),
        ]
        for place, row in enumerate(result.answer.rows)
        for at in [("answer", "rows", place)]
    ]
    yield Table("Rows of the array", ("row", "faults", "episodes", "failed"), rows, "")


def _failed_of(failed: int, judged: int, at: tuple[str, str, int]) -> Phrase:
    return Phrase(Figure(failed, *at, "failed"), " of ", Figure(judged, *at, "judged"))


def _set_figures(
    saved: SavedExperiment, result: SearchResult, by_arm: Mapping[str, Sequence[EpisodeCard]]
) -> list[dict[str, Any]]:
    """Return each set of faults that was tried: its episodes, and how many failed."""
    terms = saved.plan.search["terms"]
    failures = terms.get("failures") or ([terms["outcome"]] if "outcome" in terms else [])
    sets: dict[tuple[str, ...], dict[str, Any]] = {}
    answer = result.answer
    decided = {} if answer is None or isinstance(answer, Limit | Chain | Pairs) else dict(answer.decided)
    for arm in saved.plan.arms:
        names = () if arm.name == CONTROL else tuple(sorted(fault_names(arm.settings)))
        empty = {
            "faults": list(names),
            "fails": decided.get(frozenset(names)),
            "failed": 0,
            "n": 0,
            "arms": [],
        }
        row = sets.setdefault(names, empty)
        judged = [each for each in by_arm.get(arm.name, ()) if each.is_judged]
        row["n"] += len(judged)
        row["failed"] += sum(_has_failed(each.judged.outcome, failures) for each in judged)
        row["arms"].append(arm.name)
    return sorted(sets.values(), key=lambda row: (-len(row["faults"]), row["faults"]))


def _has_failed(outcome: str, failures: Sequence[str]) -> bool:
    return outcome in failures if failures else outcome != "success"


def _set_matrix(
    saved: SavedExperiment, sets: Sequence[Mapping[str, Any]], by_arm: Mapping[str, Sequence[EpisodeCard]]
) -> Matrix | None:
    """A row for each set, a column for each fault; then how many of its episodes failed."""
    if not sets:
        return None
    faults = list(dict.fromkeys(name for row in sets for name in row["faults"]))
    terms = saved.plan.search["terms"]
    failures = terms.get("failures") or ([terms["outcome"]] if "outcome" in terms else [])
    rows: list[tuple[str, Sequence[Cell | None]]] = []
    for place, row in enumerate(sets):
        placed = [each for name in row["arms"] for each in by_arm.get(name, ())]
        failed = [each for each in placed if each.is_judged and _has_failed(each.judged.outcome, failures)]
        link = next(iter(failed or placed), None)
        cells: list[Cell | None] = [
            Cell("with", "plain") if name in row["faults"] else None for name in faults
        ]
        count = Phrase(
            Figure(row["failed"], "figures", "sets", place, "failed"),
            " of ",
            Figure(row["n"], "figures", "sets", place, "n"),
        )
        cells.append(Cell(count, "plain", f"#{link.anchor}" if link else ""))
        word, tone = {
            True: ("fails", "harmful"),
            False: ("passes", "fine"),
            None: ("not decided", "unknown"),
        }[row["fails"]]
        cells.append(Cell(word, tone))
        rows.append((", ".join(row["faults"]) or "no faults", cells))
    return Matrix("Sets of faults", "set", [*faults, "failed", "decided"], rows)
