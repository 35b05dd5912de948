"""Question ``delivered_twice``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="delivered_twice",
    about="write",
    sentence="delivered twice by the network",
    where="each_write",
    fault="duplicate_request",
    default=False,
    rule="extra_writes, done_but_not_told",
)
