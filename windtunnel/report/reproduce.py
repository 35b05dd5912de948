"""The command line that repeats a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from windtunnel.faults.presets import preset_of
from windtunnel.faults.sets import GROUPS
from windtunnel.settings import NAMES, Settings

DEMO_PRESET: Mapping[str, Any] = {"toxic_prob": 0.3, "tool_limit": 2}


def command(settings: Settings, prompts: str) -> str:
    """``windtunnel demo`` with the seed, the prompts file and every setting that is not its default."""
    # what "auto" became under the scripted model, it becomes again
    decided = {"translator_backend": "offline"} if settings.model == "scripted" else {}
    defaults = Settings(**{"seed": 0, **DEMO_PRESET, **decided})
    words = ["windtunnel", "demo", "--seed", str(settings.seed)]
    for name in NAMES:
        value = getattr(settings, name)
        if name != "seed" and value != getattr(defaults, name):
            words += ["--" + name.replace("_", "-"), _short(name, str(value))]
    if prompts != "agent/prompts.json":
        words += ["--prompts", prompts]
    return shlex.join(words)


def _short(name: str, value: str) -> str:
    """A fault set that is a preset's goes by its name; of any other, what is not said by default."""
    if name != "faults" or not value:
        return value
    return preset_of(value) or _brief(value)


def _brief(faults: str) -> str:
    """The canonical text of a set without its defaults; it reads as the same set."""
    brief = {key: [_of_entry(key, one) for one in ones] for key, ones in json.loads(faults).items()}
    return json.dumps(brief, ensure_ascii=False)


def _of_entry(key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    name, usual = ("fault", "all") if key == "faults" else ("toxic", "tools")
    links = next((group for group, names in GROUPS.items() if names == entry["links"]), entry["links"])
    said = {name: entry[name], **entry, "links": links}
    silent = {"id": entry[name], "links": usual, "with": {}, "only": {}}
    whens: tuple[dict[str, float], ...] = ({}, {"probability": 1.0})
    return {
        word: value
        for word, value in said.items()
        if not (word in silent and value == silent[word]) and not (word == "when" and value in whens)
    }
