"""The canonical text of a fault set, read back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError
from wirefault.faults.sets.presets import canonical_text, find_set, preset, read_canonical
from wirefault.settings.settings import Settings
from wirefault.wiring.links import lab_links

FROZEN = Settings(seed=1, faults={"faults": [{"fault": "truncate"}]}).dump()


def test_process_parses_set_once():
    text = preset("heavy").dump()
    assert read_canonical(text) is read_canonical(text)
    assert find_set(text) is find_set(text)
    assert read_canonical(text) == preset("heavy") and read_canonical("") == FaultSet()


def test_chaos_level_lowers_every_probability():
    [fault] = read_canonical('{"faults": [{"fault": "truncate"}]}', 0.25).faults
    assert fault.when.probability == 0.25


def test_text_of_another_version_is_refused():
    with pytest.raises(FaultSetError, match="unknown fault 'truncat'; did you mean 'truncate'"):
        read_canonical('{"faults": [{"fault": "truncat"}]}')


@pytest.mark.parametrize("value", [3, None, ["truncate"]])
def test_invalid_type_is_left_to_settings(value):
    assert canonical_text(value, lab_links()) is value


@pytest.mark.slow
def test_settings_from_runs_row_load_no_catalogue():
    code = "import sys; from wirefault.settings.settings import load_frozen; load_frozen(sys.argv[1])"
    code += "; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, FROZEN], capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0 and "wirefault.faults.catalogue" not in out.stdout.split()
