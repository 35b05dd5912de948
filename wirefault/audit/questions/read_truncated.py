"""Question ``read_truncated``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_truncated",
    about="read",
    sentence="its JSON cut off",
    where="first_read",
    fault="truncate",
    default=False,
    rule="one_failure_ends_it",
)
