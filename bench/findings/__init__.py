"""What agent frameworks make of faults by default: `make findings` measures it, docs/findings.md tells it."""
