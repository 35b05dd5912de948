"""Errors whose message is written for a person: the command line shows it and nothing else."""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """The message says what is wrong, where, and what to do; ``exit_code`` is what the command ends with."""

    exit_code: ClassVar[int] = 1


class InputError(UserError, ValueError):
    """Something that a person gave cannot be used."""

    exit_code: ClassVar[int] = 2
