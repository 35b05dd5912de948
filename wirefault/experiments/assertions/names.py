"""Whether there can be the links and tools that assertions name, which is known before the flight. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from wirefault.core.spelling import nearest
from wirefault.experiments.assertions.assertion import Assertion
from wirefault.subjects.loading import LAB_SUBJECT
from wirefault.wiring.wiring import Wiring


@dataclass(frozen=True)
class NamesOfWiring:
    """What there will be; None where that shows only while the subject runs."""

    links: Collection[str] | None = None
    tools: Collection[str] | None = None


def names_of(wiring: Wiring, subject: str) -> NamesOfWiring:
    """Those of a wiring that this ``subject`` flies in, or its own if it is empty. The tools of any but the
    lab's agent are its own affair."""
    by_lab = subject == LAB_SUBJECT or (not subject and wiring.is_lab)
    links = None if wiring.links.grows else wiring.links.names
    return NamesOfWiring(links, wiring.links.declared_tools if by_lab else None)


def check_names(assertion: Assertion, known: NamesOfWiring) -> None:
    """Raises ``ValueError`` for a link or tool that there cannot be."""
    for what, keys, names in (
        ("link", assertion.link_keys, known.links),
        ("tool", assertion.tool_keys, known.tools),
    ):
        for key, name in _named(assertion, keys):
            if names is not None and name not in names:
                raise ValueError(
                    f"{assertion.name}: {key}: there is no {what} {name}{nearest(name, sorted(names))}"
                )


def _named(assertion: Assertion, keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each name with the key that an experiment has for it."""
    for key in keys:
        given: str | list[str] = getattr(assertion, key)
        alias = type(assertion).model_fields[key].alias or key
        for name in [given] if isinstance(given, str) else given:
            if name:
                yield alias, name
