"""Question ``write_hangs``."""

from wirefault.audit.question import PATIENCE, Question

QUESTION = Question(
    name="write_hangs",
    about="write",
    sentence="it hangs after it was carried out",
    where="each_write",
    fault="hang",
    parameters={"limit": PATIENCE},
    hangs=True,
    rule="no_time_limit, write_repeated, extra_writes, done_but_not_told",
    mistaken=("a client with a limit longer than the audit's patience",),
)
