"""Question ``model_5xx``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_5xx",
    about="model",
    sentence="failed with 500 once",
    where="first_model",
    fault="server_error",
    rule="one_failure_ends_it, extra_writes",
)
