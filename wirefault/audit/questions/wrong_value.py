"""Question ``wrong_value``."""

from wirefault.audit.question import FIELD, Question

QUESTION = Question(
    name="wrong_value",
    about="read",
    sentence="a figure that is wrong",
    where="read_with_second_source",
    fault="wrong_value",
    parameters={"field": FIELD},
    default=False,
    mistaken=("the figure of the second reply is another one that happens to be equal",),
)
