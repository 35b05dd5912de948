"""When the tools of frameworks are marked; tests/frameworks calls them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wirefault import pytest_plugin
from wirefault.subjects.functions.frameworks import ROOTS

MADE = """
@tool
def price(item: str) -> str:
    "A price."
    return item

print(hasattr(price.func, "__wirefault_tool__"))
"""
IMPORT = "from langchain_core.tools import tool"


def test_plug_in_watches_for_the_same_frameworks() -> None:
    assert pytest_plugin.FRAMEWORKS == ROOTS


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        f"from wirefault.subjects.functions.frameworks import watch; watch(); {IMPORT}",
        f"{IMPORT}; from wirefault.subjects.functions.frameworks import watch; watch(); watch()",
        f"{IMPORT}; from wirefault import Experiment",
    ],
)
def test_tools_made_after_watching_are_marked(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{MADE}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
