"""docs/adding-a-fault.md, followed word by word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.faults.catalogue.clients.upstream import answering
from tests.faults.tries import a_try
from tests.gateway.lab import gateway
from windtunnel.dialects.http import json_reply
from windtunnel.faults.catalogue import REGISTRY
from windtunnel.faults.sets.fault_set import load_set
from windtunnel.report.fault_catalogue import fault_page

PAGE = Path("docs/adding-a-fault.md").read_text(encoding="utf-8")
CODE, TEST, OBJECTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[SET] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The page's module, its fault registered as the page says."""
    names: dict[str, Any] = {"__name__": "the_page", "a_try": a_try, "json_reply": json_reply}
    exec(compile(CODE, "adding-a-fault.md", "exec", dont_inherit=True), names)
    monkeypatch.setitem(REGISTRY, "rounded", names["Rounded"])  # type: ignore[misc]
    return names


def test_its_test_passes(written: dict[str, Any]) -> None:
    exec(compile(TEST, "adding-a-fault.md", "exec"), written)
    written["test_numbers_lose_their_digits"]()


def test_it_is_about_thirty_lines_long() -> None:
    body = CODE[CODE.index("class Rounded") :]
    assert len(body.splitlines()) <= 35


def test_it_can_be_named_in_a_set_and_has_its_page(written: dict[str, Any]) -> None:
    found = load_set(SET, "the page", REGISTRY)
    assert [entry.id for entry in found.faults] == ["rounded", "lost-messages"]
    assert [toxic.id for toxic in found.toxics] == ["latency"]
    assert "| `digits` | `0` | ≥ 0, ≤ 6 | decimal places that are left |" in fault_page(written["Rounded"])


def test_a_set_can_be_written_in_python() -> None:
    exec(compile(OBJECTS, "adding-a-fault.md", "exec", dont_inherit=True), {})


def test_it_works_on_the_wire(written: dict[str, Any], tmp_path: Path) -> None:
    with (
        answering(json_reply(200, {"celsius": 21.37})) as upstream,
        gateway(tmp_path, weather=upstream.address) as lab,
    ):
        lab.begin(faults={"faults": [{"fault": "rounded", "with": {"digits": 1}}]})
        answer = requests.get(lab.url("weather", "/weather"), headers=lab.identity(), timeout=5)
        [met] = lab.exchange().faults
    assert answer.json() == {"celsius": 21.4}
    assert met.injected and met.evidence["original"] == {"celsius": 21.37}
