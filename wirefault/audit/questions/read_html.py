"""Question ``read_html``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="read_html",
    about="read",
    sentence="a gateway's HTML page in its place",
    where="first_read",
    fault="bad_gateway",
    default=False,
    rule="one_failure_ends_it, error_as_answer",
)
