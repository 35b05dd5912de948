"""Question ``write_5xx``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_5xx",
    about="write",
    sentence="refused with 503 once",
    where="each_write",
    fault="unavailable",
    rule="one_failure_ends_it, not_done_but_told, extra_writes",
)
