"""Question ``stream_cut_after_write``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="stream_cut_after_write",
    about="model",
    sentence="its stream is cut after the write",
    where="model_after_write",
    fault="stream_cut",
    needs_stream=True,
    rule="done_but_not_told, extra_writes, open_stream",
)
