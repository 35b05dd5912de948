"""Question ``compaction``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="compaction",
    about="model",
    sentence="the conversation is too long after the write",
    where="model_after_write",
    fault="context_length",
    lasting=True,
    default=False,
    rule="done_but_not_told, extra_writes, useless_retry",
)
