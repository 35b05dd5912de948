"""Every fault has a colour of its own or that of its group."""

from __future__ import annotations

import pytest

from wirefault.faults.catalogue import FAULTS
from wirefault.report.charts import style as palette


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_each_fault_is_drawn_in_a_colour_that_the_legend_names(kind):
    group = palette.group_of(kind.name)
    # an HTTP fault that no group names is drawn as any other
    assert group in palette.FAULT_COLORS or (group, kind.family) == ("other_fault", "http")


def test_the_groups_name_no_fault_that_is_not_there():
    assert palette._BY_NAME.keys() <= {kind.name for kind in FAULTS}


def test_no_two_have_the_same_colour():
    colours = [*palette.FAULT_COLORS.values(), palette.OTHER]
    assert len(set(colours)) == len(colours)


def test_a_kind_that_this_version_does_not_know_is_drawn_all_the_same():
    assert palette.group_of("of_old") == "other_fault"
