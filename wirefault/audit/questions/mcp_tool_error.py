"""Question ``mcp_tool_error``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="mcp_tool_error",
    about="mcp",
    sentence="an error as the tool's result",
    where="first_tool",
    fault="tool_error",
    default=False,
    rule="not_done_but_told",
)
