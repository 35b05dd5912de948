"""What ``windtunnel mcp`` tells the gateway, by its control API."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from windtunnel.core.sockets import LOOPBACK, Address
from windtunnel.gateway.control import ControlError, read_body
from windtunnel.gateway.stdio.expected_servers import ExpectedServer, ExpectedServers
from windtunnel.links.topology import Topology


class _Server(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lab_id: str
    port: int = Field(ge=1, le=65535)
    token: str = Field(min_length=16, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")


class _ClientEnd(BaseModel):
    model_config = ConfigDict(extra="forbid")

    token: str
    bytes: int = Field(ge=0)


def stdio_routes(servers: ExpectedServers, topology: Topology) -> list[Route]:
    """The routes of a gateway that has these links."""
    api = _Api(servers, topology)
    path = "/lanes/{lane:int}/links/{link}/server"
    return [
        Route(path, api.expect, methods=["PUT"]),
        Route(f"{path}/end", api.client_ended, methods=["POST"]),
    ]


class _Api:
    def __init__(self, servers: ExpectedServers, topology: Topology) -> None:
        self._servers = servers
        self._topology = topology

    async def expect(self, request: Request) -> JSONResponse:
        """The next connection on the link belongs to the server at that port of this machine."""
        link = self._link(request)
        body = await read_body(request, _Server)
        if body.lab_id != self._topology.lab_id:
            raise ControlError(409, "other_lab", f"this is lab {self._topology.lab_id}, not {body.lab_id}")
        self._servers.expect(link, ExpectedServer(Address(LOOPBACK, body.port), body.token))
        return JSONResponse({"link": link})

    async def client_ended(self, request: Request) -> JSONResponse:
        """The client of that server sends no more than that many bytes."""
        self._link(request)
        body = await read_body(request, _ClientEnd)
        return JSONResponse({"known": self._servers.client_ended(body.token, body.bytes)})

    def _link(self, request: Request) -> str:
        lane, name = int(request.path_params["lane"]), str(request.path_params["link"])
        links = [link.name for link in self._topology.links if link.is_stdio]
        if lane != self._topology.lane or name not in links:
            known = ", ".join(links) or "none"
            raise ControlError(
                404,
                "no_stdio_link",
                f"lane {lane} has no link {name} to an MCP server over stdio; those are: {known}",
            )
        return name
