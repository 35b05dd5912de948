"""The command line that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from windtunnel.faults.presets import preset_of
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
    """A fault set that is a preset's goes by its name."""
    return (preset_of(value) if name == "faults" else None) or value
