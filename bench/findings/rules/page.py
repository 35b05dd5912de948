"""Make the section of ``docs/findings-rules.md`` about the programs that test the rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.findings.rules.cases import Case
from bench.findings.rules.scores import Reported, Score, score_of

_INTRO = """\
Small programs test each rule. Some must be reported; the others are look-alikes, which differ from them in
one property, and no rule may report these. They are real programs (Python with requests, httpx, urllib and
the SDKs of OpenAI and Anthropic, Node, curl) in `bench/findings/rules/clients`. They run as subjects of one
experiment, over real connections to a shop, an MCP server and a scripted model. The faults of a program act
only in its episodes, and the control runs every program twice without faults. Findings in all arms count,
except notes; `past_the_lab` makes only notes, so its notes count.

The rules' authors wrote the programs, and wrote each label before the first run of its program. So the scores
show that the rules work as described here, but not how often they are wrong about other people's programs. In
the first batch, four misses and two false positives were errors in the rules. The others were errors in the
programs and labels, such as a fault that had nothing to change, or an SDK that waits longer than its label
said. The second batch has other forms of the same cases: calls from streams, MCP over stdio, errors with
status 200, a second server. The rules missed most of them. The rules were corrected after each batch; then
the recorded histories were judged again, and the programs that had changed ran again."""
_COMMAND = "`python -m bench.findings.rules` runs all programs again."


def rules_section(cases: Sequence[Case], scores: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the section."""
    reported: Reported = scores["reported"]
    yield from ("", "## Accuracy of the rules", "", *_INTRO.splitlines(), "")
    for batch, score in scores["first"].items():
        yield f"- First run of batch {batch}: {Score(**score).sentence}."
    yield f"- All programs, after the corrections: {score_of(cases, reported).sentence}."
    yield from (
        "",
        _COMMAND,
        "",
        "| rule | findings expected | findings made | look-alikes | false positives |",
    )
    yield "|---|---|---|---|---|"
    for rule in dict.fromkeys(case.rule for case in cases):
        score = score_of([case for case in cases if case.rule == rule], reported)
        row = (score.expected, score.hits, score.look_alikes, score.false + score.too_many)
        yield f"| [`{rule}`](#{rule}) | {' | '.join(map(str, row))} |"
    yield from (
        "",
        "`bench/findings/rules/cases.yaml` has the programs with their arguments and faults:",
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
