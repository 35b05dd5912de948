"""Count constructions that make prose hard to read: in docstrings, comments, messages and Markdown.

    python tools/prose.py [--list NAME] [PATH ...]

Exits with 1 if a construction is more frequent than 3 per 10,000 words of its kind of text, or if a forbidden
name is used. ``--list NAME`` prints where a construction is.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

LIMIT = 3.0  # per 10,000 words
CONSTRUCTIONS = {
    "What-clause": re.compile(
        r"(?:^|(?<=[.!:;] )|(?<=\n\n))What (?!(?:is|are|does|do|if|helps)\b[^.\n]*\?)(?![^.\n]*\?)[a-z]"
    ),
    "stands": re.compile(r"\bstands?\b(?! for\b| up\b|-)"),
    "that of": re.compile(r"\b(?:that|those) of\b"),
    "is no X": re.compile(r"\b(?:is|are|was|were) no (?!longer|more|such)\w"),
    "nobody": re.compile(r"\b(?:nobody|somebody|whoever|whom)\b", re.I),
    "is told": re.compile(r"\b(?:tells? of|(?:is|are|was|were) (?:told|said))\b"),
    "of its own": re.compile(
        r"\b(?:of (?:its|their|one's) own|by itself|beside|goes? on|in the place of|so many)\b"
    ),
}
FORBIDDEN_NAMES = frozenset(
    [
        "told",
        "said",
        "given",
        "shown",
        "found",
        "asked",
        "sent",
        "met",
        "held",
        "kept",
        "flown",
        "spared",
        "aimed",
    ]
)
FORBIDDEN_WORDS = re.compile(r"\b(?:fly|flies|flown|flight|flights|hangar|windtunnel)\b", re.I)
MARKDOWN_CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->", re.S)
# stages of a fault and keys of stored data, as in the glossary
ALLOWED = re.compile(
    r"^(?:wirefault/history/|wirefault/judging/account|wirefault/faults/|wirefault/wiring/links)"
)
WORD_FREE = re.compile(
    r"^(?:CHANGELOG\.md|docs/lab-world\.md|flask_tools/|agent/prompts|tests/|tools/prose\.py)"
)


def python_texts(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield kind, line and text of every docstring, comment, and string that is like a sentence."""
    source = path.read_text(encoding="utf-8")
    comment: list[str] = []
    first, last = 0, -2
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# type:", "# noqa")):
            line = token.start[0]
            if line != last + 1 and comment:
                yield "comments", first, " ".join(comment)
                comment = []
            first, last = (line if not comment else first), line
            comment.append(token.string.lstrip("# "))
    if comment:
        yield "comments", first, " ".join(comment)
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        match getattr(node, "body", None):
            case [ast.Expr(value=ast.Constant(value=str(text)) as constant), *_]:
                docstrings.add(id(constant))
                yield "comments", constant.lineno, re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            sentence_like = len(re.findall(r"[A-Za-z]{2,} ", node.value)) >= 3
            if sentence_like:
                yield "messages", node.lineno, node.value


def names_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the names and lines of functions, parameters and assigned variables."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name.strip("_"), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_"), node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_"), node.lineno


def texts(path: Path) -> Iterator[tuple[str, int, str]]:
    if path.suffix == ".py":
        yield from python_texts(path)
    else:
        plain = MARKDOWN_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
        yield "docs", 1, plain


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", default="", metavar="NAME", help="print the places of this construction")
    parser.add_argument("paths", nargs="*", default=["*.py", "*.md"])
    chosen = parser.parse_args()
    listed = subprocess.run(
        ["git", "ls-files", *chosen.paths], capture_output=True, text=True, check=True
    ).stdout
    words: dict[str, int] = {}
    counts: dict[tuple[str, str], int] = {}
    failures = []
    for name in listed.split():
        if not name.endswith((".py", ".md")) or name == "tools/prose.py":
            continue
        for kind, line, text in texts(Path(name)):
            words[kind] = words.get(kind, 0) + len(text.split())
            for construction, pattern in CONSTRUCTIONS.items():
                for match in pattern.finditer(text):
                    counts[kind, construction] = counts.get((kind, construction), 0) + 1
                    if chosen.list == construction:
                        at = line + text[: match.start()].count("\n")
                        print(f"{name}:{at}: {text[max(match.start() - 30, 0) : match.end() + 50]!r}")
            if not WORD_FREE.match(name) and (word := FORBIDDEN_WORDS.search(text)):
                failures.append(f"{name}:{line}: forbidden word {word[0]!r}")
        if name.endswith(".py") and not ALLOWED.match(name):
            failures += [
                f"{name}:{line}: forbidden name {identifier!r}"
                for identifier, line in names_of(Path(name))
                if identifier in FORBIDDEN_NAMES
            ]
    for (kind, construction), count in sorted(counts.items()):
        rate = 1e4 * count / words[kind]
        if rate > LIMIT:
            failures.append(
                f"{kind}: {construction!r} {rate:.1f} per 10,000 words, {count} in all; at most {LIMIT:g}"
            )
    if not chosen.list:
        totals = ", ".join(f"{count} words of {kind}" for kind, count in words.items())
        print("\n".join(failures), f"prose: {totals}; {len(failures)} failures", sep="\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
