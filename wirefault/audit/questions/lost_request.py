"""Question ``lost_request``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="lost_request",
    about="write",
    sentence="request lost before it arrived",
    where="each_write",
    fault="lose_request",
    default=False,
    rule="not_done_but_told, one_failure_ends_it",
)
