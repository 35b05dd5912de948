"""Question ``read_empty``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_empty",
    about="read",
    sentence="an empty result",
    where="first_read",
    fault="empty",
    default=False,
    rule="silent, extra_writes",
)
