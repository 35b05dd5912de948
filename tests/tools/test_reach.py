"""Which tests a change reaches, by the import graph and by faults planted in each room."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT, share
from tools import reach

ROOMS = [f"wirefault.{file.parent.name}" for file in sorted(ROOT.glob("wirefault/*/__init__.py"))]
ROOMS += reach.TABLE["programs"]
# imports every module that other tests name, without a room
PLANT = """
import sys
from importlib import import_module
room, *modules = sys.argv[1:]
class Planted:
    def find_spec(self, name, path=None, target=None):
        if f"{name}.".startswith(f"{room}."):
            raise ImportError("planted fault")
sys.meta_path.insert(0, Planted())
for module in modules:
    import_module(module)
"""
MODULE = re.compile(r"\bwirefault(?:\.\w+)+")
SELECTIVE = [room for room in ROOMS if room not in reach.TABLE["all"]]
UPPER = [room for room in SELECTIVE if re.match(reach.TABLE["upper"], room)]


def test_modules_that_a_file_imports_from_the_tests_are_found():
    named = [*reach.named_in("tests/compose/test_kill.py")]
    assert "from tests import commands" in text_of("tests/compose/test_kill.py")
    assert {"tests/commands.py", "tests/compose/engine.py", "tests/compose/conftest.py"} <= {*named}


@cache
def text_of(test: str) -> str:
    """The texts of a test file and of what it imports of tests, tools and measurements."""
    files = {test, *(name for name in reach.graph().find_upstream_modules(test) if name[-3:] == ".py")}
    return "\n".join((ROOT / file).read_text("utf-8") for file in files if (ROOT / file).is_file())


def has_clients(test: str) -> bool:
    return any(re.match(tests, test) for tests in reach.TABLE["clients"])


def a_file(room: str) -> str:
    return f"{room.replace('.', '/')}/some_file.py"


@cache
def running() -> list[str]:
    """The modules of programs; not computed when tests are collected, which each worker does."""
    return [name for name in reach.graph().modules if re.match(r"(wirefault|\w+$)", name)]


@pytest.mark.parametrize("room", SELECTIVE)
def test_room_reaches_own_tests_and_those_of_importing_rooms(room):
    above = {room, *(name for name in running() if room in reach.graph().find_upstream_modules(name))}
    folders = tuple(f"tests/{name.split('.')[:2][-1]}/" for name in above)
    wanted = {test for test in reach.TESTS if test.startswith(folders)}
    wanted |= {test for test in reach.TESTS if room not in UPPER and "subprocess" in text_of(test)}
    assert {test for test in wanted if not has_clients(test)} <= reach.reached([a_file(room)])


@pytest.mark.slow
@pytest.mark.parametrize("room", [room for number, room in enumerate(SELECTIVE) if share(number)])
def test_fault_planted_in_room_breaks_nothing_that_other_tests_name(room):
    left_out = {test for test in reach.TESTS if not has_clients(test)} - reach.reached([a_file(room)])
    names = {name for test in left_out for name in MODULE.findall(text_of(test))}
    modules = [name for name in names if (ROOT / f"{name.replace('.', '/')}.py").is_file()]
    assert modules
    subprocess.run([sys.executable, "-c", PLANT, room, *modules], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("path", "reaches", "reaches_not"),
    [
        ("tests/gateway/lab.py", "tests/gateway/test_bytes.py", "tests/stats/test_sequential.py"),
        ("docs/faults.md", "tests/project/test_docs.py", "tests/stats/test_sequential.py"),
        ("wirefault/memory/store.py", "tests/tools/test_reference.py", "tests/stats/test_sequential.py"),
        ("wirefault/cli/exec.py", "tests/e2e/test_exec.py", "tests/e2e/test_outcomes.py"),
        ("wirefault/report/page/write.py", "tests/e2e/test_exec.py", "tests/subjects/test_command.py"),
        ("wirefault/report/console.py", "tests/e2e/test_outcomes.py", "tests/stats/test_sequential.py"),
        ("wirefault/audit/questions.py", "tests/audit/test_audit.py", "tests/gateway/test_process.py"),
        ("wirefault/report/page/page.css", "tests/e2e/test_exec.py", "tests/subjects/test_command.py"),
        ("wirefault/memory/store.py", "tests/e2e/test_pages.py", "tests/e2e/test_kill_subject.py"),
        ("README.md", "tests/e2e/test_pages.py", "tests/stats/test_sequential.py"),
        ("tests/stats/test_sequential.py", "tests/stats/test_sequential.py", "tests/gateway/test_bytes.py"),
    ],
)
def test_other_files_reach_tests_that_read_them(path, reaches, reaches_not):
    selected = reach.reached([path])
    assert reaches in selected and reaches_not not in selected


FRAMEWORKS = "tests/frameworks/test_exec.py"
OF_FAULTS = "tests/faults/catalogue/model/test_clients.py"
OF_TOXICS = "tests/toxiproxy/clients/test_clients.py"


@pytest.mark.parametrize(
    ("path", "clients"),
    [
        ("wirefault/faults/base.py", {FRAMEWORKS, OF_FAULTS}),
        ("wirefault/dialects/mcp/shapes.py", {FRAMEWORKS, OF_FAULTS}),
        ("wirefault/gateway/core.py", {FRAMEWORKS}),
        ("wirefault/subjects/opening.py", {FRAMEWORKS}),
        ("examples/frameworks/agent.py", {FRAMEWORKS}),
        ("tests/frameworks/conftest.py", {FRAMEWORKS}),
        ("tests/frameworks/test_exec.py", {FRAMEWORKS}),
        ("tests/faults/catalogue/clients/seen.py", {OF_FAULTS}),
        ("wirefault/toxiproxy/server.py", {FRAMEWORKS, OF_FAULTS, OF_TOXICS}),
        ("docs/toxics_seen.json", {OF_FAULTS, OF_TOXICS}),
        ("wirefault/lab/launcher.py", set()),
        ("wirefault/report/console.py", set()),
    ],
)
def test_real_clients_run_if_the_change_reaches_what_they_meet(path, clients):
    assert {FRAMEWORKS, OF_FAULTS, OF_TOXICS} & reach.reached([path]) == clients


@pytest.mark.parametrize(
    "path",
    ["wirefault/core/files.py", "wirefault/history/events.py", "requirements.lock", "tests/support.py"],
)
def test_change_that_may_reach_everything_names_itself(path):
    with pytest.raises(reach.Everything, match=path):
        reach.reached([path])


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    monkeypatch.delenv("WIREFAULT_REQUIRE", raising=False)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    reach.git("init -q")
    (tmp_path / "a.py").write_text("1\n", encoding="utf-8")
    reach.git("add -A")
    reach.git("commit -qm a")
    yield tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("is_ci", [False, True])
def test_record_of_full_run_leaves_only_later_changes(clone, monkeypatch, is_ci):
    if is_ci:
        monkeypatch.setenv("WIREFAULT_REQUIRE", "docker")
        (clone / ".ci").mkdir()
    else:
        (clone / "a.py").write_text("2\n", encoding="utf-8")
    with pytest.raises(reach.Everything, match="no full green run"):
        reach.changed_files()
    monkeypatch.setattr(sys, "argv", ["reach", "--record"])
    reach.main()
    assert reach.changed_files() == []
    (clone / "b.py").write_text("new\n", encoding="utf-8")
    assert reach.changed_files() == ["b.py"]
    reach.git("add -A")
    reach.git("commit -qm all")
    assert reach.changed_files() == ["b.py"]
    reach.git("tag v1")
    with pytest.raises(reach.Everything, match="tag"):
        reach.changed_files()
    reach.git("tag -d v1")
    for _ in range(reach.MAX_COMMITS):
        reach.git("commit -q --allow-empty -m more")
    with pytest.raises(reach.Everything, match="commits since"):
        reach.changed_files()
