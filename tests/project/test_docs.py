"""Links between the docs pages, and the site built from them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree

import click
import pytest

from tests.support import ROOT
from wirefault.cli.main import main

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def prose(page: Path) -> str:
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Ids of headings, as GitHub and the site make them."""
    without_blocks = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.*)$", without_blocks, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_doc_links_have_targets(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


LINKED_NAME = re.compile(r"\[`(\w+)`\]\(([^)\s]+\.py)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_linked_to_a_module_are_in_it(page):
    links = LINKED_NAME.findall(page.read_text(encoding="utf-8"))
    assert [name for name, path in links if name not in (page.parent / path).read_text("utf-8")] == []


def test_each_type_of_an_episode_or_run_is_explained():
    modules = sorted((ROOT / "wirefault").rglob("*.py"))
    kind = re.compile(r"^class (\w*[a-z](?:Episode|Run))\b", re.MULTILINE)
    types = {name for module in modules for name in kind.findall(module.read_text(encoding="utf-8"))}
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    explained = {name for name, _ in LINKED_NAME.findall(page)}
    assert "JudgedEpisode" in types
    assert types - explained == set()


# in a sentence, in a block, or among the examples of a help text
MENTION = re.compile(r"(?:`|^(?:\$ |  )?)(?:[A-Z_]+=\S+ )*wirefault ([a-z][^`\n]*)", re.MULTILINE)


def unknown_word(mention: str) -> str:
    """The first command or option that ``wirefault`` does not have."""
    words = shlex.split(mention, comments=True)
    command: click.Command | None = main
    while words and isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(click.Context(command), name)
        if command is None:
            return name
    options = [option for option in command.params if isinstance(option, click.Option)]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word in ("--", "&&", "|", ">"):
            break
        name = re.sub(r"^-(?=\w{2})", "--", word.partition("=")[0])  # `-port`, as Go programs write it
        if re.match(r"--?[a-z]", name) and name not in {*known, "--help", "--help-all"}:
            return word
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_mentioned_commands_and_options_exist(page):
    mentions = MENTION.findall(page.read_text(encoding="utf-8")) if page.name != "CHANGELOG.md" else []
    assert [mention for mention in mentions if balanced(mention) and unknown_word(mention)] == []


def balanced(mention: str) -> bool:
    """Whether its quotes are closed: a command over several lines is not read."""
    return all(mention.count(quote) % 2 == 0 for quote in "'\"")


@pytest.mark.slow
def test_site_builds_without_warnings(tmp_path):
    copytree(ROOT / "docs", tmp_path / "docs")
    copy(ROOT / "zensical.toml", tmp_path)
    command = [Path(sys.executable).with_name("zensical"), "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
