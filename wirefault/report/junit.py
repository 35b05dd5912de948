"""Verdicts of experiments as JUnit's XML, which pipelines read."""

from __future__ import annotations

from xml.etree import ElementTree

from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.report.experiment import shown_measures


def junit(flights: list[ExperimentResult]) -> str:
    """JUnit's XML: a suite per experiment, a case per statement; an unknown one is an error, no pass."""
    root = ElementTree.Element("testsuites")
    for flight in flights:
        checks = flight.judged.checks if flight.judged else []
        suite = ElementTree.SubElement(root, "testsuite", name=flight.plan.experiment.title)
        for check in checks:
            case = ElementTree.SubElement(suite, "testcase", classname=check.arm, name=check.statement)
            if check.verdict != "held":
                tag = "failure" if check.verdict == "deviated" else "error"
                problem = ElementTree.SubElement(case, tag, message=shown_measures(check))
                problem.text = "\n".join((*filter(None, [check.expected]), *check.evidence)) or None
        if flight.judged is None:
            case = ElementTree.SubElement(suite, "testcase", classname="experiment", name="flown to its end")
            ElementTree.SubElement(case, "error", message="it was not")
        for name, tag in (("tests", "testcase"), ("failures", ".//failure"), ("errors", ".//error")):
            suite.set(name, str(len(suite.findall(tag))))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
