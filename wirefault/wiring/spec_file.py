"""A file that describes a wiring or an experiment, with errors that name its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from wirefault.core.errors import InputError, nearest
from wirefault.core.files import read_input
from wirefault.core.plain_data import PlainDataError, plain_data, read_yaml, short_repr


class Constructed(BaseModel):
    """A model that people also construct in Python: a wrong argument is an ``InputError`` that names it."""

    if not TYPE_CHECKING:  # checkers and editors see the fields

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise SpecFile(type(self).__name__, values).explained(error, type(self), (), values) from None

        # files are validated without it, and keep pydantic's places
        __init__.__pydantic_base_init__ = True


class Spec(Constructed):
    """A mapping in the file: unknown keys are errors, and a text is never read as a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


Place = tuple[str | int, ...]


@dataclass(frozen=True)
class SpecFile:
    """``where`` is the file's name for messages; ``text`` its content, empty if the data is not from a
    file. ``changed``: the places that the command line gave.
    """

    where: str
    data: Mapping[str, Any]
    text: str = ""
    changed: frozenset[Place] = frozenset()

    def error(self, place: Sequence[str | int], problem: str) -> InputError:
        """Return an error with the line of that key, or of the closest enclosing key in the file."""
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
        if not self.changed.isdisjoint(tuple(place[:end]) for end in range(1, len(place) + 1)):
            return InputError(f"command line: {key}: {problem}")
        line = self._line(tuple(place))
        return InputError(f"{self.where}{f':{line}' if line else ''}: {f'{key}: ' if key else ''}{problem}")

    def _line(self, place: Place) -> int | None:
        if not self.text:
            return None
        from wirefault.core.yaml_text import yaml_lines  # PyYAML is needed only for an error's line

        lines = yaml_lines(self.text)
        return next(lines[place[:end]] for end in range(len(place), -1, -1) if place[:end] in lines)

    def check(self, kind: type[BaseModel], place: Place, value: Any) -> Any:
        """Validate the value as that model. Raises ``InputError``."""
        if not isinstance(value, dict):
            raise self.error(place, f"must be a mapping, not {short_repr(value)}")
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            raise self.explained(error, kind, place, value) from None

    def explained(
        self, error: ValidationError, kind: type[BaseModel], place: Place, value: Any
    ) -> InputError:
        """Return the first problem as an error with its key."""
        errors = error.errors(include_url=False)
        # a misspelt key is both unknown and missing: report it as unknown
        first = next((problem for problem in errors if problem["type"] == "extra_forbidden"), errors[0])
        if first["type"] != "extra_forbidden":  # of several forms, the one that the value comes closest to
            forms = [each for each in errors if each["loc"][:1] == first["loc"][:1]]
            first = max(forms, key=lambda problem: len(_place_in(value, problem["loc"])))
        at = (*place, *_place_in(value, first["loc"]))
        if first["type"] == "extra_forbidden":
            return self.error(at, f"no such key{nearest(str(at[-1]), _keys_at(kind, first['loc']))}")
        if first["type"] == "missing":
            return self.error(place, f"{first['loc'][-1]} is missing")
        if first["type"] == "model_type":
            return self.error(at, f"must be a mapping, not {short_repr(first['input'])}")
        reason = first["msg"].removeprefix("Value error, ")
        suffix = f", not {short_repr(first['input'])}" if reason.startswith("Input should") else ""
        return self.error(at, reason + suffix)


def _place_in(value: Any, loc: Place) -> Place:
    """Return the keys and indexes of the place; pydantic also names the forms that it tried."""
    place: list[str | int] = []
    for part in loc:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            continue
        place.append(part)
    return tuple(place)


def _keys_at(kind: type[BaseModel], loc: Place) -> Iterable[str]:
    """Return the known keys of the mapping that has the last key of this place."""
    kinds = [kind]
    for part in loc[:-1]:
        fields = [
            info for each in kinds for name, info in each.model_fields.items() if part in (name, info.alias)
        ]
        kinds = [model for info in fields for model in _models_in(info.annotation)] or kinds
    return dict.fromkeys(name for each in kinds for name in known_keys(each))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def known_keys(kind: type[BaseModel]) -> Iterable[str]:
    return [info.alias or name for name, info in kind.model_fields.items()]


def read_spec_file(path: Path, needs: str = "`links`") -> SpecFile:
    """Read YAML or JSON; ``needs`` names its keys, for the error. Raises ``InputError``."""
    try:
        text = read_input(path)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a NUL in the file name
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    try:
        data = plain_data(read_yaml(text, str(path)), str(path))
    except PlainDataError as error:
        raise InputError(f"{error}{_hint(path)}") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: must be a mapping with {needs}, not {short_repr(data)}{_hint(path)}")
    return SpecFile(str(path), data, text)


def _hint(path: Path) -> str:
    """Say how a program is run, if the file may be one."""
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return ""
    return "; a program is run after --: wirefault exec -- COMMAND"
