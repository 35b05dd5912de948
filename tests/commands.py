"""Call ``wirefault`` in this process, to save its imports.

For tests that are not about the command's own process. The labs and runs that it starts are processes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import click
from click.testing import CliRunner, Result

import charts
from tests.shared_imports import shared_imports
from wirefault.cli.main import main


def wirefault(
    folder: Path, environ: Mapping[str, str], *words: str, stdin_text: str = ""
) -> CompletedProcess[str]:
    """Call the command in this folder; return its exit code and the output of it and its processes."""
    with tempfile.TemporaryDirectory() as outputs, ExitStack() as around:
        stdout, stderr = Path(outputs, "stdout"), Path(outputs, "stderr")
        around.enter_context(shared_imports())
        around.enter_context(chdir(folder))
        around.enter_context(_environment(environ))
        around.enter_context(_printed_to(stdout, stderr))
        around.enter_context(_reading(Path(outputs, "stdin"), stdin_text))
        code = _exit_code(words)
        around.close()
        return CompletedProcess(words, code, stdout.read_text("utf-8"), stderr.read_text("utf-8"))


def draw_charts(*words: str) -> Result:
    """Call ``charts.py``."""
    return CliRunner().invoke(click.command()(lambda: charts.main(words)))


def _exit_code(words: tuple[str, ...]) -> int:
    try:
        main(words, prog_name="wirefault")
    except SystemExit as end:
        assert end.code is None or isinstance(end.code, int)
        return end.code or 0
    raise AssertionError("a command ends with an exit code")


@contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _reading(path: Path, text: str) -> Iterator[None]:
    """Redirect standard input to a file with the text."""
    path.write_text(text, encoding="utf-8")
    before = os.dup(0)
    with path.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@contextmanager
def _printed_to(stdout: Path, stderr: Path) -> Iterator[None]:
    """Redirect the descriptors too, since processes print to them."""
    sys.stdout.flush()
    sys.stderr.flush()
    with ExitStack() as around:
        for number, path in ((1, stdout), (2, stderr)):
            file = around.enter_context(path.open("wb"))
            before = os.dup(number)
            around.callback(os.close, before)
            around.callback(os.dup2, before, number)
            os.dup2(file.fileno(), number)
        out = around.enter_context(open(1, "w", encoding="utf-8", closefd=False))  # a descriptor
        err = around.enter_context(open(2, "w", encoding="utf-8", closefd=False))
        around.enter_context(redirect_stdout(out))
        around.enter_context(redirect_stderr(err))
        yield
