"""``wirefault faults show recovery-lab``."""

import pytest
from click.testing import CliRunner

from wirefault.cli.faults import faults_command
from wirefault.conversation.modes import LOOP_AFTER, Odds, Situation, modes


@pytest.mark.parametrize("multiplier", [1.0, 1.5, 2.0])
def test_show_prints_true_rates_and_diagrams(multiplier: float) -> None:
    words = ["show", "recovery-lab", "--chaos-level", str(multiplier)]
    output = CliRunner().invoke(faults_command, words).output
    later = Odds(multiplier).rates(Situation(LOOP_AFTER + 1))
    cells = {line.split()[0]: line.split() for line in output.splitlines() if line}
    for name, mode in modes().items():
        assert cells[name][1:4:2] == [f"{mode.probability:.2f}", f"{later.get(name, 0.0):.3f}"]
    assert cells["any"][2] == f"{sum(later.values()):.3f}"
    assert "between 1.5 and 9.5 s" in output and "waits 5 to 30 s" in output
    assert output.count("```mermaid\nflowchart TD") == 2
