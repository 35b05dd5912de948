"""The page of ``wirefault lab serve``: a chat without scripts, in plain forms.

It shows both sides of each reply, the time line of the last turn and running counts. Messages, replies and
session ids may be hostile: every text is escaped, and the policy allows nothing but the page's own style.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from wirefault.conversation.chat import Chat, ChatRequest
from wirefault.conversation.modes import modes
from wirefault.core.api_server import ApiError
from wirefault.core.sockets import names_loopback
from wirefault.history.logs import strip_control
from wirefault.report.colors import css_variables
from wirefault.report.page.svg import different_parts

DEFAULT_SESSION = "page"
MITIGATIONS: Mapping[str, str] = {
    "": "as the server is set",
    "none": "none",
    "retry(model=3)": "retry the model",
    "fallback(model=scripted-diligent)": "fall back to another model",
    "retry, keys, verify": "retry the tools, with keys and verified writes",
    "retry(model=2, base=0.05), fallback(model=scripted-diligent), keys, verify": "all of these",
}
"""RECOVERY texts that the page offers, with their names."""
_MAX_TURNS = 20
_MAX_FIELDS = 20
_COOKIE = "wirefault_lab"
_FORM = "application/x-www-form-urlencoded"
_HOURS = 24.0


@dataclass(frozen=True)
class PageTurn:
    """One turn, as the page shows it."""

    number: int
    message: str
    mode: str
    is_applied: bool
    status: str
    natural_status: str
    natural: tuple[str, str, str] | None
    """Equal beginning, different middle, equal end; None if no faulted request reached the model."""
    observed: tuple[str, str, str]
    error: str
    ms: float
    recovery: str
    run: str
    episode: str
    time_line: Sequence[Mapping[str, Any]]
    recoveries: Sequence[Mapping[str, Any]]

    @property
    def is_changed(self) -> bool:
        return self.natural is None or "".join(self.natural) != "".join(self.observed)

    @property
    def recovered_by(self) -> list[str]:
        """The strategies that helped, if the turn was recovered."""
        if self.status != "success":
            return []
        return list(dict.fromkeys(each["recovery_strategy"] for each in self.recoveries if each["success"]))


def page_turn(number: int, row: Mapping[str, Any], recoveries: Sequence[Mapping[str, Any]]) -> PageTurn:
    """Return a stored interaction as a turn of the page."""
    reply = row["response_data"] or {}
    metadata = reply.get("metadata", {})
    response, natural = reply.get("response", ""), row["natural_response"]
    natural_parts, observed = (None, ("", "", response))
    if natural is not None:
        natural_parts, observed = different_parts(natural, response)
    return PageTurn(
        number=number,
        message=row["request_data"]["message"],
        mode=row["failure_mode"],
        is_applied=row["failure_injection_applied"],
        status=row["status"],
        natural_status=row["natural_status"],
        natural=natural_parts,
        observed=observed,
        error=metadata.get("error", ""),
        ms=row["processing_time_ms"],
        recovery=row["request_data"].get("recovery", ""),
        run=row["run_id"],
        episode=row["episode"],
        time_line=metadata.get("time_line", []),
        recoveries=recoveries,
    )


class ChatPage:
    """The page's routes. ``say`` answers a message; ``reset`` forgets a session's conversation."""

    def __init__(
        self,
        chat: Chat,
        token: str,
        say: Callable[[ChatRequest], Awaitable[Mapping[str, Any]]],
        reset: Callable[[str], Awaitable[None]],
    ) -> None:
        self._chat, self._token, self._say, self._reset = chat, token, say, reset
        # other servers on this machine receive the cookie, too: it does not open the API
        self._cookie = hmac.new(token.encode(), b"page", hashlib.sha256).hexdigest()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._guarded(self._show), methods=["GET"]),
            Route("/", self._guarded(self._post_message), methods=["POST"]),
            Route("/reset", self._guarded(self._post_reset), methods=["POST"]),
        ]

    def _guarded(self, operation: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        """Refuse requests by another host's name, from another site's page, or without the cookie."""

        async def guarded(request: Request) -> Response:
            host = request.headers.get("host", "")
            if not names_loopback(host):
                return PlainTextResponse("this server has no such name", 421, _headers())
            if "origin" in request.headers and not _is_origin(request.headers["origin"], host):
                return PlainTextResponse("a page of another site may not use this lab", 403, _headers())
            presented = request.query_params.get("token")
            if request.method == "GET" and presented is not None:
                return self._enter(presented)
            cookie = request.cookies.get(_COOKIE, "")
            if not hmac.compare_digest(cookie.encode(), self._cookie.encode()):
                return _html("enter.html", {"wrong": False}, 401)
            try:
                return await operation(request)
            except ApiError as error:
                return PlainTextResponse(str(error), error.status, _headers())

        return guarded

    def _enter(self, presented: str) -> Response:
        """Set the cookie if the token is right."""
        if not self._token or not hmac.compare_digest(presented.strip().encode(), self._token.encode()):
            return _html("enter.html", {"wrong": True}, 401)
        response = RedirectResponse("/", 303, _headers())
        response.set_cookie(_COOKIE, self._cookie, httponly=True, samesite="strict", path="/")
        return response

    async def _show(self, request: Request) -> Response:
        session = request.query_params.get("session", "").strip() or DEFAULT_SESSION
        return await asyncio.to_thread(self._page, session)

    async def _post_message(self, request: Request) -> Response:
        fields = await _fields(request)
        session = fields.get("session", "").strip()
        recovery = fields.get("recovery_text", "").strip() or fields.get("recovery", "")
        values = {"session_id": session, "message": fields.get("message", "").replace("\r\n", "\n")}
        values |= {"failure_mode": mode} if (mode := fields.get("mode", "")) else {}
        values |= {"recovery": recovery} if recovery else {}
        try:
            await self._say(ChatRequest.model_validate(values))
        except ValidationError as error:
            problem = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
            return await asyncio.to_thread(self._page, session, fields, problem, 422)
        except ApiError as error:
            return await asyncio.to_thread(self._page, session, fields, str(error), error.status)
        return RedirectResponse(f"/?{urlencode({'session': session})}#latest", 303, _headers())

    async def _post_reset(self, request: Request) -> Response:
        session = (await _fields(request)).get("session", "").strip()
        await self._reset(session)
        return RedirectResponse(f"/?{urlencode({'session': session})}", 303, _headers())

    def _page(
        self, session: str, fields: Mapping[str, str] | None = None, problem: str = "", status: int = 200
    ) -> Response:
        """The page of a session; ``fields`` of a refused form are shown again with the ``problem``."""
        store = self._chat.store
        rows, state = store.history(session), store.session(session)
        first = max(0, len(rows) - _MAX_TURNS)
        turns = [
            page_turn(number, row, store.recoveries_of(row["id"]))
            for number, row in enumerate(rows[first:], first + 1)
        ]
        chosen = dict(fields or (_choices(rows[-1]["request_data"]) if rows else {}))
        context = {
            "session": session,
            "state": state,
            "turns": turns,
            "earlier": first,
            "last": turns[-1] if turns else None,
            "modes": [*modes(), *(each["name"] for each in store.scenarios() if each["name"] not in modes())],
            "server_mode": self._chat.forced,
            "is_drawn": self._chat.probabilistic,
            "mitigations": MITIGATIONS,
            "chosen": {"mode": "", "recovery": "", "recovery_text": "", "message": "", **chosen},
            "analytics": store.analytics(_HOURS),
            "problem": problem,
        }
        return _html("chat.html", context, status)


def _choices(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the form's choices that the session's last message had."""
    recovery = str(request.get("recovery", ""))
    field = "recovery" if recovery in MITIGATIONS else "recovery_text"
    return {"mode": str(request.get("failure_mode", "")), field: recovery}


async def _fields(request: Request) -> dict[str, str]:
    """Return the form's fields. Raises ``ApiError``."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise ApiError(415, "unsupported_media_type", f"send a form: Content-Type: {_FORM}")
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise ApiError(422, "invalid", str(error)) from None


def _is_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False


def _html(template: str, context: Mapping[str, Any], status: int) -> Response:
    html = _environment().get_template(template).render(**context, style=Markup(_style()))
    return HTMLResponse(html.encode("utf-8", "replace"), status, _headers())


@cache
def _headers() -> Mapping[str, str]:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        # with no-referrer, browsers hide a form's origin
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }


@cache
def _style() -> str:
    page = (files("wirefault.report.page") / "page.css").read_text(encoding="utf-8")
    return css_variables() + page + _file("chat.css")


@cache
def _file(name: str) -> str:
    return (files("wirefault.conversation") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
    )


def _visible(value: Any) -> Any:
    return value if isinstance(value, Markup) else strip_control(str(value))
