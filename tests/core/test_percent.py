from __future__ import annotations

import pytest

from wirefault.core.percent import percent


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.0, None, "0 %"),
        (1.0, None, "100 %"),
        (1 - 1e-16, None, "100 %"),
        (0.81234, None, "81.2 %"),
        (0.99989, None, "99.99 %"),
        (0.0000123, None, "0.00123 %"),
        (0.81234, 0, "81 %"),
        (0.999, 0, "99.9 %"),
        (0.0004, 0, "0.04 %"),
        (0.0, 0, "0 %"),
        (1.0, 0, "100 %"),
    ],
)
def test_nearly_all_is_not_all_and_little_not_nothing(share: float, decimals: int | None, text: str) -> None:
    assert percent(share, decimals=decimals) == text
