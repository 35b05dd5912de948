"""Texts whose figures know where ``--json`` has them, so that a reader and a test can compare both. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup, escape

from wirefault.history.logs import strip_control


class Figure(str):
    """A figure as text, with its place in the JSON of its recording: a JSON Pointer (RFC 6901)."""

    pointer: str
    href: str = ""
    """Its link on the page; empty for none."""

    def __new__(cls, text: object, *path: str | int) -> Figure:
        figure = super().__new__(cls, text)
        figure.pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
        return figure

    def linked(self, href: str) -> Figure:
        """Return the figure as a link."""
        figure = str.__new__(Figure, self)
        figure.pointer, figure.href = self.pointer, href
        return figure


class Phrase(str):
    """A text of several parts, some of them figures."""

    parts: tuple[str, ...]

    def __new__(cls, *parts: str) -> Phrase:
        phrase = super().__new__(cls, "".join(parts))
        phrase.parts = tuple(_flat(parts))
        return phrase


def _flat(parts: tuple[str, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Phrase):
            yield from part.parts
        else:
            yield part


def joined(separator: str, parts: list[str]) -> Phrase:
    """Return the parts with the separator between them."""
    between = [each for part in parts for each in (separator, part)]
    return Phrase(*between[1:])


def capitalised(text: str) -> Phrase:
    """Return the text with a capital first letter; a figure at its beginning stays one."""
    first, *rest = text.parts if isinstance(text, Phrase) else (text,)
    capital = f"{first[:1].upper()}{first[1:]}"
    pointer = first.pointer.split("/")[1:] if isinstance(first, Figure) else None
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer or ()]
    return Phrase(capital if pointer is None else Figure(capital, *steps), *rest)


def marked_up(text: str, tag: str = "data") -> Markup:
    """Return the text as HTML or SVG, with an element around each figure; control characters are removed."""
    parts = text.parts if isinstance(text, Phrase) else (text,)
    return Markup("").join(
        _figure(part, tag) if isinstance(part, Figure) else escape(strip_control(part)) for part in parts
    )


def _figure(figure: Figure, tag: str) -> Markup:
    element = Markup('<{} data-json="{}">{}</{}>').format(
        Markup(tag), strip_control(figure.pointer), strip_control(figure), Markup(tag)
    )
    return Markup('<a href="{}">{}</a>').format(figure.href, element) if figure.href else element
