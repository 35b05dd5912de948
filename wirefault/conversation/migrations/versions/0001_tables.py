"""The tables and views."""

from __future__ import annotations

from alembic import op

from wirefault.conversation.tables import METADATA, VIEWS

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    METADATA.create_all(op.get_bind())
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
    METADATA.drop_all(op.get_bind())
