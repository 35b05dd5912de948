"""Question ``read_down``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_down",
    about="read",
    sentence="its server is down for good with 503",
    where="first_read",
    fault="unavailable",
    lasting=True,
    rule="retry_storm, layered_retries, not_done_but_told, error_as_answer",
)
