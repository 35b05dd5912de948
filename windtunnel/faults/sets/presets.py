"""Fault sets by name: the presets, files of ``experiments/faults``, and files of one's own."""

from __future__ import annotations

import os
from pathlib import Path

from windtunnel.core.spelling import nearest
from windtunnel.core.strict_yaml import read_yaml, short_repr
from windtunnel.faults.registry import REGISTRY
from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.faults.sets.fault_set import FaultSet, FaultSetError, load_set

# beside the packages: in a checkout and, as their data, in an installation too
_FOLDER = Path(__file__).parents[3] / "experiments" / "faults"
_SUFFIX = ".yaml"
# what a process can be handed in its environment is bounded by the system
LARGEST = 100_000


def preset_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))


def preset(name: str) -> FaultSet:
    """Raises ``FaultSetError`` that names the nearest preset."""
    if name not in preset_names():
        raise FaultSetError(f"no preset is called {name!r}{nearest(name, preset_names())}")
    return read_set(_FOLDER / f"{name}{_SUFFIX}")


def describe_preset(name: str) -> str:
    """What a preset is for. Its faults are not read, since that takes longer."""
    path = _FOLDER / f"{name}{_SUFFIX}"
    return " ".join(str(read_yaml(path.read_text(encoding="utf-8"), str(path))["description"]).split())


def read_set(path: Path) -> FaultSet:
    """Raises ``FaultSetError`` that names file and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FaultSetError(f"{path}: not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a NUL in its name
        raise FaultSetError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    return load_set(text, str(path), REGISTRY)


def find_set(given: str) -> FaultSet:
    """The set meant by a preset's name, a file's path, or the text of a set (``{...}``).

    Raises ``FaultSetError``; also for one without any fault, or too large to be handed on.
    """
    text = given.strip()
    if not text:
        return FaultSet()
    fault_set = _find(text)
    if not fault_set.faults and not fault_set.toxics:
        raise FaultSetError(f"{text[:80]}: there is no fault in it")
    if len(fault_set.dump().encode()) > LARGEST:
        raise FaultSetError(f"{text[:80]}: larger than {LARGEST} bytes in its full form; split it")
    return fault_set


def _find(text: str) -> FaultSet:
    if is_text(text):
        return read_canonical(text)  # canonical already, where one process hands it to another
    if text in preset_names():
        return preset(text)
    if _is_path(text):
        return read_set(Path(text))
    if text in REGISTRY:
        raise FaultSetError(f"{text} is one fault, no set; a file with it: faults: [{{fault: {text}}}]")
    known = nearest(text, preset_names())
    raise FaultSetError(f"{short_repr(text)} is no file, and no preset is called so{known}")


def names_set(text: str) -> bool:
    """Whether ``find_set`` would know what is meant, be it good or not."""
    return is_text(text) or text in preset_names() or _is_path(text)


def is_text(text: str) -> bool:
    """Whether it is the text of a set itself, not the name of one."""
    return text.startswith("{") or "\n" in text


def _is_path(text: str) -> bool:
    # Path.exists raises for a name that is too long
    return "/" in text or text.endswith((_SUFFIX, ".yml", ".json")) or os.path.exists(text)  # noqa: PTH110


def preset_of(faults: str) -> str | None:
    """The preset whose canonical text this is."""
    return next((name for name in preset_names() if preset(name).dump() == faults), None)
