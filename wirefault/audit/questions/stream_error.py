"""Question ``stream_error``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="stream_error",
    about="model",
    sentence="an error event in its stream after the write",
    where="model_after_write",
    fault="stream_error",
    default=False,
    needs_stream=True,
    rule="done_but_not_told, extra_writes, open_stream",
)
