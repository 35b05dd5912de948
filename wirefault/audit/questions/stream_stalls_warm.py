"""Question ``stream_stalls_warm``."""

from wirefault.audit.question import PATIENCE, Question

QUESTION = Question(
    name="stream_stalls_warm",
    about="model",
    sentence="its stream stalls after the write, kept warm by pings",
    where="model_after_write",
    fault="stream_hang",
    parameters={"limit": PATIENCE, "ping_every": 5},
    default=False,
    hangs=True,
    needs_stream=True,
    rule="no_time_limit, done_but_not_told, extra_writes",
)
