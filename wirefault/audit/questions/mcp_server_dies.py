"""Question ``mcp_server_dies``."""

from wirefault.audit.question import Question

QUESTION = Question(
    name="mcp_server_dies",
    about="mcp",
    sentence="its server dies and comes back",
    where="first_tool",
    fault="server_death",
    lasting=True,
    rule="dead_server, done_but_not_told",
)
