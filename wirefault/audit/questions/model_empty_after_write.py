"""Question ``model_empty_after_write``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_empty_after_write",
    about="model",
    sentence="an empty answer after the write",
    where="model_after_write",
    fault="empty_answer",
    rule="done_but_not_told, extra_writes",
)
