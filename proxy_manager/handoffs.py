"""``/handoffs``: list, approve and deny the calls that the lab's agent handed over to a person; with a page.

All of it needs the lab's token, except the page's frame, which has no data and asks for the token.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from wirefault.core.api_server import ApiError
from wirefault.state.handoffs import DECISIONS, Handoff, HandoffQueue

PAGE = "/handoffs/page"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"


def handoff_routes(queue: HandoffQueue) -> list[Route]:
    """Return the routes of one lab's queue."""

    async def show_list(request: Request) -> JSONResponse:
        now = time.time()
        cases = await run_in_threadpool(queue.latest)
        return JSONResponse({"handoffs": [_shown_case(case, now) for case in cases]})

    async def decide(request: Request) -> JSONResponse:
        id, decision = int(request.path_params["id"]), request.path_params["decision"]
        if decision not in DECISIONS:
            raise ApiError(404, "not_found", f"unknown decision {decision!r}; valid: {', '.join(DECISIONS)}")
        now = time.time()
        changed = await run_in_threadpool(queue.decide, id, decision, "a person", now)
        case = await run_in_threadpool(queue.get, id)
        if case is None:
            raise ApiError(404, "not_found", f"unknown handoff {id}")
        if not changed:
            state = _shown_case(case, now)["state"]
            raise ApiError(409, "too_late", f"handoff {id} is {state}; nothing was changed")
        return JSONResponse(_shown_case(case, now))

    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})

    return [
        Route("/handoffs", show_list, methods=["GET"]),
        Route(PAGE, page, methods=["GET"]),
        Route("/handoffs/{id:int}/{decision}", decide, methods=["POST"]),
    ]


def _shown_case(case: Handoff, now: float) -> dict[str, Any]:
    done = {"approve": "approved", "deny": "denied"}
    state = done[case.decision] if case.decision else "waiting" if now <= case.until else "over"
    return {**asdict(case), "state": state, "seconds_left": round(max(case.until - now, 0), 1)}


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Handoffs</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #ccc; padding: .4rem; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere }
button { font: inherit; padding: .3rem .8rem }
</style></head><body>
<h1>Calls that wait for you</h1>
<p>The agent cannot tell whether these calls were carried out, or they failed to the end. Approved: the agent
makes the call again. Denied: it does not.</p>
<form id="enter"><label>The lab's token <input id="token" type="password" autocomplete="off"></label>
<button>Show</button></form>
<p id="status" role="status"></p>
<table hidden><thead><tr><th>call</th><th>why</th><th>where</th><th>state</th><th></th></tr></thead>
<tbody></tbody></table>
<script>
"use strict";
let token = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname);
const status = document.getElementById("status"), table = document.querySelector("table");
async function ask(path, method) {
  const headers = {Authorization: "Bearer " + token, "Content-Type": "application/json"};
  const reply = await fetch(path, {method, headers});
  const body = await reply.json();
  if (!reply.ok) throw new Error(body.error.message);
  return body;
}
function cell(row, text) { const td = row.insertCell(); td.textContent = text; return td; }
function button(td, text, path) {
  const element = document.createElement("button");
  element.textContent = text;
  element.onclick = () => ask(path, "POST").then(show, fail);
  td.append(element, " ");
}
function fail(error) { status.textContent = error.message; }
async function show() {
  if (!token) return;
  try {
    const {handoffs} = await ask("/handoffs", "GET");
    const rows = document.createElement("tbody");
    for (const each of handoffs) {
      const row = rows.insertRow();
      cell(row, each.tool + " " + JSON.stringify(each.arguments));
      cell(row, each.reason.replace("_", " ") + ": " + each.error);
      cell(row, each.run + " " + each.episode + ", attempt " + each.attempt);
      cell(row, each.state === "waiting" ? "waiting, " + each.seconds_left + " s left" : each.state);
      const actions = row.insertCell();
      if (each.state === "waiting") {
        button(actions, "Approve", "/handoffs/" + each.id + "/approve");
        button(actions, "Deny", "/handoffs/" + each.id + "/deny");
      }
    }
    table.tBodies[0].replaceWith(rows);
    table.hidden = !handoffs.length;
    document.getElementById("enter").hidden = true;
    const waiting = handoffs.filter(each => each.state === "waiting").length;
    status.textContent = waiting ? waiting + " waiting" : "nothing waits";
  } catch (error) { fail(error); }
}
document.getElementById("enter").onsubmit = event => {
  event.preventDefault();
  token = document.getElementById("token").value;
  show();
};
show();
setInterval(show, 1000);
</script></body></html>
"""
