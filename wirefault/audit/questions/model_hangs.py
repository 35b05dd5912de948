"""Question ``model_hangs``."""

from wirefault.audit.question import PATIENCE, Question

QUESTION = Question(
    name="model_hangs",
    about="model",
    sentence="it hangs",
    where="first_model",
    fault="api_timeout",
    parameters={"limit": PATIENCE},
    hangs=True,
    rule="no_time_limit",
    mistaken=("a client with a limit longer than the audit's patience",),
)
