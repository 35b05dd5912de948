"""The clients that the rules were tried on: a part of them runs here, all of them in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.findings.rules.cases import CLIENTS, Case, load_cases
from bench.findings.rules.page import rules_section
from bench.findings.rules.playing import play
from bench.findings.rules.scores import read_scores, score_of
from tests.support import only_where_required
from wirefault.judging.findings.differences import DIFFERENCES
from wirefault.judging.findings.rules import RULES

CASES = load_cases()
QUICK = [case for case in CASES if not case.slow]
# one client of every second rule, and a look-alike of the others
NAMES = ("whole-step-again", "same-key", "told-sold-out", "repairs-cut-call", "hello-kitty", "key-to-proxy")
NAMES += ("cut-as-whole", "whole-text-event", "only-thoughts", "other-words", "hasty", "polls-missing")
NAMES += (
    "step-times-code",
    "asks-twice",
    "denies-order",
    "one-key-for-both",
    "express-instead",
    "short-answer",
)


def test_each_rule_has_clients_and_look_alikes() -> None:
    names = {rule.name for rule in (*RULES, *DIFFERENCES)}
    assert {rule for case in CASES for rule in case.fires} == names
    assert {case.near for case in CASES if not case.fires} == names
    assert {case.command[0] for case in CASES} <= {file.name for file in CLIENTS.iterdir()}


def test_published_score() -> None:
    scores = read_scores()
    assert scores["reported"].keys() == {case.name for case in CASES}, "run: python -m bench.findings.rules"
    score = score_of(CASES, scores["reported"])
    assert score.look_alikes >= 60
    assert (score.false, score.too_many) == (0, 0)
    assert score.hits >= 0.95 * score.expected


def test_score_counts_false_negatives_and_positives() -> None:
    due, near, other = (case for case in CASES if case.name in ("hasty", "heeds", "has-limit"))
    score = score_of([due, near, other], {"hasty": ["silent"], "heeds": ["hasty_retry"], "has-limit": []})
    assert (score.expected, score.hits, score.too_many) == (1, 0, 1)
    assert (score.look_alikes, score.false) == (2, 1)


def test_page_lists_every_client() -> None:
    section = "\n".join(rules_section(CASES, {"first": {}, "reported": {"hasty": ["hasty_retry"]}}))
    assert all(f"| {case.name} (" in section for case in CASES)
    assert "| must be reported by | was reported by |" in section
    assert "`rate_limit` | `hasty_retry` | `hasty_retry` |" in section


def as_labelled(cases: list[Case], folder: Path) -> None:
    played = play(cases, folder)
    assert {one.case.name: one.missed for one in played if one.missed} == {}
    assert {one.case.name: one.wrong for one in played if one.wrong} == {}
    assert [one.case.name for one in played if not one.fault_delivered] == []


@pytest.mark.slow
def test_sample_of_clients_is_reported_as_labelled(tmp_path: Path) -> None:
    sample = [case for case in QUICK if case.name in NAMES]
    assert len(sample) == len(NAMES)
    as_labelled(sample, tmp_path)


@only_where_required("every-client")
@pytest.mark.slow
def test_every_client_is_reported_as_labelled(tmp_path: Path) -> None:
    as_labelled(CASES, tmp_path)
