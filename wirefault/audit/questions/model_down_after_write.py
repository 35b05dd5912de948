"""Question ``model_down_after_write``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_down_after_write",
    about="model",
    sentence="down for good after the write",
    where="model_after_write",
    fault="server_error",
    lasting=True,
    rule="done_but_not_told, extra_writes",
)
