"""Measure the default behaviour of agent frameworks under faults: `make findings` writes docs/findings.md."""
