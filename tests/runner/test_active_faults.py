"""Which fault set a run has: its own, or the lab's."""

from __future__ import annotations

import pytest

from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import FaultsSet
from wirefault.history.logs import faults_set_message
from wirefault.runner.attempts import set_in_force
from wirefault.runner.run import with_lab_faults
from wirefault.settings.settings import Settings
from wirefault.state.tables import ConfigurationRow

OWN = Settings(seed=1, chaos_level=0.5, faults={"toxics": [{"toxic": "down", "links": "search"}]})
NONE = Settings(seed=1, chaos_level=0.5)
LAB = Settings(seed=1, faults={"toxics": [{"toxic": "latency", "links": "search"}]}).faults


def row(faults=LAB):
    return ConfigurationRow("lab", 0, 3, faults, "mine.yaml", 1.0, None)


def test_run_without_faults_uses_lab_faults():
    settings, message = with_lab_faults(NONE, row())
    assert (settings.faults, settings.chaos_level) == (LAB, 1.0)
    assert message == "the lab's faults are in force: mine.yaml (configuration 3)"


@pytest.mark.parametrize(("settings", "there"), [(OWN, row()), (NONE, None), (NONE, row(""))])
def test_run_with_faults_keeps_own_faults(settings, there):
    assert with_lab_faults(settings, there) == (settings, "")


@pytest.mark.parametrize(
    ("live", "kinds"), [(None, [("down", 0.5)]), (row(), [("latency", 1.0)]), (row(""), [])]
)
def test_faults_set_later_replace_own_toxics(live, kinds):
    assert [
        (toxic.spec.kind, toxic.probability)
        for toxic in set_in_force(read_canonical(OWN.faults, OWN.chaos_level), live).toxics
    ] == kinds


@pytest.mark.parametrize(("entries", "what"), [(["latency"], "latency"), ([], "none")])
def test_message_names_faults_in_force(entries, what):
    message = faults_set_message(FaultsSet(1.0, "002", 1, 3, "", entries))
    assert message == f"configuration 3: faults set on the lab: {what}; in force in prompt 002, attempt 1"
