"""Question ``model_429``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="model_429",
    about="model",
    sentence="refused once with 429 and Retry-After: 2",
    where="first_model",
    fault="rate_limit",
    parameters={"retry_after": 2},
    rule="hasty_retry, one_failure_ends_it",
)
