"""``wirefault skill``: instructions that name what exists."""

from __future__ import annotations

import re

from click.testing import CliRunner

from wirefault.audit.questions import QUESTIONS
from wirefault.cli.skill import skill_command
from wirefault.judging.findings.differences import DIFFERENCES
from wirefault.judging.findings.rules import RULES


def test_skill_names_existing_rules_and_questions() -> None:
    ended = CliRunner().invoke(skill_command)
    assert ended.exit_code == 0 and ended.stdout.startswith("---\nname: wirefault-audit\n")
    rules = {rule.name for rule in (*RULES, *DIFFERENCES)}
    cells = re.findall(r"^\| (`.*?) \|", ended.stdout, re.M)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named and named <= rules
    assert set(re.findall(r"--ask (\w+)", ended.stdout)) <= set(QUESTIONS)
