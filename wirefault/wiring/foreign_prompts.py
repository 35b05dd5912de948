"""Prompts of other tools in our own form: promptfoo's configurations and tests.

Assertions become the rules of ``expect.answer``. Everything that has no counterpart is named in
``Entry.unread``; an entry that cannot be run at all has a ``problem``. Pure, except for files that a
configuration names (``file://``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from wirefault.core.errors import nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import checked_pattern
from wirefault.wiring.eval_samples import Entry, has_prompt_column, plain_text, sample, turns_of

_NAME = re.compile(r"\{\{-?\s*([\w.-]+)\s*-?\}\}")
_OTHER_TEMPLATES = re.compile(r"\{\{|\{%")
_SPLIT = re.compile(r"^---\s*$", re.MULTILINE)
_PROMPTFOO_ONLY = ("tests", "providers", "targets", "defaultTest", "scenarios")
_NOT_READ_OF_FILE = ("scenarios",)
_TEST_KEYS = ("vars", "assert", "description", "metadata", "options")
_NO_EXPANSION = "disableVarExpansion"
_ASSERTION_KEYS = ("type", "value", "metric", "weight", "assert")
_MAX_ENTRIES = 10_000
_FILE = "file://"


LineOf = Callable[[tuple[str | int, ...]], str]
"""Gives the place of a key in a file, such as ``promptfooconfig.yaml:7``."""
ReadTests = Callable[[Path], Sequence[tuple[dict[str, Any], str]]]
"""Reads a file of tests, with their places. Raises ``ValueError``."""


def is_promptfoo(value: Mapping[str, Any]) -> bool:
    """Whether a whole file is a configuration of promptfoo."""
    return any(name in value for name in _PROMPTFOO_ONLY)


def converted(entry: Entry) -> Iterator[Entry]:
    """Yield our entries for one of a list: a text, a test of promptfoo, or a sample of an evaluation."""
    value = entry.value
    if isinstance(value, str):
        yield replace(entry, value={"prompt": value})
    elif not isinstance(value, dict) or "prompt" in value or "turns" in value:
        yield entry
    elif "vars" in value:
        yield from _combined([], [(value, entry.where)], {})
    elif has_prompt_column(value):
        yield sample(entry, value)
    else:
        yield entry


def promptfoo_entries(
    value: Mapping[str, Any], path: Path, line_of: LineOf, read_tests: ReadTests
) -> list[Entry]:
    """Return every prompt of the configuration with every test. Raises ``ValueError``."""
    prompts = list(_templates(value.get("prompts", []), path.parent))
    default = value.get("defaultTest", {})
    if not isinstance(default, dict):
        raise ValueError("defaultTest must be an object; a file is not read")
    tests = list(_tests(value.get("tests", []), path.parent, line_of, read_tests))
    if not tests:
        tests = [({"vars": {}}, line_of(("prompts",)))]
    entries = list(_combined(prompts, tests, default))
    unread = [f"{name} are not read" for name in _NOT_READ_OF_FILE if value.get(name)]
    unread += [f"defaultTest, {line}" for line in _unread_keys(default)]
    return [replace(entries[0], unread=(*unread, *entries[0].unread)), *entries[1:]]


def _templates(prompts: object, folder: Path) -> Iterator[str]:
    for prompt in prompts if isinstance(prompts, list) else [prompts]:
        if isinstance(prompt, dict):
            prompt = prompt.get("raw", prompt.get("id"))
        if not isinstance(prompt, str):
            raise ValueError(f"prompts must be texts or files, not {json.dumps(prompt, default=str)[:60]}")
        if not prompt.startswith(_FILE):
            yield prompt
            continue
        for file in _files(prompt, folder):
            if file.suffix not in (".txt", ".md", ".json"):
                raise ValueError(f"prompts: {prompt}: only .txt, .md and .json files are read")
            parts = [_text(file)] if file.suffix == ".json" else _SPLIT.split(_text(file))
            yield from (part.strip() for part in parts if part.strip())


def _tests(
    tests: object, folder: Path, line_of: LineOf, read_tests: ReadTests
) -> Iterator[tuple[dict[str, Any], str]]:
    for at, test in enumerate(tests if isinstance(tests, list) else [tests]):
        if isinstance(test, dict):
            yield test, line_of(("tests", at))
        elif isinstance(test, str):
            for file in _files(test, folder):
                yield from read_tests(file)
        else:
            raise ValueError(f"tests must be objects or files, not {json.dumps(test, default=str)[:60]}")


def _files(reference: str, folder: Path) -> list[Path]:
    name = reference.removeprefix(_FILE)
    if "://" in name:
        raise ValueError(f"{reference}: only files are read")
    files = sorted(folder.glob(name)) if "*" in name and not Path(name).is_absolute() else [folder / name]
    if not files:
        raise ValueError(f"{reference}: no such file")
    return files


def _text(file: Path) -> str:
    try:
        return read_input(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ValueError(f"{file}: cannot be read: {reason}") from None


def _combined(
    prompts: Sequence[str], tests: Sequence[tuple[dict[str, Any], str]], default: Mapping[str, Any]
) -> Iterator[Entry]:
    """Yield an entry for each prompt, test and combination of the test's listed values."""
    count = 0
    for test, where in tests:
        variables = {**_object(default, "vars"), **_object(test, "vars")}
        options = {**_object(default, "options"), **_object(test, "options")}
        combinations = [variables] if options.get(_NO_EXPANSION) is True else list(_expanded(variables))
        for template in prompts or (None,):
            for variables in combinations:
                if (count := count + 1) > _MAX_ENTRIES:
                    raise ValueError(
                        f"has more than {_MAX_ENTRIES:,} combinations of prompts, tests and vars"
                    )
                yield _entry(template, test, default, variables, where)


def _object(test: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = test.get(name) or {}
    return value if isinstance(value, dict) else {}


def _expanded(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables with each combination of the values of those that are lists."""
    choices = [value if isinstance(value, list) and value else [value] for value in variables.values()]
    for values in product(*choices):
        yield dict(zip(variables, values, strict=True))


def _entry(
    template: str | None,
    test: Mapping[str, Any],
    default: Mapping[str, Any],
    variables: Mapping[str, Any],
    where: str,
) -> Entry:
    unread = _unread_keys(test)
    try:
        if not isinstance(test.get("vars", {}), dict):
            raise ValueError('"vars" must be an object; a file is not read')
        if template is None:
            template = _only_variable(variables)
        turns = _turns_of_text(_rendered(template, variables))
        rules = []
        for owner, place in ((default, "defaultTest, assert"), (test, "assert")):
            assertions = owner.get("assert") or []
            if not isinstance(assertions, list):
                raise ValueError(f"{place} must be a list")
            rules += _rules(assertions, variables, unread, place)
    except ValueError as error:
        return Entry(None, where, tuple(unread), str(error))
    value: dict[str, Any] = {"prompt": turns[0]} if len(turns) == 1 else {"turns": turns}
    metadata = {**_object(default, "metadata"), **_object(test, "metadata")}
    if isinstance(test.get("description"), str):
        metadata["description"] = test["description"]
    value |= {"metadata": metadata} if metadata else {}
    value |= {"expect": {"answer": _joined(rules)}} if rules else {}
    return Entry(value, where, tuple(unread))


def _unread_keys(test: Mapping[str, Any]) -> list[str]:
    names = [name for name in test if name not in _TEST_KEYS]
    names += [f"options.{name}" for name in _object(test, "options") if name != _NO_EXPANSION]
    return [f"{name} is not read" for name in names]


def _only_variable(variables: Mapping[str, Any]) -> str:
    """Return the template for tests without prompts: their one variable, or the one named prompt."""
    names = ["prompt"] if "prompt" in variables else list(variables)
    if len(names) != 1:
        raise ValueError(f"missing prompts: which of the vars {', '.join(names) or '(none)'} is the prompt?")
    return f"{{{{{names[0]}}}}}"


def _rendered(template: str, variables: Mapping[str, Any]) -> str:
    """Put the variables into ``{{name}}``. Raises ``ValueError`` for other templates and unknown names."""
    rest = _NAME.sub("", template)
    if _OTHER_TEMPLATES.search(rest):
        raise ValueError(f"only {{{{name}}}} is read in templates, not {rest[_start(rest) :][:40]!r}")

    def value_of(match: re.Match[str]) -> str:
        value: Any = variables
        for part in match[1].split("."):
            if not isinstance(value, dict) or part not in value:
                raise ValueError(f"unknown variable {match[1]!r}{nearest(match[1], variables)}")
            value = value[part]
        if isinstance(value, str) and value.startswith(_FILE):
            raise ValueError(f"vars.{match[1]}: {value}: files of variables are not read")
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return ",".join(value)  # as promptfoo's templates print a list
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _NAME.sub(value_of, template)


def _start(text: str) -> int:
    match = _OTHER_TEMPLATES.search(text)
    return match.start() if match else 0


def _turns_of_text(text: str) -> list[str]:
    """Return the turns of a prompt, which may be a chat: a JSON list of messages."""
    if text.lstrip().startswith("["):
        try:
            messages = json.loads(text)
        except ValueError:
            return [text]
        if isinstance(messages, list) and messages and all(isinstance(each, dict) for each in messages):
            return turns_of(messages, "the chat")
    return [text]


def _rules(
    assertions: Sequence[Any], variables: Mapping[str, Any], unread: list[str], place: str
) -> list[dict[str, Any]]:
    """Return a rule for each assertion; those without one are added to ``unread``."""
    rules: list[dict[str, Any]] = []
    for at, assertion in enumerate(assertions, start=1):
        kind = assertion.get("type", "?") if isinstance(assertion, dict) else "?"
        try:
            rules += _rule(assertion, variables, unread, f"{place} {at}")
        except ValueError as error:
            unread.append(f"{place} {at} ({kind}) is not checked: {error}")
    return rules


def _rule(
    assertion: Any, variables: Mapping[str, Any], unread: list[str], place: str
) -> list[dict[str, Any]]:
    if not isinstance(assertion, dict) or not isinstance(assertion.get("type"), str):
        raise ValueError("must be an object with a type")
    if others := [name for name in assertion if name not in _ASSERTION_KEYS]:
        raise ValueError(f"{others[0]} has no counterpart here")
    if assertion.get("weight") == 0:
        raise ValueError("its weight is 0")
    kind = assertion["type"]
    if kind == "assert-set":
        below = assertion.get("assert")
        if not isinstance(below, list):
            raise ValueError("assert must be a list")
        return _rules(below, variables, unread, f"{place}, assert")
    negated, name = kind.startswith("not-"), kind.removeprefix("not-")
    if name not in _RULES:
        raise ValueError("this type has no counterpart here")
    value = assertion.get("value")
    values = value if isinstance(value, list) else [value]
    texts = [_rendered(each, variables) if isinstance(each, str) else plain_text(each) for each in values]
    if not texts or not all(texts):
        raise ValueError("missing value")
    if len(texts) > 1 and not name.endswith(("-all", "-any")):
        raise ValueError("value must be one text")
    rule = _RULES[name](texts, negated)
    for pattern in (rule.get("matches"), rule.get("not_matches")):
        if pattern:
            checked_pattern(pattern)
    return [rule]


def _literal(texts: Sequence[str], flags: str = "") -> str:
    return flags + "|".join(map(re.escape, texts))


def _contains_rule(texts: Sequence[str], negated: bool) -> dict[str, Any]:
    return {"not_contains": texts[0]} if negated else {"contains": texts[0]}


def _all_rule(texts: Sequence[str], negated: bool) -> dict[str, Any]:
    return {"any_of": [{"not_contains": text} for text in texts]} if negated else {"contains": list(texts)}


def _any_rule(texts: Sequence[str], negated: bool) -> dict[str, Any]:
    return {"not_contains": list(texts)} if negated else {"any_of": list(texts)}


def _any_case(rule: Callable[[Sequence[str], bool], dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The rule in any letter case: as it is, since statements are read so, and as patterns if negated."""

    def in_any_case(texts: Sequence[str], negated: bool) -> dict[str, Any]:
        if not negated:
            return rule(texts, negated)
        if rule is _all_rule:
            return {"any_of": [{"not_matches": _literal([text], "(?i)")} for text in texts]}
        return {"not_matches": _literal(texts, "(?i)")}

    return in_any_case


def _pattern_rule(form: str) -> Callable[[Sequence[str], bool], dict[str, Any]]:
    def matching(texts: Sequence[str], negated: bool) -> dict[str, Any]:
        text = texts[0] if form == "{}" else re.escape(texts[0])
        return {"not_matches" if negated else "matches": form.replace("{}", text)}

    return matching


_RULES: Mapping[str, Callable[[Sequence[str], bool], dict[str, Any]]] = {
    "contains": _contains_rule,
    "contains-all": _all_rule,
    "contains-any": _any_rule,
    "icontains": _any_case(_contains_rule),
    "icontains-all": _any_case(_all_rule),
    "icontains-any": _any_case(_any_rule),
    "equals": _pattern_rule(r"\A\s*{}\s*\z"),
    "starts-with": _pattern_rule(r"\A{}"),
    "regex": _pattern_rule("{}"),
}


def _joined(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return rules[0] if len(rules) == 1 else {"all_of": rules}


def expected_cells(cells: Mapping[str, str], where: str) -> tuple[dict[str, Any], str]:
    """Return a row of promptfoo's CSV as a test: ``__expected: contains: Paris``, other columns are vars."""
    test: dict[str, Any] = {"vars": {}}
    assertions, metadata = [], {}
    for name, text in cells.items():
        if name.startswith("__expected"):
            if text.strip():
                assertions.append(_assertion_of(text.strip()))
        elif name == "__description":
            test["description"] = text
        elif name.startswith("__metadata:"):
            metadata[name.removeprefix("__metadata:")] = text
        elif not name.startswith("__"):
            test["vars"][name] = text
        elif text.strip() and name != "__metric":
            test[name] = text  # named as not read
    test |= {"assert": assertions} if assertions else {}
    test |= {"metadata": metadata} if metadata else {}
    return test, where


def _assertion_of(text: str) -> dict[str, Any]:
    """``contains-any: a,b``, or a text that the answer must equal."""
    kind, colon, rest = text.partition(":")
    if not colon or not re.fullmatch(r"(not-)?[a-z]+(-[a-z0-9]+)*(\([0-9.]+\))?", kind):
        return {"type": "equals", "value": text}
    rest = rest.strip()
    if kind.endswith(("-any", "-all")):
        return {"type": kind, "value": [part.strip() for part in rest.split(",") if part.strip()]}
    return {"type": kind, "value": rest}
