"""Alembic's environment: the connection comes from ``Store``, and from nowhere else."""

from __future__ import annotations

from alembic import context

from wirefault.conversation.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
