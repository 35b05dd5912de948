"""Question ``mcp_tool_gone``."""

from wirefault.audit.question import TOOL, Question

QUESTION = Question(
    name="mcp_tool_gone",
    about="mcp",
    sentence="it is gone from its server's list",
    where="first_tool",
    fault="changed_tools",
    parameters={"kind": "removed", "tool": TOOL},
    more={"only": {"method": "tools/list"}, "when": {}},
    default=False,
    rule="useless_retry",
)
