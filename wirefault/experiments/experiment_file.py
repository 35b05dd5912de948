"""Read experiments from YAML and JSON files and from Python modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError
from wirefault.core.files import read_input_bytes
from wirefault.experiments.chaos_toolkit import is_chaos_toolkit, refusal
from wirefault.experiments.experiment import AgentArm, Arm, Baseline, Experiment
from wirefault.experiments.matrix import Matrix, expanded
from wirefault.experiments.safety import BlastRadius, Safety, Spending
from wirefault.wiring.spec_file import SpecFile, read_spec_file
from wirefault.wiring.wiring import names_links

_ENDINGS = (".yaml", ".yml", ".json")
_TITLE_WITHIN = 4096  # an unreadable file


@dataclass(frozen=True)
class ExperimentFile:
    """Paths in the experiment are relative to ``folder``. ``file`` has the line numbers, for errors."""

    experiment: Experiment
    folder: Path
    file: SpecFile


def load_experiment(path: Path, changes: Mapping[str, Any] | None = None) -> ExperimentFile:
    """Read a file with exactly one experiment. Raises ``InputError`` as ``load_experiments`` does."""
    return _only_one(load_experiments(path, changes))


def python_experiment(experiment: Experiment, folder: Path) -> ExperimentFile:
    """Return an experiment made in Python, with the arms of its matrix.

    Raises ``InputError`` for a matrix or ``arms`` that make several experiments.
    """
    file = SpecFile("Experiment", experiment.model_dump(exclude_unset=True))
    if experiment.matrix is None and not experiment.arms:
        return ExperimentFile(experiment, folder, file)
    return _only_one(list(_experiments_in(file, folder)))


def _only_one(loaded: Sequence[ExperimentFile]) -> ExperimentFile:
    if len(loaded) > 1:
        key = "arms" if loaded[0].experiment.arms else "matrix"
        raise loaded[0].file.error((key,), f"makes {len(loaded)} experiments, but only one can be run here")
    return loaded[0]


def load_experiments(path: Path, changes: Mapping[str, Any] | None = None) -> list[ExperimentFile]:
    """Read the file: one experiment, or all of its matrix.

    ``changes`` replace keys of the file; its ``settings`` are merged. Raises ``InputError`` with file, line
    and key.
    """
    file = read_spec_file(path, "`title` and `hypothesis`")
    if is_chaos_toolkit(file.data):
        raise refusal(file)
    if names_links(file.data) and file.data.keys().isdisjoint(("hypothesis", "method")):
        raise InputError(
            f"{path} is a wiring, not an experiment: an experiment has a `title` and names it as"
            f" `wiring: {path.name}`; without a hypothesis: wirefault run {path} --faults NAME"
        )
    file = _changed(file, changes or {})
    return list(_experiments_in(file, path.parent))


def _experiments_in(file: SpecFile, folder: Path) -> Iterator[ExperimentFile]:
    if file.data.get("matrix") is None and file.data.get("arms") is not None:
        yield from _tournament(file, folder)
        return
    if file.data.get("matrix") is None:
        yield ExperimentFile(file.check(Experiment, (), _with_checked_arms(file)), folder, file)
        return
    matrix = file.check(Matrix, ("matrix",), file.data["matrix"])
    file.check(Experiment, (), {**_with_checked_arms(file), "matrix": matrix})
    try:
        cells = expanded(file.data, matrix)
    except ValueError as error:
        raise file.error(("matrix",), str(error)) from None
    for data in cells:
        yield from _experiments_in(replace(file, data=data), folder)


_MAX_AGENTS = 40


def _tournament(file: SpecFile, folder: Path) -> Iterator[ExperimentFile]:
    """Yield an experiment for each arm: the same but for its agent, with that arm alone in its ``arms``."""
    whole: Experiment = file.check(Experiment, (), _with_checked_arms(file))
    if not 2 <= len(whole.arms) <= _MAX_AGENTS:
        problem = f"has {len(whole.arms)}; a tournament compares 2 to {_MAX_AGENTS}"
        raise file.error(("arms",), problem)
    for name, arm in whole.arms.items():
        data = {
            **file.data,
            "title": arm_title(whole.title, name),
            "arms": {name: file.data["arms"][name]},
            "settings": {**whole.settings, **arm.chosen_settings},
        }
        of_arm = replace(file, data=data)
        yield ExperimentFile(of_arm.check(Experiment, (), _with_checked_arms(of_arm)), folder, of_arm)


def arm_title(title: str, name: str) -> str:
    """The title of the experiment of one arm of a tournament."""
    return f"{title} [{name}]"


def load_from_module(name: str, changes: Mapping[str, Any] | None = None) -> list[ExperimentFile]:
    """Import the ``Experiment`` named ``module:name`` or ``file.py:name``, or each one of ``file.py``.

    Their paths are relative to the working directory. ``changes`` as in ``load_experiments``. Raises
    ``InputError``.
    """
    module_name, _, attribute = (name, "", "") if name.endswith(".py") else name.rpartition(":")
    file = Path(module_name).absolute() if module_name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise InputError(f"{name}: no file {module_name}")
    sys.path.insert(0, str(file.parent if file else Path.cwd()))
    try:
        module = import_module(file.stem if file else module_name)
    except (ImportError, SyntaxError, ValueError) as error:
        raise InputError(f"{name}: {module_name} cannot be imported: {error}") from None
    if file is not None and Path(getattr(module, "__file__", None) or "").resolve() != file.resolve():
        raise InputError(f"{name}: another module has the name {file.stem}: rename the file")
    if attribute:
        targets = {name: getattr(module, attribute, None)}
    else:
        targets = {
            f"{name}:{key}": each for key, each in vars(module).items() if isinstance(each, Experiment)
        }
    if not targets:
        raise InputError(f"{name}: no Experiment at its top level")
    loaded: list[ExperimentFile] = []
    for place, target in targets.items():
        if not isinstance(target, Experiment):
            raise InputError(
                f"{place}: must be a wirefault.experiments.experiment.Experiment, not {target!r:.60}"
            )
        spec = _changed(SpecFile(place, target.model_dump(exclude_unset=True)), changes or {})
        loaded += _experiments_in(spec, Path())
    return loaded


def _changed(file: SpecFile, changes: Mapping[str, Any]) -> SpecFile:
    merged: dict[str, Any] = {}
    places: set[tuple[str, ...]] = set()
    for key, value in changes.items():
        old = file.data.get(key) or {}
        if key in ("settings", "limits") and isinstance(old, dict):
            merged[key] = {**old, **value}
            places |= {(key, name) for name in value}
        else:
            merged[key] = value
            places.add((key,))
    return replace(file, data={**file.data, **merged}, changed=frozenset(places))


def _with_checked_arms(file: SpecFile) -> dict[str, Any]:
    """The data with each arm checked separately, so that errors name the keys of arms."""
    data = dict(file.data)
    safety = data.get("safety")
    if isinstance(safety, dict) and safety.get("blast_radius") is not None:
        radius = file.check(BlastRadius, ("safety", "blast_radius"), safety["blast_radius"])
        data["safety"] = {**safety, "blast_radius": radius}
    for key, kind in (
        ("baseline", Baseline),
        ("method", Arm),
        ("safety", Safety),
        ("limits", Spending),
    ):
        if data.get(key) is not None:
            data[key] = file.check(kind, (key,), data[key])
    arms = data.get("arms")
    if isinstance(arms, dict):
        arms = {name: file.check(AgentArm, ("arms", name), arm or {}) for name, arm in arms.items()}
        data["arms"] = arms
    variants = data.get("variants")
    if isinstance(variants, dict):
        data["variants"] = {name: file.check(Arm, ("variants", name), arm) for name, arm in variants.items()}
    return data


def is_module_name(target: Path) -> bool:
    """Whether it names Python: ``module:name``, ``file.py:name`` or ``file.py``."""
    if target.suffix == ".py":
        return True
    module_name, colon, attribute = str(target).rpartition(":")
    is_named = module_name.endswith(".py") or all(map(str.isidentifier, module_name.split(".")))
    return bool(colon) and attribute.isidentifier() and is_named


def files_meant(target: Path) -> list[Path]:
    """The file, or the experiments in a folder. Raises ``InputError`` if there are none."""
    if not target.is_dir():
        return [target]
    paths = sorted(path for path in target.iterdir() if path.suffix in _ENDINGS and path.is_file())
    if not paths:
        raise InputError(f"{target}: no experiment in this folder ({', '.join(_ENDINGS)})")
    return paths


def experiments_below(folder: Path) -> list[Path]:
    """The experiments in the folder and below it; prompts, wirings and other files are skipped.

    Raises ``InputError`` if there are none.
    """
    if not folder.is_dir():
        return [folder]
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    paths = [path for path in paths if _has_title(path)]
    if not paths:
        raise InputError(f"{folder}: no experiment in or below this folder ({', '.join(_ENDINGS)})")
    return paths


def _has_title(path: Path) -> bool:
    """Whether the file looks like an experiment, so that its errors are reported."""
    try:
        return "title" in read_spec_file(path).data
    except InputError:
        try:
            data = read_input_bytes(path)
        except OSError:
            return True  # its error is reported
        return b"title" in data[:_TITLE_WITHIN] and b"hypothesis" in data
