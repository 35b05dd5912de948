"""Every fault has its own colour or its group's."""

from __future__ import annotations

import pytest

from wirefault.faults.catalogue import FAULTS
from wirefault.judging import charted
from wirefault.report.charts import style as palette


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_fault_colours_are_in_legend(kind):
    group = charted.group_of(kind.name)
    # an HTTP fault that no group names is drawn as any other
    assert group in palette.FAULT_COLORS or (group, kind.family) == ("other_fault", "http")


def test_groups_name_known_faults_only():
    assert charted._BY_NAME.keys() <= {kind.name for kind in FAULTS}


def test_fault_colours_are_distinct():
    colours = [*palette.FAULT_COLORS.values(), palette.OTHER]
    assert len(set(colours)) == len(colours)


def test_unknown_kind_is_drawn():
    assert charted.group_of("of_old") == "other_fault"
