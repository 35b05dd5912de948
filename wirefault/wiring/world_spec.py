"""The ``world:`` of a wiring file: how to reset it, and how to read it before and after an episode.

        world:
            reset: {http: POST http://127.0.0.1:9000/reset}
            probe: {sql: {database: shop.db, query: SELECT item, count FROM orders}}

Several resets may be a list; they run in order.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from wirefault.core.sockets import is_this_machine
from wirefault.wiring.spec_file import Spec, SpecFile

POSTGRESQL = ("postgresql", "postgres")
_KINDS = ("http", "command", "sql", "python")


def _http_call(text: str) -> str:
    method, _, url = text.partition(" ")
    parts = urlsplit(url)
    if not method.isupper() or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"{text!r} is not a call: write METHOD URL, for example POST http://127.0.0.1:9000/reset"
        )
    return _without_password(text)


def _without_password(address: str) -> str:
    if urlsplit(address.rpartition(" ")[2]).password:
        raise ValueError("must not contain a password, since reports show it: PostgreSQL reads PGPASSWORD")
    return address


def _callable(text: str) -> str:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), name]):
        raise ValueError(f"{text!r} is not a callable: write MODULE:CALLABLE")
    return text


class SqlSpec(Spec):
    """``database`` is an SQLite file or a ``postgresql://`` address; the rows of the ``query`` are the
    state.
    """

    database: Annotated[str, Field(min_length=1), AfterValidator(_without_password)]
    query: str = Field(min_length=1)

    @property
    def is_postgresql(self) -> bool:
        return urlsplit(self.database).scheme in POSTGRESQL


class HookSpec(Spec):
    """One hook into the world: exactly one of these. ``timeout`` in seconds."""

    http: Annotated[str, AfterValidator(_http_call)] | None = Field(
        None, description="METHOD URL; the reply's JSON is the state"
    )
    command: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="a command; the JSON that it prints is the state"
    )
    sql: SqlSpec | None = Field(None, description="a query in an SQLite file or a PostgreSQL database")
    python: Annotated[str, AfterValidator(_callable)] | None = Field(
        None, description="MODULE:CALLABLE; the value that it returns is the state"
    )
    timeout: float = Field(30.0, gt=0, le=600)

    @model_validator(mode="after")
    def _one(self) -> HookSpec:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_KINDS)}")
        return self

    @property
    def kind(self) -> str:
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def host(self) -> str:
        """Return the other machine that it connects to; empty if none."""
        address = self.http.partition(" ")[2] if self.http else ""
        if self.sql is not None and self.sql.is_postgresql:
            address = self.sql.database
        return (urlsplit(address).hostname or "") if address else ""


class WorldSpec(Spec):
    """If empty, the world is known only from the wire."""

    reset: HookSpec | list[HookSpec] | None = Field(None, description="hooks that reset the world")
    probe: HookSpec | None = Field(None, description="the hook that reads the world's state")

    @property
    def resets(self) -> list[HookSpec]:
        if self.reset is None:
            return []
        return self.reset if isinstance(self.reset, list) else [self.reset]


def check_world(file: SpecFile, world: WorldSpec, allowed: Collection[str]) -> None:
    """Raise ``InputError`` if a hook connects to a machine that the wiring does not allow."""
    for key, hooks in (("reset", world.resets), ("probe", [world.probe] if world.probe else [])):
        for hook in hooks:
            if hook.host and not is_this_machine(hook.host) and hook.host.lower() not in allowed:
                raise file.error(
                    ("world", key),
                    f"{hook.host} is not this machine: to use it, list it: allow: [{hook.host}]",
                )
