"""Question ``lost_reply``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="lost_reply",
    about="write",
    sentence="reply lost after it was carried out",
    where="each_write",
    fault="lose_reply",
    rule="write_repeated, extra_writes, done_but_not_told",
)
