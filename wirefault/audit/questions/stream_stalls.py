"""Question ``stream_stalls``."""

from wirefault.audit.question import PATIENCE, Question

QUESTION = Question(
    name="stream_stalls",
    about="model",
    sentence="its stream stalls after the write",
    where="model_after_write",
    fault="stream_hang",
    parameters={"limit": PATIENCE},
    default=False,
    hangs=True,
    needs_stream=True,
    rule="no_time_limit, done_but_not_told, extra_writes",
)
