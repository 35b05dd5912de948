"""Experiments read from where a person keeps them: YAML or JSON files, and names in Python modules."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from windtunnel.core.user_errors import InputError
from windtunnel.experiments.experiment import Arm, Baseline, Experiment
from windtunnel.links.wiring_file import WiringFile, read_wiring_file

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class ExperimentFile:
    """``folder``: paths in it are taken from there. ``file`` knows the lines, for errors."""

    experiment: Experiment
    folder: Path
    file: WiringFile


def load_experiment(path: Path, changes: Mapping[str, Any] | None = None) -> ExperimentFile:
    """Reads the file. ``changes`` take the place of its keys; those of ``settings`` are added to its own.

    Raises ``WiringError`` that names file, line and key.
    """
    file = _changed(read_wiring_file(path, "`title` and `hypothesis`"), changes or {})
    return ExperimentFile(file.check(Experiment, (), _with_checked_arms(file)), path.parent, file)


def load_from_module(name: str, changes: Mapping[str, Any] | None = None) -> ExperimentFile:
    """The ``Experiment`` of that ``module:name``, which may lie in this folder; paths are taken from here.

    ``changes`` as of ``load_experiment``. Raises ``InputError``; ``WiringError`` for a bad change.
    """
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        given = getattr(import_module(module_name), attribute, None)
    except (ImportError, SyntaxError, ValueError) as error:
        raise InputError(f"{name}: {module_name} cannot be imported: {error}") from None
    if not isinstance(given, Experiment):
        raise InputError(f"{name}: must be a windtunnel.experiments.experiment.Experiment, not {given!r:.60}")
    file = _changed(WiringFile(name, given.model_dump(exclude_unset=True)), changes or {})
    return ExperimentFile(file.check(Experiment, (), _with_checked_arms(file)), Path(), file)


def _changed(file: WiringFile, changes: Mapping[str, Any]) -> WiringFile:
    settings = file.data.get("settings") or {}
    if isinstance(settings, dict) and "settings" in changes:
        changes = {**changes, "settings": {**settings, **changes["settings"]}}
    return replace(file, data={**file.data, **changes})


def _with_checked_arms(file: WiringFile) -> dict[str, Any]:
    """The data with each arm checked by itself, so that a mistake in one is explained by the keys of arms."""
    data = dict(file.data)
    for key, kind in (("baseline", Baseline), ("method", Arm)):
        if data.get(key) is not None:
            data[key] = file.check(kind, (key,), data[key])
    variants = data.get("variants")
    if isinstance(variants, dict):
        data["variants"] = {name: file.check(Arm, ("variants", name), arm) for name, arm in variants.items()}
    return data


def is_module_name(given: Path) -> bool:
    """Whether it names an object of a module, not a file."""
    module_name, colon, attribute = str(given).partition(":")
    return bool(colon) and all(map(str.isidentifier, (*module_name.split("."), attribute)))


def files_meant(given: Path) -> list[Path]:
    """The file itself, or the experiments of a folder by name. Raises ``InputError`` if there is none."""
    if not given.is_dir():
        return [given]
    found = sorted(path for path in given.iterdir() if path.suffix in _ENDINGS and path.is_file())
    if not found:
        raise InputError(f"{given}: no experiment in this folder ({', '.join(_ENDINGS)})")
    return found
