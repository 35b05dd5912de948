"""Texts built to slow readers down: 30 kB of input that is hard for their expressions."""

import subprocess
import sys
from typing import get_args

import pytest

from tests.support import PATIENCE_S, examples
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.reading.stated import Stated, stated

SIZE = examples(30_000)
PIECES = (
    *(
        "9",
        "1,",
        "1.",
        "123,456,",
        " ",
        "-",
        "*",
        "[",
        "(",
        "<",
        "~",
        "$",
        "_",
        '"',
        "`",
        "&",
        "a",
        "½",
        "三",
        "٣",
    ),
    *(
        "<think>",
        "\\boxed{",
        "\\frac{",
        "[a](",
        "http://",
        "one ",
        "hundred ",
        "einundzwanzig",
        "not ",
        "1x10^",
    ),
    *(
        "not 8.4 ",
        "8.4 or ",
        "8.4? ",
        "|8.4",
        "8.4\n",
        "12 march ",
        "12:30 ",
        "8.4 °C ",
        "canberra ",
        "a-",
        "a@",
        "“",
        "«",
        "è ",
        "\u200b",
        "\0",
    ),
)
SLOT = Slot.model_validate({"any_of": [8.4, "Canberra", "2026-03-12", "14:30"], "unit": "celsius"})


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_hostile_text_ends_in_bounded_time(piece):
    assert stated(SLOT, (piece * SIZE)[:SIZE]) in get_args(Stated)


def test_cost_grows_linearly():
    # steps, not seconds: a run of the interpreter that counts calls is the same under any load
    def calls(size):
        counted = 0

        def count(frame, event, argument):
            nonlocal counted
            counted += 1

        sys.setprofile(count)
        try:
            stated(SLOT, "8.4 or 9, " * size)
        finally:
            sys.setprofile(None)
        return counted

    calls(5)
    assert calls(2_000) < 40 * calls(100)


@pytest.mark.slow
def test_start_does_not_load_pint_or_babel():
    code = (
        "import sys, wirefault.judging.judge\n"
        "from wirefault.judging.oracle.expect import parse_expect\n"
        "parse_expect({'values': [{'number': 1, 'unit': 'celsius'}]})\n"
        "assert not {'pint', 'babel'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
