"""The section of ``docs/findings-rules.md`` about the clients that the rules were tried on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.findings.rules.cases import Case
from bench.findings.rules.scores import Reported, Score, score_of

_INTRO = """\
Each rule was tried on small programs that do what it is about, and on look-alikes, which differ from these by
one property and must not be reported by any rule. They are real programs (Python with requests, httpx, urllib
and the SDKs of OpenAI and Anthropic, Node, curl) in `bench/findings/rules/clients`. They run as subjects of
one experiment, over real connections to a shop, an MCP server and a model with set replies. The faults of
each act in its own episodes alone, and the control runs every program twice without them. Findings of all
arms count. Notes do not, but for `past_the_lab`, which makes nothing else.

The rules' authors wrote the programs, and each label before its program ran for the first time. So the scores
show that the rules do what this page says, not how often they are wrong about programs of others. In the
first batch, four misses and two mistakes were faults of the rules; the others were faults of programs and
labels: a fault that had nothing to change, an SDK that waits longer than its label said. The second batch has
other forms of the same: calls from streams, MCP over stdio, errors with a good status, another server. The
rules did not know most of them. They were mended after each batch: then the recorded histories were judged
again, and programs that had been changed ran again."""
_COMMAND = "`python -m bench.findings.rules` runs them all again."


def rules_section(cases: Sequence[Case], scores: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the section."""
    reported: Reported = scores["reported"]
    yield from ("", "## How well the rules hit", "", *_INTRO.splitlines(), "")
    for batch, score in scores["first"].items():
        yield f"- At first sight, batch {batch}: {Score(**score).sentence}."
    yield f"- After the rules were mended, all: {score_of(cases, reported).sentence}."
    yield from (
        "",
        _COMMAND,
        "",
        "| rule | findings due | of them there | look-alikes | reported by mistake |",
    )
    yield "|---|---|---|---|---|"
    for rule in dict.fromkeys(case.rule for case in cases):
        score = score_of([case for case in cases if case.rule == rule], reported)
        row = (score.expected, score.hits, score.look_alikes, score.false + score.too_many)
        yield f"| [`{rule}`](#{rule}) | {' | '.join(map(str, row))} |"
    yield from (
        "",
        "The programs, with their words and faults, are in `bench/findings/rules/cases.yaml`:",
        "",
    )
    yield "| program | what it does | must be reported by | was reported by |"
    yield "|---|---|---|---|"
    yield from (_row(case, reported.get(case.name)) for case in cases)


def _row(case: Case, rules: Sequence[str] | None) -> str:
    faults = ", ".join(dict.fromkeys(f"`{fault['fault']}`" for fault in case.faults)) or "no fault"
    due = _names(case.fires) if case.fires else f"none (near `{case.near}`)"
    there = "not run" if rules is None else _names(rules) or "none"
    return f"| {case.name} (`{case.command[0]}`) | {case.does}; {faults} | {due} | {there} |"


def _names(rules: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in sorted(rules))
