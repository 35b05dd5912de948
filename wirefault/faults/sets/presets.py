"""Fault sets by name, file or canonical text. Presets are the files in ``experiments/faults``."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from wirefault.core.errors import nearest
from wirefault.core.files import read_input
from wirefault.core.lab_folder import lab_root
from wirefault.core.plain_data import read_yaml, short_repr
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError, build_set, load_set, scaled
from wirefault.wiring.links import FOUND_WRITES, Links, lab_links

_known: dict[tuple[str, Links | None], FaultSet] = {}
_MAX_KNOWN = 32


def canonical_text(given: object, links: Links | None) -> object:
    """The text of a set, of its plain data or of its text, checked; anything else is returned as it is.

    ``links``: the wiring's links. Raises ``FaultSetError``.
    """
    if isinstance(given, FaultSet):
        given = given.dump()  # read again below, since Python code may have put anything into it
    if isinstance(given, dict):
        return _remember(build_set(given, "fault set", REGISTRY, links), links)
    return _remember(read_for(given, links), links) if isinstance(given, str) else given


def read_canonical(text: str, chaos_level: float = 1.0) -> FaultSet:
    """The set, its probabilities times the level. Raises ``FaultSetError`` if this version cannot read it."""
    return scaled(read_for(text, None), chaos_level)


def read_for(text: str, links: Links | None, where: str = "fault set") -> FaultSet:
    """The set in the text, for these links; None for a canonical text. A process reads each set once.

    ``where`` is for errors. Raises ``FaultSetError``.
    """
    if not text:
        return FaultSet()
    known = _known.get((text, links))
    if known is None:
        known = _known[text, links] = load_set(text, where, REGISTRY, links)
        _remember(known, links)
    return known


def _remember(fault_set: FaultSet, links: Links | None) -> str:
    """Keep a set that was built under its canonical text, which it returns: to read that gives it again."""
    text = fault_set.dump()
    for key in ((text, links), (text, None)):
        _known.setdefault(key, replace(fault_set, description=""))
    for key in list(_known)[:-_MAX_KNOWN]:  # the oldest; threads share them
        _known.pop(key, None)
    return text


_SUFFIX = ".yaml"
# the operating system limits the size of an environment variable
MAX_BYTES = 100_000


def preset_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _folder().glob(f"*{_SUFFIX}")))


def _folder() -> Path:
    return lab_root() / "experiments" / "faults"


def preset(name: str, links: Links | None = None) -> FaultSet:
    """Read a preset for these links (default: the lab's), without entries for missing links.

    Raises ``FaultSetError`` that names the nearest preset.
    """
    if name not in preset_names():
        raise FaultSetError(f"unknown preset {name!r}{nearest(name, preset_names())}")
    path = _folder() / f"{name}{_SUFFIX}"
    if links is None or links == lab_links():
        return read_set(path)
    data = read_yaml(path.read_text(encoding="utf-8"), str(path))
    known = {*links.names, *(group for group, names in links.groups.items() if names)}
    for_toxics = known - ({"writes"} if links.groups["writes"] == (FOUND_WRITES,) else set())
    for key, possible in (("faults", known), ("toxics", for_toxics)):
        data[key] = [entry for entry in data.get(key, ()) if entry.get("links", "all") in possible]
    return build_set(data, str(path), REGISTRY, links)


def describe_preset(name: str) -> str:
    """The preset's description, without parsing its faults."""
    path = _folder() / f"{name}{_SUFFIX}"
    return " ".join(str(read_yaml(path.read_text(encoding="utf-8"), str(path))["description"]).split())


def read_set(path: Path, links: Links | None = None) -> FaultSet:
    """Read a file for these links (default: the lab's). Raises ``FaultSetError`` with file and key."""
    try:
        text = read_input(path)
    except UnicodeDecodeError:
        raise FaultSetError(f"{path}: not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a NUL in its name
        raise FaultSetError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    return read_for(text, lab_links() if links is None else links, str(path))


def find_set(given: str, links: Links | None = None) -> FaultSet:
    """Find a set by a preset's name, a file's path, its text (``{...}``) or the name of its only fault.

    ``links``: the wiring's (default: the lab's). Raises ``FaultSetError``, also for an empty or too
    large set.
    """
    text = given.strip()
    if not text:
        return FaultSet()
    links = lab_links() if links is None else links
    fault_set = _find(text, links)
    if not fault_set.faults and not fault_set.toxics:
        raise FaultSetError(f"{text[:80]}: no faults")
    if len(_remember(fault_set, links).encode()) > MAX_BYTES:
        raise FaultSetError(f"{text[:80]}: larger than {MAX_BYTES} bytes in its full form; split it")
    return fault_set


def _find(text: str, links: Links) -> FaultSet:
    if is_text(text):
        return read_for(text, links)
    if text in preset_names():
        return preset(text, links)
    if _is_path(text):
        return read_set(Path(text), links)
    if text in REGISTRY:
        return build_set({"faults": [{"fault": text}]}, text, REGISTRY, links)
    known = nearest(text, (*preset_names(), *REGISTRY))
    if "did you mean" not in known:  # the list of all faults would be too long
        known = nearest(text, preset_names())
    raise FaultSetError(f"unknown fault set {short_repr(text)}{known}")


def names_set(text: str) -> bool:
    """Whether the text names a set, valid or not."""
    return is_text(text) or text in preset_names() or _is_path(text)


def is_text(text: str) -> bool:
    """Whether it is the text of a set, not a name."""
    return text.startswith("{") or "\n" in text


def _is_path(text: str) -> bool:
    # Path.exists raises for a name that is too long
    return "/" in text or text.endswith((_SUFFIX, ".yml", ".json")) or os.path.exists(text)  # noqa: PTH110


_KINDS = re.compile(r"""\b(?:fault|toxic)["']?: *["']?(\w+)""")


@lru_cache(maxsize=16)  # several commands are printed for one run
def preset_of(faults: str, links: Links) -> str | None:
    """The name of the preset with this canonical text for these links, if any."""
    kinds = Counter(_KINDS.findall(faults))
    for name in preset_names():
        with suppress(FaultSetError):  # for example a preset for a model in a wiring without one
            own = Counter(_KINDS.findall((_folder() / f"{name}{_SUFFIX}").read_text(encoding="utf-8")))
            may_be = kinds == own if links == lab_links() else kinds <= own  # another wiring's lacks some
            if may_be and preset(name, links).dump() == faults:
                return name
    return None
