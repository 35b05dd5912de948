"""Question ``read_5xx``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_5xx",
    about="read",
    sentence="refused with 503 once",
    where="first_read",
    fault="unavailable",
    rule="one_failure_ends_it, not_done_but_told",
)
