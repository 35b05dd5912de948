"""The prompts of an experiment's plan: read, repeated or drawn, and written as a file."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from wirefault.core.lab_folder import sample_prompts
from wirefault.core.plugins import check_function
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.judging.oracle.expect import expect_check
from wirefault.settings.configuration import Configuration
from wirefault.wiring.prompts import (
    Prompt,
    Prompts,
    check_next_turns,
    check_turns,
    load_prompts,
    prompts_from_entries,
)
from wirefault.wiring.subject_spec import holds_conversations


def experiment_prompts(source_file: ExperimentFile, configuration: Configuration) -> Prompts:
    """The experiment's prompts; all must be valid, since a missing one would change the figures."""
    named, only = source_file.experiment.prompts, source_file.experiment.only
    check = expect_check(configuration.wiring.links)
    if isinstance(named, str):
        path = source_file.folder / named if named else configuration.wiring.prompts or sample_prompts()
        if not path.is_file():
            raise source_file.file.error(("prompts",), f"missing file {path}")
        loaded = load_prompts(path, only, check_expect=check)
    else:
        loaded = prompts_from_entries(
            named, f"{source_file.file.where}: prompts", only, check, source_file.folder
        )
    if loaded.problems:
        raise source_file.file.error(("prompts",), loaded.problems[0])
    # a named subject is unknown until it is opened, and a function takes turns
    if not source_file.experiment.subject:
        check_turns(loaded, holds_conversations(configuration.wiring.subject))
    check_next_turns(loaded, check_function)
    return loaded


def same_texts_together(loaded: Prompts) -> Prompts:
    """Entries with the text of an earlier one as its repeats: for other prompts like these one cluster."""
    keys: dict[object, str] = {}
    entries = [
        replace(entry, key=keys.setdefault((entry.text.strip(), entry.turns, entry.next_turn), entry.key))
        for entry in loaded.entries
    ]
    repeated = [old.key for old, new in zip(loaded.entries, entries, strict=True) if old.key != new.key]
    note = f"prompts with the text of an earlier one count as its repeats: {', '.join(repeated)}"
    return replace(loaded, entries=entries, notes=[*loaded.notes, *([note] if repeated else [])])


def repeated_prompts(prompts: Sequence[Prompt], repeats: int) -> Iterator[Prompt]:
    """Each prompt as often as asked, the first time under its own key."""
    return _renamed(prompt for _ in range(repeats) for prompt in prompts)


def drawn_prompts(prompts: Sequence[Prompt], count: int, seed: int) -> Iterator[Prompt]:
    """Prompts drawn by the seed with replacement, each time under another key."""
    chance = random.Random(f"prompts {seed}")
    return _renamed(prompts[chance.randrange(len(prompts))] for _ in range(count))


def _renamed(prompts: Iterable[Prompt]) -> Iterator[Prompt]:
    times = Counter[str]()
    for prompt in prompts:
        times[prompt.key] += 1
        number = times[prompt.key]
        yield prompt if number == 1 else replace(prompt, key=f"{prompt.key}.r{number}")


def dump_prompts(prompts: Sequence[Prompt]) -> str:
    """A prompts file with these prompts and keys."""
    entries = []
    for prompt in prompts:
        entry: dict[str, Any] = {"id": prompt.key}
        entry |= {"turns": list(prompt.turns)} if prompt.turns else {"prompt": prompt.text}
        if prompt.next_turn:
            entry |= {"next_turn": prompt.next_turn.function, "max_turns": prompt.next_turn.max_turns}
        if prompt.expect is not None:
            entry["expect"] = prompt.expect
        if prompt.tool_links is not None:
            entry["tool_links"] = list(prompt.tool_links)
        if prompt.paraphrases:
            texts = prompt.paraphrases
            entry["paraphrases"] = list(map(list, texts)) if prompt.turns else [text for (text,) in texts]
        if prompt.metadata:
            entry["metadata"] = prompt.metadata
        entries.append(entry)
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"
