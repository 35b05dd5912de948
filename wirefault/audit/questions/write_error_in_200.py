"""Question ``write_error_in_200``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_error_in_200",
    about="write",
    sentence="refused in a 200",
    where="each_write",
    fault="status",
    parameters={"status": 200, "body": {"error": "the request was refused"}},
    lasting=True,
    default=False,
    rule="not_done_but_told, error_as_result",
)
