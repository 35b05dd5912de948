"""Question ``mcp_hangs``."""

from wirefault.audit.question import PATIENCE, Question

QUESTION = Question(
    name="mcp_hangs",
    about="mcp",
    sentence="it hangs",
    where="first_tool",
    fault="hang",
    parameters={"limit": PATIENCE},
    default=False,
    hangs=True,
    rule="no_time_limit",
)
