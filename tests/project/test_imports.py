"""The import rule of the design: a room imports only from the rooms above its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests.support import ROOT

PROGRAMS = ("agent", "proxy_manager", "flask_tools")
ROOMS = (
    *("core", "dialects", "toxiproxy", "wiring", "faults", "settings", "cassettes", "history", "state"),
    *("stats", "judging"),
    *("gateway", "model_server", "recovery", "subjects", "lab", "runner", "experiments", "report", "cli"),
)
SEEN_BY_PROGRAMS = {*ROOMS[: ROOMS.index("state") + 1], "recovery", "subjects"}


def imported(source, package):
    """The dotted names that a module imports, ``from a import b`` as ``a.b``; at any depth of the code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache  # several rules look at each module
def imports(path):
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return [name.split(".") for name in imported(path.read_text(encoding="utf-8"), package)]


def modules(*packages):
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def breaking(paths, forbidden):
    """By module what it imports of what is forbidden to it."""
    found = {
        str(path.relative_to(ROOT)): [".".join(name) for name in imports(path) if forbidden(path, name)]
        for path in paths
    }
    return {path: names for path, names in found.items() if names}


def is_room_outside(rooms, name):
    return name[0] == "wirefault" and name[1] not in rooms


def room_of(path):
    return path.relative_to(ROOT / "wirefault").parts[0]


def test_imports_are_found_wherever_they_stand():
    source = (
        "import a.b as c\ndef f():\n    from . import d\n    from ..e import g\n    from h.i import j, k\n"
    )
    assert list(imported(source, "p.q")) == ["a.b", "p.q.d", "p.e.g", "h.i.j", "h.i.k"]


def test_the_library_has_no_modules_outside_its_rooms():
    loose = {path.name for path in (ROOT / "wirefault").glob("*.py")}
    folders = {path.parent.name for path in (ROOT / "wirefault").glob("*/__init__.py")}
    assert loose == {"__init__.py", "__main__.py"}
    assert folders <= set(ROOMS)


def test_a_room_imports_only_from_rooms_above_its_own():
    paths = modules(*(f"wirefault/{room}" for room in ROOMS))
    assert len(paths) > 500

    def below(path, name):
        return is_room_outside(ROOMS[: ROOMS.index(room_of(path)) + 1], name)

    assert breaking(paths, below) == {}


def test_the_library_imports_none_of_the_programs():
    assert breaking(modules("wirefault"), lambda _, name: name[0] in PROGRAMS) == {}


def test_the_programs_never_import_each_other():
    def another(path, name):
        return name[0] in set(PROGRAMS) - {path.relative_to(ROOT).parts[0]}

    assert breaking(modules(*PROGRAMS), another) == {}


def test_of_the_library_the_programs_see_what_they_may():
    assert breaking(modules(*PROGRAMS), lambda _, name: is_room_outside(SEEN_BY_PROGRAMS, name)) == {}


def test_no_modules_import_each_other_in_a_circle():
    files = modules("wirefault", *PROGRAMS)
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files
    }
    left = {}
    for path in files:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        targets = [".".join(parts) for parts in imports(path)]
        left[name] = {t if t in names else t.rpartition(".")[0] for t in targets} & names - {name}
    while True:  # what imports nothing that is left, and what nothing left imports, is in no circle
        imported_names = set().union(*left.values())
        circles = {name: left[name] & left.keys() for name in left if left[name] & left.keys()}
        circles = {name: targets for name, targets in circles.items() if name in imported_names}
        if circles.keys() == left.keys():
            break
        left = circles
    assert left == {}


@pytest.mark.slow
def test_importing_the_settings_loads_no_fault_catalogue():
    code = "import sys, wirefault.settings.configuration; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert [name for name in out.stdout.split() if name.startswith("wirefault.faults.catalogue")] == []
