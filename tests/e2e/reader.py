"""Follow pages of the docs as a reader: write their files and type their commands, in order, in one shell."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support import PATIENCE_S, ROOT, RUN_PATIENCE_S, until
from wirefault.settings.settings import NAMES
from wirefault.settings.sources import INSTALLATION_VARIABLES

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# "`agent.py`:" at the end of a paragraph, or "`agent.py` orders tea ..." at its start
FILE_NAME = re.compile(r"`([\w./-]+)`:\Z|\A`([\w./-]+)` ")
SUFFIXES = {
    "python": (".py",),
    "yaml": (".yaml",),
    "yml": (".yaml",),
    "json": (".json",),
    "toml": (".toml",),
    "sh": (".sh",),
}
SHELLS = ("sh", "console")
PIPELINE = re.compile(r"(- run: .*\n)+")
MASKS = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b\d+\.\d{3}\b"), "SECONDS"),
    (re.compile(r"\b\d+ ms\b"), "MS"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    file: str
    """The file that the text before the block names; empty if it names none."""

    @property
    def commands(self) -> list[str]:
        """The block's commands: continued lines and texts over several lines are one command."""
        lines = self.text.splitlines()
        if PIPELINE.fullmatch(self.text):
            return [line.removeprefix("- run: ") for line in lines]
        if self.language not in SHELLS or self.file:
            return []
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        commands, pending = [], ""
        for line in lines:
            pending += line
            if _is_complete(pending):
                commands.append(pending)
                pending = ""
            else:
                pending += "\n"
        assert not pending.strip(), f"{self.page}:{self.line}: an unfinished command"
        return [command for command in commands if command.strip()]

    @property
    def is_output(self) -> bool:
        """Whether the block shows output: it has no language and is not a drawing."""
        return not self.language and "►" not in self.text


def _is_complete(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def page_blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = []
    for block in BLOCK.finditer(text):
        before = text[: block.start()]
        paragraph = " ".join(before.rstrip().rpartition("\n\n")[2].split())
        name = FILE_NAME.search(paragraph) if before.endswith("\n\n") else None
        file = next(filter(None, name.groups())) if name else ""
        if not file.endswith(SUFFIXES.get(block[1], ("",))) or block[1] not in SUFFIXES:
            file = ""
        if block[1] == "diff":  # of the file that the text named last
            file = re.findall(r"`([\w./-]+\.(?:py|ya?ml|json))`", before)[-1]
        blocks.append(Block(page, before.count("\n") + 1, block[1], block[2], file))
    return blocks


def typed(command: str) -> str:
    """The command without its comment and with single spaces, as tables and tests name it."""
    return re.sub(r"\s+(#.*)?$", "", command)


@dataclass(frozen=True)
class Played:
    page: str
    command: str
    code: int
    output: str

    def shows(self, expected: str) -> bool:
        """Whether the output has these lines in this order, except for times, ids and line breaks.

        A line that ends in ``...`` is only the beginning of a line of the output.
        """
        rest = masked(self.output)
        for line in filter(str.strip, expected.splitlines()):
            _, match, rest = rest.partition(masked(line).strip().removesuffix("...").strip())
            if not match:
                return False
        return True


def masked(text: str) -> str:
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    return text


def own_network() -> list[str]:
    """Prefix that starts a program in a separate network with all ports free; may be empty."""
    command = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    with suppress(OSError):
        if subprocess.run([*command, "true"], capture_output=True, timeout=PATIENCE_S).returncode == 0:
            return command
    return []


class Shell:
    """A shell in a folder. Its variables and background programs last from command to command."""

    def __init__(self, process: subprocess.Popen[str], outputs: Path) -> None:
        self._process, self._outputs, self._count = process, outputs, 0

    def run(self, command: str) -> tuple[int, str]:
        """Return the command's exit code, and what it printed on both outputs."""
        self._count += 1
        output, code = (self._outputs / f"{self._count}.{name}" for name in ("output", "code"))
        line = f"{{ eval {shlex.quote(command)}\n}} </dev/null >{output} 2>&1; echo $? >{code}"
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        until(
            lambda: (code.exists() and code.read_text().strip()) or self._process.poll() is not None,
            command,
            patience=RUN_PATIENCE_S,
            interval=0.02,
        )
        assert self._process.poll() is None, f"the shell ended in: {command}"
        return int(code.read_text()), output.read_text("utf-8", "replace")

    def wait_for_port(self, port: int) -> None:
        listens = f"(: </dev/tcp/127.0.0.1/{port}) 2>/dev/null"
        tries = int(PATIENCE_S / 0.05)
        code, _ = self.run(f"for _ in $(seq {tries}); do {listens} && break; sleep 0.05; done; {listens}")
        assert code == 0, f"nothing listens on port {port}"


def _inherited() -> dict[str, str]:
    """The environment without settings of the lab, and without what ``make test ARGS=...`` hands down."""
    own = {*INSTALLATION_VARIABLES, "ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "WIREFAULT_DUEL"}
    return {key: value for key, value in os.environ.items() if key.lower() not in NAMES and key not in own}


@contextmanager
def shell(folder: Path, outputs: Path, network: list[str], environ: Mapping[str, str]) -> Iterator[Shell]:
    process = subprocess.Popen(
        [*network, "bash", "--norc"],
        cwd=folder,
        env={**_inherited(), **environ},
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        opened = Shell(process, outputs)
        yield opened
        if process.poll() is None:
            opened.run("wirefault lab down")  # of a page that leaves its lab up
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
        if process.stdin:
            process.stdin.close()


def change(path: Path, hunk: str) -> None:
    """Apply a diff's hunk; its unchanged lines must be in the file exactly once."""
    lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] or line for line in lines if not line.startswith("+"))
    after = "".join(line[1:] or line for line in lines)
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} has not this once:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")
