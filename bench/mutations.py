"""Plants faults by room, and checks that the tests that tools/reach.py selects catch what all tests catch.

python -m bench.mutations [NUMBER [SEED [PYTEST_OPTION ...]]]   by default 40 faults, seed 1, -m "not slow"

A fault flips one comparison or drops one line. For each, the tests that the selection leaves out run: if all
pass, the selection has missed nothing, whatever it catches itself. If one fails, the selected tests run: a
fault that they let pass was missed. Files are changed in place and restored; run it in a clean clone.
"""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.reach import PROGRAMS, REACH_ALL, ROOT, TESTS, graph, reached

FLIPPED = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.Gt: "<=", ast.LtE: ">", ast.GtE: "<"}
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr)


def _is_room(name: str) -> bool:
    return name[:10] == "wirefault." and (ROOT / name.replace(".", "/")).is_dir()


ROOMS = sorted({*PROGRAMS, *(room for room in graph().modules if _is_room(room))} - REACH_ALL)


def mutants(file: Path) -> Iterator[tuple[int, str]]:
    """Return the line and the source of each faulty version of a file."""
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
            if changed and _compiles(faulty := "".join([*lines[:line], changed, *lines[line + 1 :]])):
                yield line + 1, faulty


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:  # a parenthesis was left open
        return False
    return True


def fails(tests: Sequence[str], options: Sequence[str]) -> bool:
    """Whether a test fails. Raises ``RuntimeError`` if the tests could not run."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "-x", "-q", "--hypothesis-profile=fast", *options]
    ended = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True)
    if ended.returncode not in (0, 1, 2):  # 2: an import fails
        raise RuntimeError(ended.stdout[-2000:] + ended.stderr[-2000:])
    return ended.returncode != 0


def plant(room: str, draw: random.Random, options: Sequence[str]) -> tuple[str, bool]:
    """Plant one fault; return its place and what happened, and whether the selection missed it."""
    files = sorted((ROOT / room.replace(".", "/")).rglob("*.py"))
    file = draw.choice([file for file in files if any(mutants(file))])
    line, faulty = draw.choice(list(mutants(file)))
    path, original = str(file.relative_to(ROOT)), file.read_bytes()
    selected = reached([path])
    others = sorted(TESTS - selected)
    try:
        file.write_text(faulty, encoding="utf-8")
        if not fails(others, options):
            return f"{path}:{line}: the {len(others)} files that are left out pass", False
        caught = fails(sorted(selected), options)
    finally:
        file.write_bytes(original)
    return f"{path}:{line}: one left out fails, the selected {'fail too' if caught else 'PASS'}", not caught


def main(number: str = "40", seed: str = "1", *options: str) -> int:
    draw, misses = random.Random(seed), 0
    rooms = draw.sample(ROOMS, min(20, len(ROOMS)))
    for at in range(int(number)):
        place, missed = plant(rooms[at % len(rooms)], draw, options or ("-m", "not slow"))
        misses += missed
        print(place, flush=True)
    print(f"{misses} of {number} faults were missed")
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
