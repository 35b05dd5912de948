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
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from subprocess import PIPE, CalledProcessError, check_output

import grimp

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
TESTS = {str(file.relative_to(ROOT)) for file in SCRIPTS if file.match("test_*.py")}
PROGRAMS = ("agent", "flask_tools", "proxy_manager")
# started as processes, or loaded by name
LOADED = {"wirefault.lab": [*PROGRAMS, "wirefault.model_server"], "wirefault.subjects": ["agent"]}
# who names one may start every program; tests/conftest.py fails a test that starts one without that mark
STARTS = "subprocess|Popen|fork|mark.slow"
REACH_ALL = {"wirefault.core", "wirefault.history"}
# what clients meet; that the gateway sends the same bytes is shown by tests/gateway/test_frozen_replies.py
CLIENTS = {
    r"tests/frameworks/": r"wirefault\.(gateway|subjects)\b|\b(bench|examples)\b|tests/frameworks/",
    r"tests/faults/.*/test_(clients|requests)": r"wirefault\.(faults|dialects)\b|/(faults|dialects)/|_seen",
    r"tests/toxiproxy/clients/": r"wirefault\.toxiproxy\b|/(toxiproxy|conformance)/|_seen",
}
MAX_COMMITS = 10
_NAMES = re.compile(
    rf"{STARTS}|(?<![.\w])(?:action|bench|docs|examples|experiments|tools)(?=[/\"'.]| import)|\.md\b"
    rf"|\b(?:{'|'.join(PROGRAMS)})(?=\.[a-z]| import)|\bwirefault\.[a-z_]+|(?<=from )wirefault(?= import)"
)


class Everything(Exception):
    """Everything runs; the message has the reason."""


def named_in(file: Path) -> Iterator[str]:
    """The rooms, scripts and folders of texts that a script names."""
    yield from _NAMES.findall(text := file.read_text(encoding="utf-8"))
    for module, names in re.findall(r"\b((?:tests|tools|bench)(?:\.\w+)*)(?: import( \([^)]*\)| .*))?", text):
        yield from (re.sub(r"\W+", "/", f"{module} {one}".strip()) + ".py" for one in re.split(r"\W", names))
    for folder in file.relative_to(ROOT).parents[:-2]:
        yield from (f"{folder}/conftest.py", f"wirefault.{folder.name}", folder.name)


@cache
def graph() -> grimp.ImportGraph:
    """What imports, names or starts what: rooms, files of tests, folders of texts."""
    built = grimp.build_graph("wirefault", *PROGRAMS, cache_dir=None)
    rooms = [*built.find_children("wirefault"), *PROGRAMS]
    for room in rooms:
        built.squash_module(room)
    scripts = {str(file.relative_to(ROOT)): [*named_in(file)] for file in SCRIPTS}
    named = LOADED | dict.fromkeys(STARTS.split("|"), rooms) | scripts
    for importer, imported in ((path, name) for path, names in named.items() for name in names):
        built.add_import(importer=importer, imported=imported)
    return built


def reached(changed: Sequence[str]) -> set[str]:
    """Return the test files that changes of these files reach. Raises ``Everything``."""
    reach: set[str] = set()
    for path in changed:
        name = re.sub(r"^[A-Z]+(?=\.md$)|(?<!^wirefault)/.*", "", path).replace("/", ".")
        folder = re.match(r"tests/\w+/", path)
        if not folder and (name in REACH_ALL or name not in graph().modules):
            raise Everything(f"{path} changed")
        reach |= {path, *(test for test in TESTS if test.startswith(folder[0]))} if folder else {name}
    reach |= {name for each in reach & graph().modules for name in graph().find_downstream_modules(each)}
    touched = " ".join([*changed, *(name for name in reach if "/" not in name)])
    left_out = "|".join(tests for tests, what in CLIENTS.items() if not re.search(what, touched)) or "$"
    return {name for name in reach & TESTS if not re.match(left_out, name)}


def git(words: str) -> str:
    return check_output(["git", "-C", str(ROOT), *words.split()], text=True, stderr=PIPE).strip()


def record_file() -> Path:
    return ROOT / (".ci/green" if "WIREFAULT_REQUIRE" in os.environ else git("rev-parse --git-path green"))


def changed_files() -> list[str]:
    try:
        green = record_file().read_text(encoding="utf-8").strip()
        commits = int(git(f"rev-list --count {green}..HEAD"))
    except (OSError, CalledProcessError):
        raise Everything("no full green run is known") from None
    if commits >= MAX_COMMITS or git("tag --points-at HEAD"):
        raise Everything(f"{commits} commits since the last full green run, or a tag")
    changed = git(f"diff --name-only --no-renames {green}") + "\n" + git("ls-files -o --exclude-standard")
    return [path for path in changed.split("\n") if path not in ("", ".ci/green", "CHANGELOG.md")]


def main() -> None:
    if sys.argv[1:] == ["--record"]:  # a commit of the tree as it is
        record_file().write_text(git("stash create") or git("rev-parse HEAD"), encoding="utf-8")
        return
    try:
        print(*(selected := sorted(reached(changed := changed_files())) or [min(TESTS)]))
        print(f"{len(selected)} of {len(TESTS)} test files, for:", *changed[:20], file=sys.stderr)
    except Everything as reason:
        print(f"every test: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
