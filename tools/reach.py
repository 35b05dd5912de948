"""Name the test files that the changes since the last full green run reach; none if that means all.

A change of a room reaches the rooms that import it, the tests in their folders, each test that names one of
them, and each that starts programs; the frameworks, real clients that take minutes, only if it reaches what
they meet. Other changes reach the tests that name their top folder, or everything.

    python -m tools.reach            print the files; on stderr, which and why
    python -m tools.reach --record   record that everything passed: in .ci/green, which clones have, if
                                     WIREFAULT_REQUIRE is set; else in .git
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import grimp

from tests.conftest import SLOW_FOLDERS

ROOT = Path(__file__).resolve().parents[1]
TESTS = sorted(str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py"))
PROGRAMS = ("agent", "flask_tools", "proxy_manager")
# started as processes, or loaded by name
LOADED = {"wirefault.lab": (*PROGRAMS, "wirefault.model_server"), "wirefault.subjects": ("agent",)}
REACH_ALL = {"wirefault.core", "wirefault.history"}
CLIENTS = "tests/frameworks/"
MET_BY_CLIENTS = {"wirefault.gateway", "wirefault.subjects", "bench", "examples"}
TEXTS = ("action", "bench", "docs", "examples", "experiments", "tools")
MAX_COMMITS = 10
# tests/conftest.py fails a test that starts a process without this mark
_STARTS = re.compile(r"subprocess|Popen|\bfork|mark\.slow")
_STARTED = "every program"


class Everything(Exception):
    """Everything runs; the message has the reason."""


def named_in(text: str) -> Iterator[str]:
    """The rooms, files of tests and folders of texts that a file of tests names."""
    yield from re.findall(rf"(?<![.\w])(?:{'|'.join(TEXTS)})(?=[/\"'.]| import)|\.md\b", text)
    yield from re.findall(rf"\b(?:{'|'.join(PROGRAMS)})(?=\.[a-z]| import)", text)
    yield from re.findall(r"\bwirefault\.[a-z_]+|(?<=from )wirefault(?= import)", text)
    modules = re.findall(r"\btests(?:\.\w+)+", text)
    for module, names in re.findall(r"from (tests\S*) import (\([^)]*\)|.*)", text):
        modules += [f"{module}.{name}" for name in re.findall(r"\w+", names)]
    yield from (f"{module.replace('.', '/')}.py" for module in modules)


@cache
def graph() -> grimp.ImportGraph:
    """What imports, names or starts what: rooms, files of tests, folders of texts."""
    built = grimp.build_graph("wirefault", *PROGRAMS, cache_dir=None)
    rooms = {room.rpartition(".")[2]: room for room in (*built.find_children("wirefault"), *PROGRAMS)}
    for room in rooms.values():
        built.squash_module(room)
        built.add_import(importer=_STARTED, imported=room)
    named = {room: [*others] for room, others in LOADED.items()}
    for file in (ROOT / "tests").rglob("*.py"):
        path, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        folders = [folder for folder in Path(path).parents if len(folder.parts) > 1]
        named[path] = [*named_in(text), *(f"{folder}/conftest.py" for folder in folders)]
        named[path] += [rooms[folder.name] for folder in folders if folder.name in rooms]
        named[path] += [_STARTED] if _STARTS.search(text) or SLOW_FOLDERS & {*Path(path).parts} else []
    for path, names in named.items():
        for name in names:
            built.add_import(importer=path, imported=name)
    return built


def room_of(path: str) -> str | None:
    path = path.replace("wirefault/cli/run_process.py", "wirefault/lab/")  # which starts it
    room = re.match(rf"(wirefault/\w+|{'|'.join(PROGRAMS)})/", path)
    return room[1].replace("/", ".") if room else None


def reached(changed: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the rooms and the test files that changes of these files reach. Raises ``Everything``."""
    reach: set[str] = set()
    for path in changed:
        own = path[: path.find("/", len("tests/")) + 1]
        name = room_of(path) or re.sub(r"^[A-Z]+(?=\.md$)|/.*", "", path)
        if path.startswith("tests/") and own:
            reach |= {path, *(test for test in TESTS if test.startswith(own))}
        elif name in REACH_ALL or not (room_of(path) or name in (*TEXTS, ".md")):
            raise Everything(f"{path} changed")
        else:
            reach.add(name)
    reach |= {name for each in reach & graph().modules for name in graph().find_downstream_modules(each)}
    if not (reach & MET_BY_CLIENTS or any(path.startswith(CLIENTS) for path in changed)):
        reach = {name for name in reach if not name.startswith(CLIENTS)}
    return {name for name in reach if name.partition(".")[0] in ("wirefault", *PROGRAMS)}, reach & set(TESTS)


def git(*words: str) -> str:
    return subprocess.check_output(["git", "-C", ROOT, *words], text=True, stderr=subprocess.PIPE).strip()


def record_file() -> Path:
    committed = "WIREFAULT_REQUIRE" in os.environ
    return ROOT / (".ci/green" if committed else git("rev-parse", "--git-path", "wirefault-green"))


def changed_files() -> list[str]:
    try:
        green = record_file().read_text(encoding="utf-8").strip()
        commits = int(git("rev-list", "--count", f"{green}..HEAD"))
        changed = git("diff", "--name-only", "--no-renames", green).splitlines()
    except (OSError, subprocess.CalledProcessError):
        raise Everything("no full green run is known") from None
    if commits >= MAX_COMMITS or git("tag", "--points-at", "HEAD"):
        raise Everything(f"{commits} commits since the last full green run, or a tag")
    changed += git("ls-files", "--others", "--exclude-standard").splitlines()
    return [path for path in changed if path not in (".ci/green", "CHANGELOG.md")]


def main() -> None:
    if sys.argv[1:] == ["--record"]:
        green = git("stash", "create") or git("rev-parse", "HEAD")  # a commit of the tree as it is
        record_file().write_text(f"{green}\n", encoding="utf-8")
        return
    try:
        above, selected = reached(changed := changed_files())
    except Everything as reason:
        return print(f"every test: {reason}", file=sys.stderr)
    why = f"changed since every test passed: {' '.join(changed[:20])}; rooms: {' '.join(sorted(above))}"
    print(f"{len(selected)} of {len(TESTS)} test files, by what {why}", file=sys.stderr)
    print(*sorted(selected or TESTS[:1]))


if __name__ == "__main__":
    main()
