"""Question ``read_404``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_404",
    about="read",
    sentence="not found",
    where="first_read",
    fault="not_found",
    default=False,
    rule="one_failure_ends_it",
)
