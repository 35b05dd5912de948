"""Question ``crash_after_write``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="crash_after_write",
    about="write",
    sentence="the agent is killed after it was carried out and before the reply, and resumed",
    where="each_write",
    fault="kill_subject",
    default=False,
    needs_resume=True,
    rule="write_repeated, extra_writes, done_but_not_told",
)
