"""Question ``model_quota``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_quota",
    about="model",
    sentence="quota used up for good",
    where="first_model",
    fault="quota",
    lasting=True,
    rule="useless_retry, silent",
)
