"""A fault of a tool call's arguments on their way to the tool."""

from __future__ import annotations

from pydantic import Field

from wirefault.core.caller_errors import HTTP_ERRORS
from wirefault.dialects.base import ModelRequest
from wirefault.dialects.json_values import as_object
from wirefault.dialects.mcp import CALL
from wirefault.faults.base import Act, Fault, Miss, Try, evidence_of
from wirefault.faults.catalogue.model.calls import ArgumentDamage, damaged


class ChangedArguments(Fault):
    """Change an argument of a tool call on its way to the tool.

    The call is carried out with another value than the agent sent, or without the argument, and its result
    looks normal. The argument is a field of the request's JSON object, on an MCP link one of the tool's
    arguments; which one is drawn by chance. Requests without a JSON object pass.
    """

    name = "changed_arguments"
    family = "meaning"
    where = "tool"
    needs_body = True
    can_cause = HTTP_ERRORS

    kind: ArgumentDamage = Field("value", description="the change")
    argument: str | None = Field(None, min_length=1, description="name of the argument; default: drawn")

    def act(self, tried: Try) -> Act | Miss:
        try:
            body = as_object(tried.request.json())
        except ValueError:
            return Miss("nothing_to_change")
        params = as_object(body.get("params"))
        of_mcp = body.get("method") == CALL
        arguments = as_object(params.get("arguments")) if of_mcp else body
        changed = damaged(arguments, self.kind, self.argument, "", ModelRequest(), tried)
        if changed is None:
            return Miss("nothing_to_change")
        request = {**body, "params": {**params, "arguments": changed}} if of_mcp else changed
        names = [name for name in {**arguments, **changed} if arguments.get(name) != changed.get(name)]
        evidence = {
            "argument": names[0] if names else "",
            "original": evidence_of(arguments.get(names[0]) if names else None),
            "changed": evidence_of(changed.get(names[0]) if names else None),
        }
        return Act(request=tried.request.with_json(request), evidence=evidence)
