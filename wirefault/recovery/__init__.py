"""Mitigations: recipes for any Python agent, and the setting RECOVERY of the lab's agent (``strategies``).

Imports from the room ``core`` alone, and nothing of the lab.
"""

from wirefault.recovery.recipes import (
    LoopBreaker,
    LoopDetected,
    NotVerified,
    argument_key,
    step_key,
    verify_after_write,
)

__all__ = ["LoopBreaker", "LoopDetected", "NotVerified", "argument_key", "step_key", "verify_after_write"]
