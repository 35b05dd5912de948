"""Question ``model_empty``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_empty",
    about="model",
    sentence="an empty answer",
    where="first_model",
    fault="empty_answer",
    rule="silent, empty_reply",
)
