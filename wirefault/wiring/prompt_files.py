"""Reads prompts files in the forms that people have into our entries.

JSON, JSON Lines, CSV or YAML; lists of texts or objects, ``{"prompts": [...]}``, promptfoo's configurations,
samples of evaluations and ``{"cases": [...]}``.
"""

from __future__ import annotations

import csv
import io
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import too_deep, unique
from wirefault.wiring.eval_samples import Entry, has_prompt_column
from wirefault.wiring.foreign_prompts import (
    converted,
    expected_cells,
    is_promptfoo,
    promptfoo_entries,
)

Place = tuple[str | int, ...]
_FORMS = "a prompts file is JSON, JSON Lines (.jsonl), CSV (.csv) or YAML (.yaml)"
_SAMPLE = '[{"prompt": "..."}]'
_JSON_COLUMNS = ("turns", "tool_links", "max_turns", "paraphrases", "metadata")
_COLUMNS = ("prompt", "id", "expect", "next_turn", *_JSON_COLUMNS)
_PROMPTFOO_KEYS = ("prompts", "tests", "defaultTest", "scenarios", "providers", "metadata")
_ENTRY_KEYS = ("prompt", "turns", "vars")
_LISTS = ("cases", "goldens", "examples")  # of pydantic-evals, DeepEval, LangSmith
_BETWEEN_ENTRIES = re.compile(r"[\s,]*")
_BOM = b"\xef\xbb\xbf \t\r\n"
_BLANKS = re.compile(r"\s*")


class PromptsFileError(ValueError):
    """A prompts file that cannot be read; the message has the place."""


def read_entries(data: bytes, path: Path) -> list[Entry]:
    """Return the file's entries. Raises ``PromptsFileError``."""
    is_json = path.suffix.lower() == ".json" and data[:8].lstrip(_BOM)[:1] in (b"[", b"{")
    try:
        text = data.decode("utf-8" if is_json else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptsFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    try:
        return [own for entry in _entries(text, path) for own in converted(entry)]
    except PromptsFileError:
        raise
    except RecursionError:
        raise PromptsFileError(too_deep(str(path), text)) from None
    except ValueError as error:  # a duplicate key, a number that is too long
        raise PromptsFileError(f"{path}: {error}") from None


def _tests_in(path: Path) -> list[tuple[dict[str, Any], str]]:
    """Return the tests in a file that a configuration of promptfoo names, with their places.

    Raises ``ValueError``.
    """
    if path.suffix.lower() not in (".csv", ".json", ".jsonl", ".yaml", ".yml"):
        raise ValueError(f"{path}: only .csv, .json, .jsonl and .yaml files of tests are read")
    try:
        text = read_input(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise PromptsFileError(f"{path}: cannot be read: {reason}") from None
    if path.suffix.lower() == ".csv":
        return [expected_cells(cells, where) for cells, where in _cells(text, path)]
    rows = [(entry.value, entry.where) for entry in _entries(text, path)]
    if wrong := next((where for value, where in rows if not isinstance(value, dict)), ""):
        raise PromptsFileError(f"{wrong}: a test must be an object")
    return [(dict(value), where) for value, where in rows if isinstance(value, dict)]


def _entries(text: str, path: Path) -> list[Entry]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return list(_rows(text, path))
    if suffix in (".jsonl", ".ndjson"):
        return list(_json_lines(text, path))
    if suffix in (".yaml", ".yml"):
        value, line_of = _yaml(text, path)
        return _listed(value, path, line_of)
    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and _is_json(text.lstrip().partition("\n")[0]):
            return list(_json_lines(text, path))
        problem = f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})"
        if text.lstrip()[:1] in ("[", "{", "\ufeff"):
            raise PromptsFileError(problem) from None
        # in a container, a mounted file has lost its name
        other = _of_other_form(text, path)
        if other is None:
            raise PromptsFileError(f"{problem}; {_FORMS}") from None
        return other
    lines = _JsonPlaces(text)
    return _listed(value, path, lambda place: f"{path}:{lines.line(place)}")


def _of_other_form(text: str, path: Path) -> list[Entry] | None:
    """Return the entries of CSV or YAML without its own suffix; None for anything else."""
    columns = [name.strip().strip('"') for name in re.split(r"[,;\t]", text.partition("\n")[0])]
    if any(name in ("prompt", "turns") or name.startswith("__expected") for name in columns) or (
        has_prompt_column(columns)
    ):
        return list(_rows(text, path))
    if not re.search(r"^(- |[\w-]+:)", text, re.MULTILINE):
        return None
    value, line_of = _yaml(text, path)
    return _listed(value, path, line_of) if isinstance(value, list | dict) else None


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _listed(value: object, path: Path, line_of: Callable[[Place], str]) -> list[Entry]:
    """Return the entries of a whole file's value. Raises ``ValueError``."""
    if isinstance(value, dict):
        if name := next((name for name in _LISTS if isinstance(value.get(name), list)), ""):
            entries = [Entry(each, line_of((name, at))) for at, each in enumerate(value[name])]
            if entries and value.get("evaluators"):
                entries[0] = replace(entries[0], unread=("the evaluators of the whole file are not read",))
            return entries
        if any(key in value for key in _ENTRY_KEYS) or has_prompt_column(value):
            return [Entry(value, line_of(()))]  # JSON Lines of one line
        if is_promptfoo(value):
            return promptfoo_entries(value, path, line_of, _tests_in)
        if isinstance(value.get("prompts"), list):
            for key in value:
                if "did you mean" in (hint := nearest(key, _PROMPTFOO_KEYS)) and key not in _PROMPTFOO_KEYS:
                    raise ValueError(f"unknown key {key!r}{hint}")
            return [Entry(each, line_of(("prompts", at))) for at, each in enumerate(value["prompts"])]
        keys = ", ".join(map(str, value)) or "no keys"
        raise ValueError(f'must be a list, {_SAMPLE}, or {{"prompts": [...]}}, not an object with {keys}')
    if not isinstance(value, list):
        raise ValueError(f"must be a list, {_SAMPLE}, not {json.dumps(value, default=str)[:40]}")
    return [Entry(each, line_of((at,))) for at, each in enumerate(value)]


def _json_lines(text: str, path: Path) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield Entry(json.loads(line, object_pairs_hook=unique), f"{path}:{number}")
        except json.JSONDecodeError as error:
            raise PromptsFileError(f"{path}:{number}: not JSON: {error.msg} (column {error.colno})") from None
        except RecursionError:
            raise PromptsFileError(f"{path}:{number}: nested too deeply") from None
        except ValueError as error:
            raise PromptsFileError(f"{path}:{number}: {error}") from None


def _yaml(text: str, path: Path) -> tuple[object, Callable[[Place], str]]:
    from wirefault.core.yaml_text import YamlError, load_yaml, yaml_lines  # slow to import

    try:
        value, lines = load_yaml(text), yaml_lines(text)
    except YamlError as error:
        raise PromptsFileError(f"{path}{f':{error.line}' if error.line else ''}: {error}") from None
    return value, lambda place: f"{path}:{_closest(lines, place)}"


def _closest(lines: dict[Place, int], place: Place) -> int:
    return next(lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines)


class _JsonPlaces:
    """Finds the lines of keys and list entries in a text of valid JSON."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        self._children: dict[int, dict[str | int, int]] = {}

    def line(self, place: Place) -> int:
        """Return the line of that key or entry, or of the closest one around it."""
        position = _after(_BLANKS, self._text, 0)
        for part in place:
            if position not in self._children:
                self._children[position] = dict(self._below(position))
            if part not in self._children[position]:
                break
            position = self._children[position][part]
        return bisect_left(self._line_ends, position) + 1

    def _below(self, position: int) -> Iterator[tuple[str | int, int]]:
        """Yield each key or index of the list or object there, with the position of its value."""
        text, decoder = self._text, json.JSONDecoder()
        if text[position] not in "[{":
            return
        is_object, count = text[position] == "{", 0
        position = _after(_BETWEEN_ENTRIES, text, position + 1)
        while text[position] not in "]}":
            name: str | int = count
            if is_object:
                name, end = decoder.raw_decode(text, position)
                position = _after(_BLANKS, text, _after(_BLANKS, text, end) + 1)
            yield name, position
            _, end = decoder.raw_decode(text, position)
            position, count = _after(_BETWEEN_ENTRIES, text, end), count + 1


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _cells(text: str, path: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the rows of a CSV file by column, with their places. Raises ``PromptsFileError``."""
    header = text.partition("\n")[0]
    delimiter = "\t" if "\t" in header else ";" if ";" in header and "," not in header else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        if twice := next((name for name in names if name and names.count(name) > 1), ""):
            raise PromptsFileError(f"{path}:1: two columns are named {twice!r}")
        line = reader.line_num + 1
        for row in reader:
            if any(cell.strip() for cell in row):
                if len(row) > len(names):
                    raise PromptsFileError(
                        f"{path}:{line}: {len(row)} cells, and the header has {len(names)}:"
                        " put texts with commas in quotes"
                    )
                yield dict(zip(names, row, strict=False)), f"{path}:{line}"
            line = reader.line_num + 1
    except csv.Error as error:
        raise PromptsFileError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _rows(text: str, path: Path) -> Iterator[Entry]:
    """Yield the rows of our columns, or of promptfoo's if one is named ``__expected``."""
    for cells, where in _cells(text, path):
        if any(name.startswith("__") for name in cells):
            yield Entry(expected_cells(cells, where)[0], where)
            continue
        if "prompt" not in cells and "turns" not in cells and not has_prompt_column(cells):
            hints = [nearest(name, ("prompt",)) for name in cells]
            hint = next((hint for hint in hints if "did you mean" in hint), "")
            raise PromptsFileError(f"{path}:1: missing column 'prompt', found {', '.join(cells)}{hint}")
        yield _row(cells, where)


def _row(cells: dict[str, str], where: str) -> Entry:
    value: dict[str, Any] = {}
    for name, text in cells.items():
        if name not in _COLUMNS:
            value[name] = text
        elif text.strip():
            is_json = name in _JSON_COLUMNS or text.lstrip().startswith("{")
            try:
                value[name] = (
                    json.loads(text, object_pairs_hook=unique) if is_json and name != "prompt" else text
                )
            except RecursionError:
                return Entry(None, where, problem=f"column {name!r}: nested too deeply")
            except ValueError as error:
                return Entry(None, where, problem=f"column {name!r}: not JSON: {error}")
    if isinstance(value.get("expect"), str):
        value["expect"] = {"answer": value["expect"].strip()}
    return Entry(value, where)
