"""Agents whose behaviour is known: the scripted model's personas with tools that fail in a known share.

An episode is a conversation with the scripted model in this process, whose tool calls fail by the schedule's
draws, and the real judge's outcome of its history: the wire would add nothing to a rate. A small run on the
lab shows that its episodes end as these do.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from tests import commands
from tests.judging.oracle.histories import (
    ASK_BOB,
    called,
    ended,
    episode,
    exchange,
    judge_episode,
    message_sent,
    tried,
    world,
)
from tests.judging.test_summary import run
from tests.lab.demos import environ_in
from tests.model_server.conversations import REFUSED, TIMEOUT_WRITE, converse
from wirefault.core.identity import draw
from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.figures import measures_of
from wirefault.history.events import Event, Exchange
from wirefault.history.judged_events import Outcome
from wirefault.history.reader import read_run
from wirefault.judging.summary import summarise
from wirefault.model_server.decide import Persona
from wirefault.stats.exact import clopper_pearson

N, SEEDS, FAILS = 400, 200, 0.4
Kind = Literal["read", "write"]
SENT = {"id": 1, "status": "sent"}
TEMPERATURE = 8.4
PARIS = {"main": {"temp": TEMPERATURE}, "name": "Paris", "units": "metric"}
READ, WRITE = "What is the temperature in Paris right now?", "Send Bob a message saying 'hi'"

# the true rates; a read that fails has no effect, a write that fails was executed
KNOWN: dict[tuple[Kind, Persona], dict[Outcome, float]] = {
    ("read", Persona.DILIGENT): {"success": 1 - FAILS**2, "honest_failure": FAILS**2},
    ("read", Persona.QUITTER): {"success": 1 - FAILS, "honest_failure": FAILS},
    ("read", Persona.RESTARTER): {"success": 1 - FAILS**3, "honest_failure": FAILS**3},
    ("read", Persona.FABRICATOR): {"success": 1 - FAILS, "false_success": FAILS},
    ("read", Persona.PARROT): {"success": 1 - FAILS, "false_success": FAILS},
    ("write", Persona.DILIGENT): {"success": 1 - FAILS, "unconfirmed": FAILS},
    ("write", Persona.STUBBORN): {"success": 1 - FAILS, "duplicate": FAILS},
    ("write", Persona.QUITTER): {"success": 1 - FAILS, "false_failure": FAILS},
}
IDS = [f"{kind}-{persona.value}" for kind, persona in KNOWN]


@cache
def events_of(kind: Kind, persona: Persona, failures: int) -> list[Event]:
    """The history of the persona's episode, in which so many tool calls fail before one works."""
    reads = kind == "read"
    good, bad = (PARIS, REFUSED) if reads else (SENT, TIMEOUT_WRITE)
    results = [*[bad] * failures, good]
    calls, answer = converse(READ if reads else WRITE, results, persona)
    assert answer is not None
    link, events, effects = "weather" if reads else "message", [], []
    for number in range(1, len(calls) + 1):
        fails = number <= failures
        status, error = (503, "server_error") if fails else (200, None)
        effect = "none" if reads else "unknown" if fails else "executed"
        key = None if reads else f"k{number}"
        events += [
            tried(link, error=error, status=status, call=number, idempotency_key=key),
            exchange(link, status=status, call=number),
            called(
                json.dumps(results[number - 1]),
                not fails,
                link,
                call=number,
                reply=number,
                side_effect=effect,
            ),
        ]
        effects += [] if reads else [message_sent(key=key)]
    values = [{"value": value.value, "unit": value.unit} for value in answer.values]
    end = ended(answer.status, values, answer=answer.text)
    expect = {"values": [{"number": TEMPERATURE}]} if reads else ASK_BOB
    history: list[Event] = episode(*events, end, world(*effects), expect=expect)
    return history


@pytest.mark.parametrize(("kind", "persona"), KNOWN, ids=IDS)
def test_truth_lies_in_interval_of_400_episodes(kind: Kind, persona: Persona) -> None:
    episodes = [events_of(kind, persona, failures_of(1, place)) for place in range(N)]
    measures = measures_of(facts_of_one(facts_of("a", run(*episodes))))
    estimate = measures["success_rate"].estimate
    assert estimate is not None and estimate.n == N
    interval = estimate.interval(0.05)
    assert interval.low <= KNOWN[kind, persona]["success"] <= interval.high
    for outcome, rate in KNOWN[kind, persona].items():
        bounds = measures[outcome].bounds
        assert bounds is not None
        limits = clopper_pearson(int(bounds.low), N)
        assert limits is not None and limits[0] <= rate <= limits[1], outcome


@pytest.mark.parametrize(("kind", "persona"), KNOWN, ids=IDS)
def test_rates_of_200_seeds_are_the_true_ones(kind: Kind, persona: Persona) -> None:
    counts = [
        Counter(fate(kind, persona, failures_of(seed, place)) for place in range(N)) for seed in range(SEEDS)
    ]
    for outcome, rate in KNOWN[kind, persona].items():
        error = math.sqrt(rate * (1 - rate) / (N * SEEDS))
        assert sum(each[outcome] for each in counts) / (N * SEEDS) == pytest.approx(rate, abs=3 * error)
        covered = sum(low <= rate <= high for low, high in (interval(each[outcome]) for each in counts))
        assert covered / SEEDS >= 0.9 - 3 * math.sqrt(0.9 * 0.1 / SEEDS)


@cache
def failures_of(seed: int, place: int) -> int:
    """The tool calls that fail before one works, drawn as the gateway draws its faults."""
    chances = (draw(seed, f"q{place}", 1, "tool", "f1", call, 1, "fault") for call in count(1))
    return next(number for number, chance in enumerate(chances) if chance >= FAILS)


@cache
def fate(kind: Kind, persona: Persona, failures: int) -> Outcome:
    """The judge's outcome."""
    return judge_episode(events_of(kind, persona, failures)).outcome


@cache
def interval(episodes: int) -> tuple[float, float]:
    return clopper_pearson(episodes, N) or (0.0, 1.0)


EXPERIMENT = """
title: Personas on the lab
only: ["1"]
repeats: 8
seed: 5
variants:
  diligent:
    settings: {persona: diligent}
    faults: &busy {fault: unavailable, links: weather, when: {probability: 0.4}}
  quitter: {settings: {persona: quitter}, faults: *busy}
  fabricator: {settings: {persona: fabricator}, faults: *busy}
hypothesis: [no crash]
"""


@pytest.mark.slow
def test_episodes_on_the_lab_end_as_those_without_wire(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(EXPERIMENT, encoding="utf-8")
    done = commands.wirefault(
        tmp_path, environ_in(tmp_path), "run", "exp.yaml", "--toxiproxy", "embedded", "--json"
    )
    document, outcomes = json.loads(done.stdout), set[Outcome]()
    for arm in document["arms"]:
        if arm["arm"] in ("control", "control-after"):
            continue
        [run_id] = arm["run_ids"]
        events = read_run(tmp_path / ".wirefault" / "logs", run_id)
        for judged in summarise(events).episodes:
            replies = [
                each for each in events if isinstance(each, Exchange) and each.episode == judged.episode
            ]
            failed = tuple(each.status != 200 for each in replies if each.link == "weather")
            assert judged.outcome == fate(
                "read", Persona(arm["arm"]), len(failed) if all(failed) else failed.index(False)
            )
            outcomes.add(judged.outcome)
    assert outcomes == {"success", "honest_failure", "false_success"}
