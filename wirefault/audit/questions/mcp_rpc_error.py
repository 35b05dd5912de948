"""Question ``mcp_rpc_error``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="mcp_rpc_error",
    about="mcp",
    sentence="an error of JSON-RPC",
    where="first_tool",
    fault="rpc_error",
    default=False,
    rule="one_failure_ends_it",
)
