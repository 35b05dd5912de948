"""The conversation lab's store: interactions, scenarios, recoveries, snapshots, metrics, and sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    JSON,
    Engine,
    Integer,
    Text,
    case,
    cast,
    create_engine,
    delete,
    event,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from wirefault.conversation.tables import (
    interactions,
    recoveries,
    scenarios,
    session_values,
    snapshots,
    system_metrics,
)
from wirefault.conversation.turns import TurnResult

STATE_S, CHECKPOINT_S, FAILURES_S, RATE_S = 3600.0, 7200.0, 3600.0, 60.0
"""How long a session's state, its checkpoints, its count of failures and its rate are kept."""
Checkpoint = Literal["pre_request", "pre_failure", "post_recovery"]
CHECKPOINTS: Sequence[Checkpoint] = ("pre_request", "pre_failure", "post_recovery")
SLOW_MS = 5000.0
"""The threshold of the metric ``processing_time_ms``."""


class Values(Protocol):
    """Values that expire: in the database, or in Redis."""

    def get(self, key: str) -> Any: ...
    def put(self, key: str, value: Any, seconds: float) -> None: ...
    def count(self, key: str, seconds: float) -> int:
        """Add 1 to a number, 0 if there is none, in one step, and return it."""
        ...

    def remove(self, *keys: str) -> None: ...
    def keys(self, prefix: str) -> Sequence[str]: ...


class DatabaseValues:
    """Values in the table ``session_values``."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock

    def get(self, key: str) -> Any:
        query = select(session_values.c.value).where(
            session_values.c.key == key, session_values.c.expires_at > self._clock()
        )
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def put(self, key: str, value: Any, seconds: float) -> None:
        self._upsert(key, value, value, seconds)

    def count(self, key: str, seconds: float) -> int:
        more = cast(cast(session_values.c.value, Text), Integer) + 1
        is_kept = session_values.c.expires_at > self._clock()
        changed = case((is_kept, cast(cast(more, Text), JSON)), else_=literal(1, JSON))
        return int(self._upsert(key, 1, changed, seconds))

    def _upsert(self, key: str, value: Any, changed: Any, seconds: float) -> Any:
        """Insert the value, or set an old one to ``changed``, in one statement; return the new one."""
        kind = postgresql if self._engine.dialect.name == "postgresql" else sqlite
        expires_at = self._clock() + seconds
        statement = (
            kind.insert(session_values)
            .values(key=key, value=value, expires_at=expires_at)
            .on_conflict_do_update(index_elements=["key"], set_={"value": changed, "expires_at": expires_at})
            .returning(session_values.c.value)
        )
        with self._engine.begin() as connection:
            return connection.execute(statement).scalar_one()

    def remove(self, *keys: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(session_values).where(session_values.c.key.in_(keys)))

    def keys(self, prefix: str) -> Sequence[str]:
        query = select(session_values.c.key).where(
            session_values.c.key.startswith(prefix, autoescape=True),
            session_values.c.expires_at > self._clock(),
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())


class RedisValues:
    """Values in Redis, which forgets them. ``client``: redis-py's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get(self, key: str) -> Any:
        value = self._client.get(f"wirefault:{key}")
        return None if value is None else json.loads(value)

    def put(self, key: str, value: Any, seconds: float) -> None:
        self._client.set(f"wirefault:{key}", json.dumps(value), px=max(1, int(seconds * 1000)))

    def count(self, key: str, seconds: float) -> int:
        with self._client.pipeline() as both:  # in one transaction
            both.incr(f"wirefault:{key}").pexpire(f"wirefault:{key}", max(1, int(seconds * 1000)))
            return int(both.execute()[0])

    def close(self) -> None:
        self._client.close()

    def remove(self, *keys: str) -> None:
        self._client.delete(*(f"wirefault:{key}" for key in keys))

    def keys(self, prefix: str) -> Sequence[str]:
        keys = self._client.scan_iter(match=f"wirefault:{prefix}*")
        return [key.decode().removeprefix("wirefault:") for key in keys]


@dataclass
class Session:
    """The state of one session. ``generation`` counts its resets; each has its own episode and world.

    ``attempts`` counts the attempts of its episode, ``turns`` the messages; ``in_progress`` is the message
    that a server has begun to answer.
    """

    session_id: str
    generation: int = 0
    attempts: int = 0
    turns: int = 0
    failure_count: int = 0
    recovery_count: int = 0
    last_mode: str = ""
    failed_at: float | None = None
    conversation_history: list[dict[str, str]] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)
    in_progress: dict[str, Any] | None = None

    @property
    def episode(self) -> str:
        return f"{self.session_id}.{self.generation}" if self.generation else self.session_id


def _write_ahead(connection: Any, record: object) -> None:
    """Trust no view of the file, and do not wait for the disk at each commit.

    A turn has a dozen commits; a killed server loses none of them.
    """
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


class Store:
    """The database, brought to the newest revision. Raises ``sqlalchemy.exc.SQLAlchemyError``.

    ``check`` is called before each connection, and raises ``sqlite3.Error``.
    """

    def __init__(
        self,
        url: str,
        clock: Callable[[], float],
        values: Values | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.engine, self._clock = create_engine(url), clock
        if check is not None:
            event.listen(self.engine, "do_connect", lambda *_: check())
        self.kind = self.engine.dialect.name
        if self.kind == "sqlite":
            event.listen(self.engine, "connect", _write_ahead)
        self.values = values or DatabaseValues(self.engine, clock)
        with self.engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        self.engine.dispose()

    # sessions

    def session(self, session_id: str) -> Session | None:
        """Return the session's state; None if it is new, or was silent for an hour."""
        stored = self.values.get(f"state:{session_id}")
        if stored is None:
            return None
        session = Session(**stored)
        count = self.values.get(f"failure_count:{session_id}")
        session.failure_count = count or 0
        return session

    def put_session(self, session: Session) -> None:
        self.values.put(f"state:{session.session_id}", asdict(session), STATE_S)
        self.values.put(f"failure_count:{session.session_id}", session.failure_count, FAILURES_S)

    def next_generation(self, session_id: str) -> int:
        """Return the number of a conversation that the session has not had."""
        query = select(func.count(func.distinct(interactions.c.episode))).where(
            interactions.c.session_id == session_id
        )
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)

    def unfinished(self) -> Iterator[Session]:
        """Yield the sessions whose server ended in mid-turn."""
        for key in self.values.keys("state:"):
            session = self.session(key.removeprefix("state:"))
            if session and session.in_progress:
                yield session

    def count_message(self, session_id: str) -> int:
        """Count a message, and return how many the session has sent in this minute."""
        key = f"rate_limit:{session_id}:{int(self._clock() / RATE_S)}"
        return self.values.count(key, RATE_S)

    def checkpoint(self, session: Session, kind: Checkpoint, stored_step: str) -> None:
        """Store one of the session's checkpoints; ``stored_step``: the conversation's, by its id."""
        data = {**asdict(session), "stored_step": stored_step}
        self.values.put(f"{kind}:{session.session_id}", data, CHECKPOINT_S)
        with self.engine.begin() as connection:
            connection.execute(
                insert(snapshots).values(
                    session_id=session.session_id,
                    snapshot_type=kind,
                    state_data=data,
                    timestamp=self._clock(),
                )
            )

    def checkpoints(self, session_id: str) -> dict[str, Any]:
        """Return the checkpoints that are still kept, by kind."""
        stored = {kind: self.values.get(f"{kind}:{session_id}") for kind in CHECKPOINTS}
        return {kind: value for kind, value in stored.items() if value is not None}

    # what happened

    def add_interaction(
        self,
        session: Session,
        run_id: str,
        request: Mapping[str, Any],
        response: Mapping[str, Any],
        mode: str,
        result: TurnResult,
    ) -> int:
        """Store one turn with its attempts to recover, and return its id."""
        now = self._clock()
        with self.engine.begin() as connection:
            row = insert(interactions).values(
                session_id=session.session_id,
                run_id=run_id,
                episode=session.episode,
                attempt=result.attempt,
                timestamp=now,
                request_data=dict(request),
                response_data=dict(response),
                status=result.status,
                natural_status=result.natural_status,
                failure_mode=mode,
                failure_injection_applied=result.applied,
                natural_response=result.natural,
                processing_time_ms=result.ms,
                token_count=result.tokens,
                model_used=result.model,
            )
            key = connection.execute(row).inserted_primary_key
            interaction = int(key[0]) if key else 0
            for tried in result.recoveries:
                connection.execute(
                    insert(recoveries).values(
                        session_id=session.session_id,
                        interaction_id=interaction,
                        recovery_strategy=tried.strategy,
                        attempt_number=tried.number,
                        success=tried.success,
                        recovery_data={"preserved": tried.preserved, "link": tried.link},
                        notes=tried.detail,
                        recovery_time_ms=round(tried.seconds * 1000, 3),
                        timestamp=tried.t,
                    )
                )
            connection.execute(
                insert(system_metrics).values(
                    metric_type="processing_time_ms",
                    metric_value=result.ms,
                    threshold_value=SLOW_MS,
                    exceeded_threshold=result.ms > SLOW_MS,
                    metric_metadata={"session_id": session.session_id},
                    timestamp=now,
                )
            )
        return interaction

    def history(self, session_id: str) -> list[dict[str, Any]]:
        """Return the session's turns, oldest first."""
        query = (
            select(interactions).where(interactions.c.session_id == session_id).order_by(interactions.c.id)
        )
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def recoveries_of(self, interaction: int) -> list[dict[str, Any]]:
        """Return the attempts to recover in one turn."""
        query = select(recoveries).where(recoveries.c.interaction_id == interaction).order_by(recoveries.c.id)
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def analytics(self, hours: float) -> dict[str, Any]:
        """Return counts of the last hours."""
        since = interactions.c.timestamp > self._clock() - hours * 3600
        modes = select(interactions.c.failure_mode, func.count()).where(
            since, interactions.c.failure_injection_applied
        )
        statuses = select(interactions.c.status, func.count()).where(since)
        whole = select(func.avg(interactions.c.processing_time_ms), func.count()).where(since)
        with self.engine.connect() as connection:
            counts = connection.execute(modes.group_by(interactions.c.failure_mode)).all()
            distribution = connection.execute(statuses.group_by(interactions.c.status)).all()
            mean, total = connection.execute(whole).one()
        return {
            "time_range_hours": hours,
            "failure_counts": dict(map(tuple, counts)),
            "status_distribution": dict(map(tuple, distribution)),
            "average_processing_time_ms": None if mean is None else round(mean, 3),
            "total_interactions": total,
        }

    # scenarios

    def scenarios(self) -> list[dict[str, Any]]:
        """Return the failure scenarios by name."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(scenarios).order_by(scenarios.c.name)).mappings()
            return [dict(row) for row in rows]

    def put_scenario(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Add a scenario, or replace the one with its name, and return it."""
        now, name = self._clock(), values["name"]
        with self.engine.begin() as connection:
            changed = connection.execute(
                update(scenarios).where(scenarios.c.name == name).values(**values, updated_at=now)
            )
            if not changed.rowcount:
                connection.execute(insert(scenarios).values(**values, created_at=now, updated_at=now))
            row = connection.execute(select(scenarios).where(scenarios.c.name == name)).mappings().one()
            return dict(row)

    def answers(self) -> bool:
        """Return whether the database answers."""
        with self.engine.connect() as connection:
            return connection.execute(text("SELECT 1")).scalar() == 1
