"""Question ``write_500_unknown``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_500_unknown",
    about="write",
    sentence="answered with 500 after it was carried out",
    where="each_write",
    fault="server_error",
    parameters={"executed": True},
    default=False,
    rule="write_repeated, extra_writes, done_but_not_told",
)
