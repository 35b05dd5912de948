"""Plants faults by room, and checks that the tests that tools/reach.py selects catch what all tests catch.

python -m bench.mutations [NUMBER [SEED [PYTEST_OPTION ...]]]   by default 40 faults, seed 1

A fault flips one comparison or drops one line. Each file of tests runs once, with every fault planted for
which the selection leaves it out. If it passes, the selection missed none of them. If it fails, halves of the
faults are planted until the guilty one is known: the tests selected for it must fail, too. Files change in
place and are restored; run it in a clean clone.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.reach import ROOT, TABLE, TESTS, graph, reached

FLIPPED = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.Gt: "<=", ast.LtE: ">", ast.GtE: "<"}
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr)
QUICK = ("-x", "-m", "not slow")


class Fault(NamedTuple):
    path: str
    line: int
    faulty: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.faulty.strip()}"


def _is_room(name: str) -> bool:
    return name[:10] == "wirefault." and "." not in name[10:] and (ROOT / name.replace(".", "/")).is_dir()


ROOMS = sorted({*TABLE["programs"], *filter(_is_room, graph().modules)} - {*TABLE["all"]})


def mutants(file: Path) -> Iterator[Fault]:
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            line = getattr(node, "lineno", 0) - 1
            if getattr(node, "end_lineno", 0) != line + 1 or not lines[line].isascii():
                continue
            changed = ""
            if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
                left, right = node.left.end_col_offset, node.comparators[0].col_offset
                changed = f"{lines[line][:left]} {FLIPPED[type(node.ops[0])]} {lines[line][right:]}"
            elif isinstance(node, DROPPED) and not _is_docstring(node):
                changed = lines[line][: node.col_offset] + "pass\n"
            if changed and _compiles("".join([*lines[:line], changed, *lines[line + 1 :]])):
                yield Fault(str(file.relative_to(ROOT)), line + 1, changed)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:  # a parenthesis was left open
        return False
    return True


def drawn(number: int, seed: str) -> list[Fault]:
    """Faults in 20 rooms in turn, no two in one line."""
    draw, faults = random.Random(seed), dict[tuple[str, int], Fault]()
    rooms = draw.sample(ROOMS, min(20, len(ROOMS)))
    while len(faults) < number:
        files = sorted((ROOT / rooms[len(faults) % len(rooms)].replace(".", "/")).rglob("*.py"))
        fault = draw.choice([*mutants(draw.choice([file for file in files if any(mutants(file))]))])
        faults.setdefault(fault[:2], fault)
    return [*faults.values()]


@contextmanager
def planted(faults: Sequence[Fault]) -> Iterator[None]:
    originals = {fault.path: (ROOT / fault.path).read_bytes() for fault in faults}
    try:
        for path, original in originals.items():
            lines = original.decode().splitlines(keepends=True)
            for fault in faults:
                if fault.path == path:
                    lines[fault.line - 1] = fault.faulty
            (ROOT / path).write_text("".join(lines), encoding="utf-8")
        yield
    finally:
        for path, original in originals.items():
            (ROOT / path).write_bytes(original)


def failing(tests: Iterable[str], faults: Sequence[Fault], options: Sequence[str]) -> set[str]:
    """The files of tests that fail with these faults. Raises ``RuntimeError`` if pytest cannot run."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-rfE", "--hypothesis-profile=fast"]
    with planted(faults):
        ended = subprocess.run([*command, *options, *sorted(tests)], cwd=ROOT, capture_output=True, text=True)
    if ended.returncode in (0, 5):  # 5: all are deselected
        return set()
    failed = set(re.findall(r"^(?:FAILED|ERROR) (tests/[\w/]+\.py)", ended.stdout, re.MULTILINE))
    if not failed and not faults:
        raise RuntimeError(ended.stdout[-2000:] + ended.stderr[-2000:])
    return failed or set(tests)  # a fault that stops pytest itself


def guilty(
    tests: set[str], faults: Sequence[Fault], options: Sequence[str]
) -> Iterator[tuple[Fault, set[str]]]:
    """Each fault that makes files of these tests fail alone, and which."""
    failed = failing(tests, faults, options) if tests else set()
    if failed and len(faults) == 1:
        yield faults[0], failed
    elif failed:
        yield from guilty(failed, faults[: len(faults) // 2], options)
        yield from guilty(failed, faults[len(faults) // 2 :], options)


def main(number: str = "40", seed: str = "1", *options: str) -> int:
    faults = drawn(int(number), seed)
    selected = {fault: reached([fault.path]) for fault in faults}
    groups = defaultdict[frozenset[Fault], set[str]](set)
    for test in TESTS:
        groups[frozenset(fault for fault in faults if test not in selected[fault])].add(test)
    outside = defaultdict[Fault, set[str]](set)
    for left_out, tests in sorted(groups.items(), key=lambda group: len(group[1])):
        if not left_out:
            continue
        print(f"{len(tests)} files of tests, left out for {len(left_out)} faults", flush=True)
        planted_faults = [fault for fault in faults if fault in left_out]
        failed = failing(tests, planted_faults, options)
        unsound = failing(failed, [], options) if failed else set()
        if unsound:
            print("  fail without a fault:", *sorted(unsound), flush=True)
        for fault, files in guilty(failed - unsound, planted_faults, options):
            print(f"  {fault} fails {' '.join(sorted(files))}", flush=True)
            outside[fault] |= files
    misses = 0
    for fault in faults:
        result = f"the {len(TESTS - selected[fault])} files that are left out pass"
        if fault in outside:
            caught = any(failing(selected[fault], [fault], [*options, *more]) for more in (QUICK, ["-x"]))
            misses += not caught
            result = f"{len(outside[fault])} left out fail, the selected {'fail too' if caught else 'PASS'}"
        print(f"{fault}\n  {result}", flush=True)
    print(f"{misses} of {number} faults were missed")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
