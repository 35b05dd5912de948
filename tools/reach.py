"""Name the test files that the changes since the last full green run reach; none if that means all.

A change of a room reaches the rooms that import it, the tests in their folders, each test that names one of
them, and each that starts programs; tests with real clients, which take minutes, only if it reaches what
these meet. Other changes reach the tests that name their top folder, or everything.

    python -m tools.reach            print the files; on stderr, which and why
    python -m tools.reach --record   record that everything passed: in .ci/green, which clones have, if
                                     WIREFAULT_REQUIRE is set; else in .git
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
TESTS = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")}
PROGRAMS = ("agent", "flask_tools", "proxy_manager")
# started as processes, or loaded by name
LOADED = {"wirefault.lab": [*PROGRAMS, "wirefault.model_server"], "wirefault.subjects": ["agent"]}
SCRIPTS = ("tests", "tools", "bench")  # may import every room
REACH_ALL = {"wirefault.core", "wirefault.history"}
# what clients meet; that the gateway sends the same bytes is shown by tests/gateway/test_frozen_replies.py
CLIENTS = {
    r"tests/frameworks/": r"wirefault\.(gateway|subjects)\b|\b(bench|examples)\b|tests/frameworks/",
    r"tests/faults/.*/test_(clients|requests)": r"wirefault\.(faults|dialects)\b|/(faults|dialects)/|_seen",
    r"tests/toxiproxy/clients/": r"wirefault\.toxiproxy\b|/(toxiproxy|conformance)/|_seen",
}
MAX_COMMITS = 10
_NAMES = re.compile(
    r"(?<![.\w])(?:action|bench|docs|examples|experiments|tools)(?=[/\"'.]| import)|\.md\b"
    rf"|\b(?:{'|'.join(PROGRAMS)})(?=\.[a-z]| import)|\bwirefault\.[a-z_]+|(?<=from )wirefault(?= import)"
)
# tests/conftest.py fails a test that starts a process without this mark
_STARTS = re.compile(r"subprocess|Popen|\bfork|mark\.slow")
_STARTED = "every program"


class Everything(Exception):
    """Everything runs; the message has the reason."""


def named_in(text: str) -> Iterator[str]:
    """The rooms, files of tests and folders of texts that a file of tests names."""
    yield from _NAMES.findall(text)
    yield from [_STARTED] if _STARTS.search(text) else []
    for module, names in re.findall(r"\b((?:tests|tools|bench)(?:\.\w+)+)(?: import (\([^)]*\)|.*))?", text):
        for name in ("", *re.findall(r"\w+", names)):
            yield f"{module}/{name}".replace(".", "/").rstrip("/") + ".py"


@cache
def graph() -> grimp.ImportGraph:
    """What imports, names or starts what: rooms, files of tests, folders of texts."""
    built = grimp.build_graph("wirefault", *PROGRAMS, cache_dir=None)
    rooms = [*built.find_children("wirefault"), *PROGRAMS]
    named: dict[str, list[str]] = {_STARTED: rooms, **LOADED}
    for room in rooms:
        built.squash_module(room)
    for file in (file for folder in SCRIPTS for file in (ROOT / folder).rglob("*.py")):
        path = str(file.relative_to(ROOT))
        named[path] = [*named_in(file.read_text(encoding="utf-8"))]
        for folder in Path(path).parents[:-2]:
            named[path] += [f"{folder}/conftest.py", f"wirefault.{folder.name}", folder.name]
    for path, names in named.items():
        for name in names:
            built.add_import(importer=path, imported=name)
    return built


def reached(changed: Sequence[str]) -> set[str]:
    """Return the test files that changes of these files reach. Raises ``Everything``."""
    reach: set[str] = set()
    for path in changed:
        name = re.sub(r"^[A-Z]+(?=\.md$)|(?<!^wirefault)/.*", "", path).replace("/", ".")
        if folder := re.match(r"tests/\w+/", path):
            reach |= {path, *(test for test in TESTS if test.startswith(folder[0]))}
        elif name in REACH_ALL or name not in graph().modules:
            raise Everything(f"{path} changed")
        else:
            reach.add(name)
    reach |= {name for each in reach & graph().modules for name in graph().find_downstream_modules(each)}
    touched = " ".join([*changed, *(name for name in reach if "/" not in name)])
    left_out = "|".join(tests for tests, what in CLIENTS.items() if not re.search(what, touched)) or "$"
    return {name for name in reach & TESTS if not re.match(left_out, name)}


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
        changed += git("ls-files", "--others", "--exclude-standard").splitlines()
    except (OSError, subprocess.CalledProcessError):
        raise Everything("no full green run is known") from None
    if commits >= MAX_COMMITS or git("tag", "--points-at", "HEAD"):
        raise Everything(f"{commits} commits since the last full green run, or a tag")
    return [path for path in changed if path not in (".ci/green", "CHANGELOG.md")]


def main() -> None:
    if sys.argv[1:] == ["--record"]:
        green = git("stash", "create") or git("rev-parse", "HEAD")  # a commit of the tree as it is
        record_file().write_text(f"{green}\n", encoding="utf-8")
        return
    try:
        selected = reached(changed := changed_files())
        why = f"{len(selected)} of {len(TESTS)} test files, by what changed since every test passed:"
        print(why, *changed[:20], file=sys.stderr)
        print(*sorted(selected) or [min(TESTS)])
    except Everything as reason:
        print(f"every test: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
