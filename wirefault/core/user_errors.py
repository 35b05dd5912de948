"""Errors whose message is written for a person: the command line shows it and nothing else."""


class UserError(Exception):
    """The message says what is wrong, where, and what to do."""


class InputError(UserError, ValueError):
    """Something that a person gave cannot be used: a usage error of the command."""
