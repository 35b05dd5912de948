"""Callables of a user: results count, and exceptions leave the assertion unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.assertions.views import result, view
from tests.judging.oracle.histories import ended, healed
from wirefault.experiments.assertions.on_arm import assert_on_arm

ROME = view(ended(ended_by="text", response="Rome"))
INVALID = view(healed(invalid="disturbed"))
OWN = "tests.experiments.assertions.own"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", f"{OWN}:raises raised RuntimeError"),  # the text may contain output of the subject
        ("leaves", f"{OWN}:leaves raised SystemExit"),
        ("does_not_know", "its function returned None"),
        ("returns_text", f"{OWN}:returns_text returned 'yes', not True, False, None or CheckResult"),
        ("gone", f"{OWN}:gone: unknown function"),
    ],
)
def test_callable_without_answer_is_unknown(name: str, message: str) -> None:
    checked = result({"callable": f"{OWN}:{name}"}, ROME)
    assert (checked.passed, checked.message) == (None, message)


def test_callable_may_return_measure() -> None:
    checked = result({"callable": f"{OWN}:tells_more"}, ROME)
    assert (checked.name, checked.measured, checked.expected) == ("callable", "Message Bob", "a prompt")
    assert checked.evidence == ("agent-0:1",)


def test_callable_output_stays_out_of_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "noisy.py"
    file.write_text("print('loaded')\ndef noisy(episode):\n    print('asked')\n    return True\n", "utf-8")
    assert result({"callable": f"{file}:noisy"}, ROME).passed is True
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "loaded\nasked\n")


def test_deleted_file_is_unknown(tmp_path: Path) -> None:
    checked = result({"callable": f"{tmp_path / 'gone.py'}:polite"}, ROME)
    assert checked.passed is None and "cannot be loaded: FileNotFoundError" in checked.message


def test_arm_callable_runs_once_with_all_episodes() -> None:
    entry = {"callable": {"function": f"{OWN}:several", "over": "arm"}}
    assert assert_on_arm(entry, {}, 1, [ROME]).result.passed is False
    assert assert_on_arm(entry, {}, 2, [ROME, ROME]).result.passed is True
    assert assert_on_arm(entry, {}, 2, [ROME, INVALID]).result.passed is None
    assert assert_on_arm(entry, {}, 3, [ROME, ROME]).result.passed is None
