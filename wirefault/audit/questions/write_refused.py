"""Question ``write_refused``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="write_refused",
    about="write",
    sentence="refused for good with 403",
    where="each_write",
    fault="forbidden",
    lasting=True,
    rule="useless_retry, not_done_but_told",
)
