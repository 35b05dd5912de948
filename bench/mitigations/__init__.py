"""Measure what mitigations do to effects under faults: `make tournament` writes docs/mitigations.md."""
