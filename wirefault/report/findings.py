"""The findings of a run for people, and the page that tells of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from wirefault.judging.findings.finding import Finding, Rule, Severity
from wirefault.judging.findings.rules import RULES
from wirefault.report.tables import new_table, one_line

# with a sentence of two lines each, the heading and the last line there are ten
_MOST_GROUPS = 4
_MOST_EVENTS = 4
_STYLES: dict[Severity, str] = {"harmful": "bold red", "risky": "yellow", "wasteful": "", "note": "dim"}


def findings_table(findings: Sequence[Finding], run_id: str) -> RenderableType:
    """The gravest kinds with how many there are of each, and one of them with the events that show it."""
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.severity), []).append(finding)
    shown = list(groups.values())[:_MOST_GROUPS]
    table = new_table("findings", "n", "for example, with the events that show it", text_columns=(0, 2))
    table.columns[2].no_wrap = False
    for group in shown:
        first = group[0]
        sentence = f"{one_line(first.text)} [{_some(first.evidence)}]"
        table.add_row(Text(first.severity, style=_STYLES[first.severity]), str(len(group)), Text(sentence))
    left = len(findings) - sum(map(len, shown))
    others = f"{left} more of other kinds" if left else "all of them"
    return Group(table, Text(f"{others}: wirefault judge {run_id} --json; an event: --event ID", "dim"))


def _some(ids: Sequence[str]) -> str:
    more = len(ids) - _MOST_EVENTS
    return ", ".join(ids[:_MOST_EVENTS]) + (f" and {more} more" if more > 0 else "")


def findings_page() -> Iterator[str]:
    """The lines of ``docs/findings-rules.md`` below its introduction."""
    yield "| rule | severity | what it finds |"
    yield "|---|---|---|"
    yield from (f"| [`{rule.name}`](#{rule.name}) | {rule.severity} | {rule.title} |" for rule in RULES)
    for rule in RULES:
        yield from ("", f"## {rule.name}", "", *_paragraphs(rule))


def _paragraphs(rule: Rule) -> Iterator[str]:
    yield f"{rule.title[0].upper()}{rule.title[1:]} ({rule.severity}). {rule.fires}"
    yield from ("", "It says nothing where", "", *(f"- {case}" for case in rule.silent))
    yield from ("", "It is mistaken where there is", "", *(f"- {case}" for case in rule.mistaken))
