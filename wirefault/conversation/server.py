"""The HTTP API of ``wirefault lab serve``, and its page."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast
from uuid import uuid4

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from wirefault._version import __version__
from wirefault.conversation.chat import Chat, ChatRequest, ScenarioRequest, scenario_faults
from wirefault.conversation.page import ChatPage
from wirefault.conversation.worker import RUN_ERRORS, Worker
from wirefault.core.api_server import ApiError, api_app, render_unreadable
from wirefault.core.control_access import has_token
from wirefault.core.errors import InputError
from wirefault.core.sockets import names_loopback

_Body = TypeVar("_Body", bound=BaseModel)
_OPEN_PATHS = ("/health",)


class Api:
    """The operations. ``token``: each request shows it, except to open paths."""

    def __init__(
        self, chat: Chat, worker: Worker, token: str, redis: Callable[[], bool] | None = None
    ) -> None:
        self._chat, self._worker, self._token, self._redis = chat, worker, token, redis

    def app(self) -> Starlette:
        """Return the app."""
        operations: list[tuple[str, str, Any, str]] = [
            ("POST", "/api/v1/chat", self.post_chat, "Send a message, with a forced failure mode or none."),
            ("POST", "/api/v1/chat/reset/{session_id}", self.reset, "Forget the session's conversation."),
            ("POST", "/api/v1/test-failure/{mode}", self.test_failure, "Try a mode in a new session."),
            (
                "GET",
                "/api/v1/analytics/failures",
                self.analytics,
                "Counts of the last `hours`, 24 by default.",
            ),
            ("GET", "/api/v1/sessions/{session_id}/history", self.history, "A session's turns and state."),
            ("GET", "/api/v1/system/status", self.status, "Components, modes in force, version."),
            ("GET", "/api/v1/failure-scenarios", self.list_scenarios, "The failure scenarios."),
            ("POST", "/api/v1/failure-scenarios", self.add_scenario, "Add or replace a scenario."),
            ("GET", "/health", self.health, "Whether the server answers."),
        ]
        self._openapi = openapi([(method, path, text) for method, path, _, text in operations])
        routes = [Route(path, self._guarded(run), methods=[method]) for method, path, run, _ in operations]
        pages = {"/openapi.json": self.schema, "/docs": self.docs}
        routes += [Route(path, _for_this_host(run)) for path, run in pages.items()]
        page = ChatPage(self._chat, self._token, self._say, self._forget)
        app = api_app([*routes, *page.routes()])
        for kind in RUN_ERRORS:
            app.add_exception_handler(kind, render_unreadable)
        return app

    def _guarded(self, operation: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def guarded(request: Request) -> Response:
            if request.url.path in _OPEN_PATHS:
                _require_this_host(request)
            elif not has_token(request.headers.get("authorization", ""), self._token):
                raise ApiError(401, "unauthorized", "show the server's token: Authorization: Bearer TOKEN")
            return JSONResponse(await operation(request))

        return guarded

    async def post_chat(self, request: Request) -> dict[str, Any]:
        return await self._say(await _body(request, ChatRequest))

    async def _say(self, message: ChatRequest) -> dict[str, Any]:
        await asyncio.to_thread(self._chat.check, message)
        answer = self._worker.do(lambda run, memories: self._chat.answer(run, memories, message))
        return dict(await asyncio.wrap_future(answer))

    async def reset(self, request: Request) -> dict[str, Any]:
        session = request.path_params["session_id"]
        await self._forget(session)
        return {"message": f"session {session} begins anew"}

    async def _forget(self, session: str) -> None:
        await asyncio.wrap_future(
            self._worker.do(lambda run, memories: self._chat.reset(run, memories, session))
        )

    async def test_failure(self, request: Request) -> dict[str, Any]:
        mode, session = request.path_params["mode"], f"test-{uuid4().hex[:12]}"
        text = request.query_params.get("test_message", "What is the temperature in Paris right now?")
        reply = await self._say(
            _valid(ChatRequest, {"session_id": session, "message": text, "failure_mode": mode})
        )
        return {"test_session_id": session, "failure_mode": mode, "test_message": text, "response": reply}

    async def analytics(self, request: Request) -> dict[str, Any]:
        hours = 24.0
        with suppress(ValueError):
            hours = float(request.query_params.get("hours", hours))
        if not 0 < hours <= 24 * 366:
            raise ApiError(422, "invalid", "hours: above 0, at most 8784")
        return await asyncio.to_thread(self._chat.store.analytics, hours)

    async def history(self, request: Request) -> dict[str, Any]:
        return await asyncio.to_thread(self._history, request.path_params["session_id"])

    def _history(self, session_id: str) -> dict[str, Any]:
        turns, session = self._chat.store.history(session_id), self._chat.store.session(session_id)
        if not turns and session is None:
            raise ApiError(404, "not_found", f"no session {session_id}")
        rows = [
            {
                "id": turn["id"],
                "timestamp": turn["timestamp"],
                "request": turn["request_data"],
                "response": turn["response_data"],
                **{
                    name: turn[name]
                    for name in (
                        *("status", "natural_status", "natural_response", "failure_mode"),
                        *("failure_injection_applied", "processing_time_ms", "token_count"),
                    )
                },
                "recoveries": self._chat.store.recoveries_of(turn["id"]),
            }
            for turn in turns
        ]
        state: dict[str, Any] | None = None
        if session is not None:
            state = {
                "conversation_history": session.conversation_history,
                "context": session.context,
                "failure_count": session.failure_count,
                "recovery_count": session.recovery_count,
                "checkpoints": self._chat.store.checkpoints(session_id),
            }
        return {"session_id": session_id, "interactions": rows, "current_state": state}

    async def status(self, request: Request) -> dict[str, Any]:
        return await asyncio.to_thread(self._status)

    def _status(self) -> dict[str, Any]:
        components = {
            "redis": "not used" if self._redis is None else _health(self._redis),
            "database": f"{_health(self._chat.store.answers)} ({self._chat.store.kind})",
            "agent_service": "healthy" if self._worker.is_alive else "down",
        }
        unwell = any(text.startswith("down") for text in components.values())
        forced = [self._chat.forced] if self._chat.forced not in ("", "none") else []
        return {
            "status": "degraded" if unwell else "healthy",
            "components": components,
            "active_failure_modes": forced or sorted(self._chat.odds_now().stated or ()),
            "version": __version__,
        }

    async def list_scenarios(self, request: Request) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._chat.store.scenarios)

    async def add_scenario(self, request: Request) -> dict[str, Any]:
        scenario = (await _body(request, ScenarioRequest)).model_dump()
        try:
            scenario_faults(scenario)
        except InputError as error:
            raise ApiError(422, "invalid", str(error)) from None
        return await asyncio.to_thread(self._chat.store.put_scenario, scenario)

    async def health(self, request: Request) -> dict[str, Any]:
        return {"status": "ok", "version": __version__}

    async def schema(self, request: Request) -> Response:
        return JSONResponse(self._openapi)

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(docs_page(self._openapi))


def _require_this_host(request: Request) -> None:
    """Raise ``ApiError`` for a ``Host`` that a page of another site may have bound to this address."""
    host = request.headers.get("host", "")
    if not names_loopback(host):
        raise ApiError(403, "foreign_host", f"not meant for this lab: Host {host!r:.80}")


def _for_this_host(operation: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def checked(request: Request) -> Response:
        _require_this_host(request)
        return cast(Response, await operation(request))

    return checked


def _health(check: Callable[[], bool]) -> str:
    try:
        return "healthy" if check() else "down"
    except Exception as error:  # noqa: BLE001 - any client's error means that it does not answer
        return f"down: {type(error).__name__}"


async def _body(request: Request, model: type[_Body]) -> _Body:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise ApiError(415, "unsupported_media_type", "send JSON: Content-Type: application/json")
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise ApiError(422, "invalid", _problems(error)) from None


def _valid(model: type[_Body], values: Mapping[str, Any]) -> _Body:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ApiError(422, "invalid", _problems(error)) from None


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}" for problem in error.errors()
    )


def openapi(operations: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    bodies: dict[str, type[BaseModel]] = {
        "/api/v1/chat": ChatRequest,
        "/api/v1/failure-scenarios": ScenarioRequest,
    }
    for method, path, text in operations:
        operation: dict[str, Any] = {"summary": text, "responses": {"200": {"description": "JSON"}}}
        if method == "POST" and path in bodies:
            schema = bodies[path].model_json_schema(ref_template="#/components/schemas/{model}")
            schema.pop("$defs", None)
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
        paths.setdefault(path, {})[method.lower()] = operation
    components = {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "schemas": ScenarioRequest.model_json_schema().get("$defs", {}),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Wirefault's conversation lab", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": components,
    }


def docs_page(document: Mapping[str, Any]) -> str:
    """Return the operations as a page without scripts."""
    rows = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            fields = "".join(
                f"<li><code>{html.escape(name)}</code> {html.escape(str(each.get('description', '')))}</li>"
                for name, each in body.get("schema", {}).get("properties", {}).items()
            )
            rows.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
                f"<p>{html.escape(operation['summary'])}</p>{f'<ul>{fields}</ul>' if fields else ''}"
            )
    title = html.escape(document["info"]["title"])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<body><h1>{title}</h1><p><a href=/openapi.json>openapi.json</a></p>{''.join(rows)}</body></html>"
    )
