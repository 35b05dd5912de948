"""Question ``write_429``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_429",
    about="write",
    sentence="refused once with 429 and Retry-After: 2",
    where="each_write",
    fault="rate_limit",
    parameters={"retry_after": 2},
    rule="hasty_retry, one_failure_ends_it",
    mistaken=("a server that accepts the next request at once",),
)
