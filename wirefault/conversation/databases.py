"""The servers that hold conversations: DATABASE_URL names a database, REDIS_URL a Redis for sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from wirefault.conversation.store import RedisValues, Store
from wirefault.core.errors import UserError
from wirefault.core.sqlite import check_files

DATABASE, SESSIONS = "DATABASE_URL", "REDIS_URL"
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}
_CONNECT_BOUND_S = 5


@dataclass(frozen=True)
class Databases:
    """The opened store; ``redis_answers`` is None without a Redis."""

    store: Store
    redis_answers: Callable[[], bool] | None

    def close(self) -> None:
        self.store.close()
        if isinstance(self.store.values, RedisValues):
            self.store.values.close()


def open_databases(environ: Mapping[str, str], default: Path, clock: Callable[[], float]) -> Databases:
    """Open what the variables name, else the SQLite file ``default``.

    Raises ``UserError`` for an unsafe file in the shared folder, for a URL of another kind, and for a server
    that does not answer.
    """
    values, redis_answers = None, None
    if sessions := environ.get(SESSIONS):
        values, redis_answers = _redis(sessions)
    url = _database_url(environ.get(DATABASE, ""), default)
    check = partial(check_files, default) if url.database == str(default) else None
    if check is not None:
        check()  # here its error is not SQLAlchemy's
    try:
        return Databases(
            Store(url.render_as_string(hide_password=False), clock, values, check), redis_answers
        )
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise UserError(f"{DATABASE}: cannot open {url}: {reason}") from None


def _database_url(text: str, default: Path) -> URL:
    if not text:
        return URL.create("sqlite", database=str(default))
    try:
        url = make_url(text)
    except ArgumentError:
        raise UserError(
            f"{DATABASE}: not a URL such as postgresql://USER@HOST/NAME, sqlite:///FILE"
        ) from None
    if (kind := url.get_backend_name()) not in _DRIVERS:
        raise UserError(f"{DATABASE}: unknown kind {kind!r}; it must be postgresql or sqlite")
    url = url.set(drivername=_DRIVERS[kind])
    if kind == "sqlite":
        return url
    return url.update_query_dict({"connect_timeout": str(_CONNECT_BOUND_S)})


def _redis(url: str) -> tuple[RedisValues, Callable[[], bool]]:
    from redis import Redis
    from redis.exceptions import RedisError

    try:
        client = Redis.from_url(url, socket_connect_timeout=_CONNECT_BOUND_S, socket_timeout=_CONNECT_BOUND_S)
        client.ping()
    except (RedisError, ValueError) as error:
        raise UserError(f"{SESSIONS}: no Redis answers there: {error}") from None
    return RedisValues(client), lambda: bool(client.ping())
