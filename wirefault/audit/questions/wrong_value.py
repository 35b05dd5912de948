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
    rule="none: a note says whether the answer has the wrong figure although another reply has the right one",
    mistaken=("the figure of the second reply is another one that happens to be equal",),
)
