"""Name the test files that the changes since the last full green run reach; none if that means all.

A change of a room reaches the rooms that import it, the tests in their folders, each test that names one of
them, and each that starts programs. Other changes reach the tests that name their top folder, or everything.

    python -m tools.reach            print the files; on stderr, which and why
    python -m tools.reach --record   record that everything passed: in .ci/green, which clones have, if
                                     WIREFAULT_REQUIRE is set; else in .git
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import grimp

from tests.conftest import SLOW_FOLDERS

ROOT = Path(__file__).resolve().parents[1]
TESTS = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py"))
PROGRAMS = ("agent", "flask_tools", "proxy_manager")
# started as processes, or loaded by name
LOADED = {"wirefault.lab": (*PROGRAMS, "wirefault.model_server"), "wirefault.subjects": ("agent",)}
REACH_ALL = {"wirefault.core", "wirefault.history"}
TEXTS = re.compile(r"(action|bench|docs|examples|experiments|tools)/|[A-Z]+\.(md)$")
MAX_COMMITS = 10
_ROOM = re.compile(r"\b(wirefault\.[a-z_]+|(?:agent|flask_tools|proxy_manager)(?=\.[a-z]| import))")
_STARTS = re.compile(r"subprocess|Popen|\bfork")
# a slow test of these may start programs, too; tests/conftest.py fails a fast one that does
_MAY_START = re.compile(r"from wirefault import|wirefault\.(cli|runner|experiments|lab|subjects)\b")


class Everything(Exception):
    """Everything runs; the message has the reason."""


@cache
def rooms() -> grimp.ImportGraph:
    """The imports between rooms: the packages of the library, and the lab's programs."""
    graph = grimp.build_graph("wirefault", *PROGRAMS, cache_dir=None)
    for room in [*graph.find_children("wirefault"), *PROGRAMS]:
        graph.squash_module(room)
    for room, others in LOADED.items():
        for other in others:
            graph.add_import(importer=room, imported=other)
    return graph


@cache
def sources(test: str) -> dict[str, str]:
    """A test file, the helpers that it names and the conftest files above them, with their texts."""
    texts: dict[str, str] = {}
    pending = [test]
    while pending:
        file = pending.pop()
        if file in texts or not (ROOT / file).is_file():
            continue
        texts[file] = text = (ROOT / file).read_text(encoding="utf-8")
        modules = re.findall(r"\btests(?:\.\w+)+", text)
        for module, names in re.findall(r"from (tests\S*) import (\([^)]*\)|.*)", text):
            modules += [f"{module}.{name}" for name in re.findall(r"\w+", names)]
        pending += [f"{module.replace('.', '/')}.py" for module in modules]
        pending += [f"{folder}/conftest.py" for folder in Path(file).parents if len(folder.parts) > 1]
    return texts


@cache
def text_of(test: str) -> str:
    return "\n".join(sources(test).values())


def room_of(path: str) -> str | None:
    if path == "wirefault/cli/run_process.py":
        return "wirefault.lab"  # which starts it
    room = re.match(rf"(wirefault/\w+|{'|'.join(PROGRAMS)})/", path)
    return room[1].replace("/", ".") if room else None


def is_above(test: str, rooms: set[str]) -> bool:
    """Whether a test is in the folder of one of these rooms, names one, or may start a program."""
    text = text_of(test)
    folder = test.split("/")[1]
    slow = "mark.slow" in text or folder in SLOW_FOLDERS
    starts = _STARTS.search(text) or (slow and _MAY_START.search(text))
    own = folder in {room.rpartition(".")[2] for room in rooms}
    return bool(own or starts or not rooms.isdisjoint(_ROOM.findall(text)))


def reached(changed: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the rooms and the test files that changes of these files reach. Raises ``Everything``."""
    above: set[str] = set()
    selected: set[str] = set()
    for path in changed:
        room, text = room_of(path), TEXTS.match(path)
        if room and room not in REACH_ALL:
            above |= {room, *rooms().find_downstream_modules(room)}
        elif path.startswith("tests/") and path.count("/") > 1:
            own = path[: path.index("/", len("tests/")) + 1]
            selected |= {test for test in TESTS if test.startswith(own) or path in sources(test)}
        elif text:
            name = re.compile(rf"\b{text[1] or text[2]}\b")
            selected |= {test for test in TESTS if name.search(text_of(test))}
        else:
            raise Everything(f"{path} changed")
    return above, selected | {test for test in TESTS if above and is_above(test, above)}


def git(*words: str, **environ: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.check_output(
        command, env=os.environ | environ, text=True, stderr=subprocess.PIPE
    ).strip()


def working_tree() -> str:
    """The hash of a tree with every file that is not ignored, as it is now."""
    with TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": f"{folder}/index"}
        git("add", "--all", **index)
        return git("write-tree", **index)


def record_file() -> Path:
    committed = "WIREFAULT_REQUIRE" in os.environ
    return ROOT / (".ci/green" if committed else git("rev-parse", "--git-path", "wirefault-green"))


def changed_files() -> list[str]:
    try:
        green = record_file().read_text(encoding="utf-8").strip()
        commits = int(git("rev-list", "--count", f"{green}..HEAD"))
        changed = git("diff", "--name-only", "--no-renames", green, working_tree()).splitlines()
    except (OSError, subprocess.CalledProcessError):
        raise Everything("no full green run is known") from None
    if commits >= MAX_COMMITS or git("tag", "--points-at", "HEAD"):
        raise Everything(f"{commits} commits since the last full green run, or a tag")
    return [path for path in changed if path not in (".ci/green", "CHANGELOG.md")]


def main() -> None:
    if sys.argv[1:] == ["--record"]:
        tree, head = working_tree(), git("rev-parse", "HEAD")
        clean = tree == git("rev-parse", "HEAD^{tree}")
        green = head if clean else git("commit-tree", tree, "-p", head, "-m", "every test passed")
        record_file().write_text(f"{green}\n", encoding="utf-8")
        return
    try:
        changed = changed_files()
        above, selected = reached(changed)
    except Everything as reason:
        print(f"every test: {reason}", file=sys.stderr)
        return
    print(
        f"{len(selected)} of {len(TESTS)} test files, by what changed since every test passed:",
        file=sys.stderr,
    )
    print("  changed:", *changed[:20], *(["..."] if changed[20:] else []), file=sys.stderr)
    print("  rooms:  ", *sorted(above), file=sys.stderr)
    print(*sorted(selected or TESTS[:1]))


if __name__ == "__main__":
    main()
