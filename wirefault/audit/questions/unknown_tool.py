"""Question ``unknown_tool``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="unknown_tool",
    about="model",
    sentence="it calls an unknown tool",
    where="first_model_and_that_writes",
    fault="unknown_tool",
    rule="extra_writes, one_failure_ends_it",
)
