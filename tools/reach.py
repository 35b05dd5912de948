"""Name the test files that the changes since the last full green run reach; none if that means all.

A change of a room reaches the rooms that import it, the tests in their folders, each test that names one of
them, and each that starts programs. A change of an upper room reaches the tests that run a command which
imports the changed module. Other changes reach the tests that name their top folder, or everything. How tests
name what they start is in tests/reach.toml.

    python -m tools.reach            print the files; on stderr, which and why
    python -m tools.reach --record   record that everything passed: in .ci/green, which clones have, if
                                     WIREFAULT_REQUIRE is set; else in .git
"""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import PIPE, CalledProcessError, check_output

import grimp

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads((ROOT / "tests/reach.toml").read_text("utf-8"))
FILES = [file for folder in ("tests", "tools", "bench") for file in (ROOT / folder).rglob("*.py")]
SCRIPTS = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in FILES}
TESTS = {script for script in SCRIPTS if "/test_" in script}
MAX_COMMITS = 10


class Everything(Exception):
    """Everything runs; the message has the reason."""


def named_in(script: str) -> Iterator[str]:
    """The rooms, modules, scripts and folders of texts that a script names."""
    yield from re.findall(f"{TABLE['names']}|{TABLE['starts']}", SCRIPTS[script])
    for module, names in re.findall(TABLE["scripts"], SCRIPTS[script]):
        yield from (re.sub(r"\W+", "/", f"{module} {one}".strip()) + ".py" for one in re.split(r"\W", names))
    for folder in Path(script).parents[:-2] if script in TESTS else ():
        yield from (f"{folder}/conftest.py", f"wirefault.{folder.name}", folder.name)


def index(modules: Iterable[str]) -> dict[str, set[str]]:
    """By name, the modules with this name or below it."""
    inner: dict[str, set[str]] = {}
    for module in modules:
        words = module.split(".")
        for number in range(len(words)):
            inner.setdefault(".".join(words[: number + 1]), set()).add(module)
    return inner


def below(name: str, inner: Mapping[str, set[str]]) -> set[str]:
    """The modules with this name or below it; else below the nearest name above it that has one."""
    parent = name.rpartition(".")[0]
    return inner.get(name) or (below(parent, inner) if parent not in ("", "wirefault") else set())


@cache
def graph() -> grimp.ImportGraph:
    """What imports, names or starts what: rooms, modules of upper rooms, files of tests, folders of texts."""
    built = grimp.build_graph("wirefault", *TABLE["programs"], cache_dir=None)
    upper = {name for name in built.modules if re.match(TABLE["upper"], name)}
    for room in (rooms := {*built.find_children("wirefault"), *TABLE["programs"]} - upper):
        built.squash_module(room)
    modules = built.modules
    inner, started = index(modules), {*rooms, "wirefault.cli.run_process"} - {*TABLE["all"]}
    named = TABLE["loaded"] | dict.fromkeys(TABLE["starts"].replace("\\", "").split("|"), started)
    for importer, names in [*named.items(), *((script, named_in(script)) for script in SCRIPTS)]:
        for imported in {each for name in names for each in below(name, inner) or {name}}:
            built.add_import(importer=importer, imported=imported)
    for script in SCRIPTS.keys() & built.find_downstream_modules("wirefault.cli.main"):
        words, each = (re.findall(TABLE[key], SCRIPTS[script]) for key in ("command", "any_command"))
        for command in upper if each else {f"wirefault.cli.{word}" for word in words} & {*modules, *named}:
            built.add_import(importer=script, imported=command)
    return built


def reached(changed: Sequence[str]) -> set[str]:
    """Return the test files that changes of these files reach. Raises ``Everything``."""
    reach: set[str] = set()
    inner = index(graph().modules)
    for path in changed:
        place = re.sub(r"\.py$|^[A-Z]+(?=\.md$)|/[^/]+(?<!\.py)$", "", path)
        names = below(place.replace("/", "."), inner)
        folder = re.match(r"tests/\w+/", path)
        if not folder and (not names or names & {*TABLE["all"]}):
            raise Everything(f"{path} changed")
        reach |= {path, *(test for test in TESTS if test.startswith(folder[0]))} if folder else names
    reach |= {name for each in reach & graph().modules for name in graph().find_downstream_modules(each)}
    touched = " ".join([*changed, *(name for name in reach if "/" not in name)])
    clients = TABLE["clients"].items()
    left_out = "|".join(tests for tests, what in clients if not re.search(what, touched)) or "$"
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
