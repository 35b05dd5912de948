"""The end of a message about an unknown name."""

from __future__ import annotations

import pytest

from wirefault.core.errors import nearest


@pytest.mark.parametrize(
    ("name", "valid", "suggestion"),
    [
        ("latncy", ["latency", "timeout"], "; did you mean 'latency'?"),
        ("TOOL_TIMOUT", ["tool_timeout"], "; did you mean 'tool_timeout'?"),
        ("tool_timout", ["TOOL_TIMEOUT"], "; did you mean 'TOOL_TIMEOUT'?"),
        ("zzz", {"latency": 1, "Jitter": 2}, "; valid: latency, Jitter"),
        ("zzz", (), "; it has none"),
    ],
)
def test_nearest_name_or_else_all_names(name, valid, suggestion):
    assert nearest(name, valid) == suggestion
