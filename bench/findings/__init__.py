"""Default behaviour of agent frameworks under faults: `make findings` measures it and writes
docs/findings.md.
"""
