"""Question ``token_limit``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="token_limit",
    about="model",
    sentence="it ends inside a call at the token limit",
    where="model_that_writes",
    fault="token_limit",
    default=False,
    rule="damaged_call, silent",
)
