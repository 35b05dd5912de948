"""JUnit XML: a suite per experiment, a case per statement and arm; without statements, by findings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from wirefault.audit.result import worst_so_far
from wirefault.experiments.assertions.registry import statement_of
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.search.run_search import SearchResult
from wirefault.history.logs import strip_control
from wirefault.judging.ending import FailOn, fails, run_word, shows_nothing
from wirefault.judging.summary import Summary
from wirefault.report.experiment import measures_text
from wirefault.report.page_links import page_links
from wirefault.report.search import search_lines

# what XML 1.0 cannot hold even when it is escaped
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: list[ExperimentResult], fail_on: FailOn = "risky") -> str:
    """Return JUnit XML: a suite per experiment, a case per statement and arm. Raises ``InputError``.

    Unknown is an error, not a pass; a statement about an arm that was not run is skipped. ``fail_on``: the
    least severity of a failure, where there is no hypothesis.
    """
    root = ElementTree.Element("testsuites")
    for result in results:
        suite = ElementTree.SubElement(root, "testsuite", name=xml_text(result.plan.experiment.title))
        arms = {arm.name: arm for arm in result.arms}
        checks = result.judged.checks if result.judged else []
        links = page_links(result.saved) if arms else {}
        for check in checks:
            case = _junit_case(suite, check.arm, check.statement)
            pages = [links[check.arm, key] for key in check.episodes if (check.arm, key) in links]
            runs = ", ".join(arms[check.arm].run_ids) if check.arm in arms else ""
            page = next(iter([*pages, *(link for (arm, _), link in links.items() if arm == check.arm)]), "")
            figures = {"kind": check.kind, "measured": measures_text(check), "run": runs, "page": page}
            properties = ElementTree.SubElement(case, "properties")
            for name, value in figures.items():
                if value or name == "measured":
                    ElementTree.SubElement(properties, "property", name=name, value=xml_text(value))
            if check.verdict != "held":
                # a control that is not in its steady state leaves the verdict unknown
                fails_it = check.verdict == "deviated" and result.verdict != "unknown"
                tag = "failure" if fails_it else "error"
                problem = ElementTree.SubElement(case, tag, message=xml_text(measures_text(check)))
                lines = (check.expected, *check.evidence, f"page: {pages[0]}" if pages else "")
                problem.text = xml_text("\n".join(filter(None, lines))) or None
        for arm in result.plan.arms:
            if arm.name not in arms:
                for statement in (*arm.hypothesis, *map(statement_of, arm.assertions)):
                    skipped = ElementTree.SubElement(_junit_case(suite, arm.name, statement), "skipped")
                    skipped.set("message", xml_text(f"the arm {arm.name} was not run"))
        if result.harm_beside:
            ElementTree.SubElement(suite, "system-out").text = xml_text("\n".join(result.harm_beside))
        if result.run_summary is not None:
            _add_plain_run(suite, result.run_summary, result.word, fail_on)
        if result.judged is None and result.early:
            _add_early(suite, "experiment", result.word, worst_so_far(recording_of(result.saved)))
        if seconds := result.timing.get("seconds"):
            suite.set("time", f"{seconds:.3f}")
    return junit_text(root)


def search_junit(result: SearchResult) -> str:
    """Return JUnit XML of a search: one case, which passes with an answer. Its trials may fail."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=xml_text(result.saved.plan.experiment.title))
    case = _junit_case(suite, "search", result.kind)
    *lines, _ = search_lines(result)  # without its folder
    ElementTree.SubElement(case, "system-out").text = xml_text("\n".join(lines))
    if result.code:
        ElementTree.SubElement(case, "error", message=xml_text(lines[-1] if lines else "no answer yet"))
    return junit_text(root)


def run_junit(summary: Summary, fail_on: FailOn = "risky") -> str:
    """Return JUnit XML of a lone run, as pytest's plugin and a lab in Compose record it."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=xml_text(f"{summary.subject}, {summary.run_id}"))
    _add_plain_run(suite, summary, run_word(summary), fail_on)
    if not summary.completed:
        _add_early(suite, "run", run_word(summary), summary.worst)
    return junit_text(root)


def _add_early(suite: ElementTree.Element, kind: str, word: str, worst: str) -> None:
    """Add the case of a recording without its end."""
    case = _junit_case(suite, kind, "completed")
    message = f"{word}: it did not run to its end; worst finding so far: {worst or 'none'}"
    ElementTree.SubElement(case, "error", message=xml_text(message))


def _add_plain_run(suite: ElementTree.Element, summary: Summary, word: str, fail_on: FailOn) -> None:
    """Add the cases of a run without a hypothesis, which decide about its exit code."""
    case = _junit_case(suite, "run", "no harmful or risky finding")
    properties = ElementTree.SubElement(case, "properties")
    ElementTree.SubElement(properties, "property", name="verdict", value=word)
    failing = [each for each in summary.findings if fails(each.severity, fail_on)]
    if failing:
        problem = ElementTree.SubElement(case, "failure", message=xml_text(failing[0].text))
        lines = (f"{each.severity}: {each.rule}: {each.text} (episode {each.episode})" for each in failing)
        problem.text = xml_text("\n".join(lines))
    case = _junit_case(suite, "run", "faults were injected")
    if why := shows_nothing(summary):
        ElementTree.SubElement(case, "error", message=xml_text(why))


def _junit_case(suite: ElementTree.Element, arm: str, statement: str) -> ElementTree.Element:
    names = {"classname": xml_text(arm), "name": xml_text(statement)}
    return ElementTree.SubElement(suite, "testcase", names)


def junit_text(root: ElementTree.Element) -> str:
    """Return the document, with the number of cases in each suite."""
    for suite in root:
        for name, tag in (
            *(("tests", "testcase"), ("failures", ".//failure")),
            *(("errors", ".//error"), ("skipped", ".//skipped")),
        ):
            suite.set(name, str(len(suite.findall(tag))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def xml_text(text: str) -> str:
    return _NOT_XML.sub("", strip_control(text))
