"""Question ``write_down``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_down",
    about="write",
    sentence="its server is down for good with 503",
    where="first_write",
    fault="unavailable",
    lasting=True,
    rule="retry_storm, layered_retries, not_done_but_told, error_as_answer",
)
