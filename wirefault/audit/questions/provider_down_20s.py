"""Question ``provider_down_20s``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="provider_down_20s",
    about="model",
    sentence="the provider is down for 20 s",
    where="first_model",
    fault="unavailable",
    lasting=True,
    more={"during": {"start": "first_met", "duration": 20}},
    default=False,
    rule="one_failure_ends_it, layered_retries",
)
