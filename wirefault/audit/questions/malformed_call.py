"""Question ``malformed_call``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="malformed_call",
    about="model",
    sentence="its tool call is malformed",
    where="model_that_writes",
    fault="malformed_tool_call",
    rule="damaged_call, one_failure_ends_it, silent",
)
