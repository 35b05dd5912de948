"""Question ``mcp_tool_gone``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="mcp_tool_gone",
    about="mcp",
    sentence="its server lists no tools",
    where="first_tool",
    fault="changed_tools",
    parameters={"kind": "none"},
    more={"only": {"method": "tools/list"}, "when": {}},
    default=False,
    rule="useless_retry",
)
