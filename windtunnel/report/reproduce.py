"""The command line that repeats a run, in the kind of lab that it was flown in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from windtunnel.core.lab_files import sample_prompts
from windtunnel.faults.sets.fault_set import GROUPS
from windtunnel.faults.sets.presets import preset_of
from windtunnel.settings.settings import NAMES, Settings

COMPOSE_LAB = "compose"  # the LAB_ID that docker-compose.yaml gives; a native lab draws its own
# the agent's container sees these files where they are mounted; HOST_... says what the user called them
COMPOSE_FILES = ("PROMPTS_FILE", "CONFIG_FILE", "MOVIES_FILE", "PLAYBOOKS")


def command(
    settings: Settings,
    prompts: str = "",
    lab_id: str = "",
    environ: Mapping[str, str] | None = None,
) -> str:
    """Repeats a run of the lab ``lab_id``. ``prompts`` is their file, if not the lab's own.

    ``environ`` is the agent's environment, where it is known.
    """
    if lab_id == COMPOSE_LAB:
        return _compose(settings, environ or {})
    return _demo(settings, prompts)


def _demo(settings: Settings, prompts: str) -> str:
    """``windtunnel demo`` with the seed, the prompts file and every setting that is not its default."""
    words = ["windtunnel", "demo", "--seed", str(settings.seed)]
    for name, value in _not_default(settings).items():
        words += ["--" + name.replace("_", "-"), value]
    if prompts and Path(prompts) != sample_prompts():
        words += ["--prompts", prompts]
    return shlex.join(words)


def _compose(settings: Settings, environ: Mapping[str, str]) -> str:
    """``docker compose up``; what was given stands there also where it is the default: .env may differ."""
    changed = _not_default(settings)
    given = {name: _shown(settings, name) for name in NAMES if environ.get(name.upper())}
    values = {"seed": str(settings.seed)} | {n: v for n, v in (given | changed).items() if n != "seed"}
    variables = {name.upper(): value for name, value in values.items()} | dict(_files(environ))
    assigned = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    direct = " -f docker-compose.yaml -f compose.direct.yaml" if settings.fallback == "direct" else ""
    return f"{assigned} docker compose{direct} up"


def _files(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in COMPOSE_FILES:
        if path := environ.get(f"HOST_{name}"):
            yield name, path


def _not_default(settings: Settings) -> dict[str, str]:
    # what "auto" became under the scripted model, it becomes again
    decided = {"translator_backend": "offline"} if settings.translates_offline else {}
    defaults = Settings(**{"seed": settings.seed, **decided})
    differ = (name for name in NAMES if getattr(settings, name) != getattr(defaults, name))
    return {name: _shown(settings, name) for name in differ}


def _shown(settings: Settings, name: str) -> str:
    """A fault set that is a preset's goes by its name; of any other, what is not said by default."""
    value = str(getattr(settings, name))
    return preset_of(value) or _brief(value) if name == "faults" and value else value


def _brief(faults: str) -> str:
    """The canonical text of a set without its defaults; it reads as the same set."""
    brief = {key: [_of_entry(key, entry) for entry in entries] for key, entries in json.loads(faults).items()}
    return json.dumps(brief, ensure_ascii=False)


def _of_entry(key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    name, usual = ("fault", "all") if key == "faults" else ("toxic", "tools")
    links = next((group for group, names in GROUPS.items() if names == entry["links"]), entry["links"])
    whole = {name: entry[name], **entry, "links": links}
    silent = {"id": entry[name], "links": usual, "with": {}, "only": {}}
    whens: tuple[dict[str, float], ...] = ({}, {"probability": 1.0})
    return {
        word: value
        for word, value in whole.items()
        if not (word in silent and value == silent[word]) and not (word == "when" and value in whens)
    }
