"""Question ``content_filter``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="content_filter",
    about="model",
    sentence="filtered",
    where="first_model",
    fault="content_filter",
    lasting=True,
    default=False,
    rule="silent, useless_retry",
)
