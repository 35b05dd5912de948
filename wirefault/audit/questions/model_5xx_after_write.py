"""Question ``model_5xx_after_write``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_5xx_after_write",
    about="model",
    sentence="failed with 500 once, after the write",
    where="model_after_write",
    fault="server_error",
    rule="done_but_not_told, extra_writes",
)
