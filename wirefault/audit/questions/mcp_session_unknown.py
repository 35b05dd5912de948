"""Question ``mcp_session_unknown``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="mcp_session_unknown",
    about="mcp",
    sentence="its session is unknown",
    where="first_tool",
    fault="unknown_session",
    more={"when": {"persistent": True}},
    lasting=True,
    needs_session=True,
    default=False,
    rule="useless_retry",
)
