"""The tables and views of the conversation lab, alike in SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData()
"""Times are seconds since the epoch."""

interactions = Table(
    "agent_interactions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(200), nullable=False, index=True),
    Column("run_id", String(100), nullable=False),
    Column("episode", String(220), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("timestamp", Float, nullable=False, index=True),
    Column("request_data", JSON, nullable=False),
    Column("response_data", JSON),
    Column("status", String(20), nullable=False),
    Column("natural_status", String(20), nullable=False),
    Column("failure_mode", String(60), nullable=False, default=""),
    Column("failure_injection_applied", Boolean, nullable=False),
    Column("natural_response", Text),
    Column("processing_time_ms", Float, nullable=False),
    Column("token_count", Integer, nullable=False),
    Column("model_used", String(120), nullable=False),
)
scenarios = Table(
    "failure_scenarios",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(120), nullable=False, unique=True),
    Column("description", Text, nullable=False, default=""),
    Column("failure_type", String(60), nullable=False),
    Column("config", JSON, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)
recoveries = Table(
    "recovery_attempts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(200), nullable=False, index=True),
    Column("interaction_id", Integer, ForeignKey("agent_interactions.id"), nullable=False),
    Column("recovery_strategy", String(40), nullable=False),
    Column("attempt_number", Integer, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("recovery_data", JSON, nullable=False),
    Column("notes", Text, nullable=False),
    Column("recovery_time_ms", Float, nullable=False),
    Column("timestamp", Float, nullable=False),
)
snapshots = Table(
    "agent_state_snapshots",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("session_id", String(200), nullable=False, index=True),
    Column("snapshot_type", String(20), nullable=False),
    Column("state_data", JSON, nullable=False),
    Column("timestamp", Float, nullable=False),
)
system_metrics = Table(
    "system_metrics",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("metric_type", String(40), nullable=False),
    Column("metric_value", Float, nullable=False),
    Column("threshold_value", Float),
    Column("exceeded_threshold", Boolean, nullable=False),
    Column("metric_metadata", JSON, nullable=False),
    Column("timestamp", Float, nullable=False, index=True),
)
session_values = Table(
    "session_values",
    METADATA,
    Column("key", String(250), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("expires_at", Float, nullable=False),
)

VIEWS = {
    "failure_analysis": """
        SELECT i.session_id, i.failure_mode, COUNT(*) AS failures,
               AVG(i.processing_time_ms) AS average_processing_time_ms,
               SUM(CASE WHEN i.status = 'success' THEN 1 ELSE 0 END) AS recovered
        FROM agent_interactions i WHERE i.failure_injection_applied
        GROUP BY i.session_id, i.failure_mode""",
    "system_health": """
        SELECT metric_type, AVG(metric_value) AS average,
               SUM(CASE WHEN exceeded_threshold THEN 1 ELSE 0 END) AS violations
        FROM system_metrics
        WHERE timestamp > (SELECT MAX(timestamp) FROM system_metrics) - 3600
        GROUP BY metric_type""",
}
"""Recovered: the turn ended as asked although its fault was delivered. Health: the last hour of metrics."""
