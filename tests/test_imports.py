"""The import rule of the design: who may see whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("agent", "proxy_manager", "flask_tools")
CONTRACT = {
    *("catalog", "topology", "database", "worlds", "lifeline", "schedule", "baggage", "settings"),
    *("state", "events", "history", "subject", "config", "logs", "prompts", "lock"),
    *("digest", "faults", "api_token", "configurations"),
}
# what starts a run and tells of it
RUNS = {"runner", "control", "report", "summary", "translator"}


def imported(source, package):
    """The dotted names that a module imports, ``from a import b`` as ``a.b``; at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def modules(package):
    return sorted((ROOT / package).rglob("*.py"))


def imports(path):
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return [name.split(".") for name in imported(path.read_text(encoding="utf-8"), package)]


ALL = [path for package in (*PARTS, "windtunnel") for path in modules(package)]


def part_of(path):
    return path.relative_to(ROOT).parts[0]


def each(*parts):
    chosen = [path for path in ALL if part_of(path) in parts]
    return pytest.mark.parametrize("path", chosen, ids=lambda path: str(path.relative_to(ROOT)))


def test_all_packages_are_looked_at():
    assert {part_of(path) for path in ALL} == {*PARTS, "windtunnel"}


def test_imports_are_found_wherever_they_stand():
    source = (
        "import a.b as c\ndef f():\n    from . import d\n    from ..e import g\n    from h.i import j, k\n"
    )
    assert list(imported(source, "p.q")) == ["a.b", "p.q.d", "p.e.g", "h.i.j", "h.i.k"]


@each(*PARTS, "windtunnel")
def test_agent_manager_and_tools_never_import_each_other(path):
    forbidden = {
        "agent": {"proxy_manager", "flask_tools"},
        "proxy_manager": {"agent", "flask_tools"},
        "flask_tools": {"agent", "proxy_manager"},
        "windtunnel": {"agent", "flask_tools"},
    }
    assert [name for name in imports(path) if name[0] in forbidden[part_of(path)]] == []


@each(*PARTS)
def test_of_windtunnel_the_others_see_only_the_contract(path):
    allowed = CONTRACT | (RUNS if path == ROOT / "agent" / "__main__.py" else set())
    seen = {".".join(name[1:2]) for name in imports(path) if name[0] == "windtunnel"}
    assert seen <= allowed


@each("windtunnel")
def test_of_the_manager_windtunnel_sees_only_the_toxics(path):
    seen = [name for name in imports(path) if name[0] == "proxy_manager"]
    assert [name for name in seen if name[1:2] != ["toxics"]] == []


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_the_contract_needs_nothing_that_is_not_contract(name):
    path = ROOT / "windtunnel" / f"{name}.py"
    paths = [path] if path.exists() else modules(f"windtunnel/{name}")
    # the prompts file holds oracles, and says at once which are broken
    allowed = CONTRACT | ({"oracle"} if name == "prompts" else set())
    assert paths
    assert {part[1] for path in paths for part in imports(path) if part[0] == "windtunnel"} <= allowed


def test_the_toxics_import_nothing_of_ours():
    ours = [
        name
        for path in modules("proxy_manager/toxics")
        for name in imports(path)
        if name[0] in (*PARTS, "windtunnel")
    ]
    assert {tuple(name[:2]) for name in ours} == {("proxy_manager", "toxics")}
