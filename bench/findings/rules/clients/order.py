"""Make a few calls in sequence, and react to failures in one of the usual ways.

order.py PROMPT [OPTIONS] STEP..., with the step ``POST /orders tea`` written as POST:/orders:tea.
"""

import json
import sys
import time
import uuid
from argparse import ArgumentParser

from calling import Failed, call

parser = ArgumentParser()
parser.add_argument("prompt")
parser.add_argument("steps", nargs="+")
parser.add_argument("--link", default="shop")
parser.add_argument("--via", default="requests")
parser.add_argument("--tries", type=int, default=1, help="tries of each step")
parser.add_argument("--whole", type=int, default=1, help="tries of all steps together")
parser.add_argument("--key", choices=["same", "new", "field", "new-field"])
parser.add_argument("--count-tries", action="store_true", help="send the number of the try in the body")
parser.add_argument("--look", action="store_true", help="check the shop's orders before trying again")
parser.add_argument("--only-on", type=int, nargs="*", default=[], help="try again only after these statuses")
parser.add_argument("--wait", type=float, default=0.05)
parser.add_argument("--heed", action="store_true", help="wait as long as Retry-After says")
parser.add_argument("--timeout", type=float, default=30)
parser.add_argument("--bearer", nargs="*", default=[], help="API keys, one for each try")
parser.add_argument("--optional", default="", help="method of steps that may fail")
parser.add_argument("--fallback", default="", help="step to make if all tries of a step failed")
parser.add_argument("--fallback-link", default="", help="link of the fallback, if different")
parser.add_argument("--says", default="The order has been placed.")
parser.add_argument("--fails", default="", help="answer after a failure; without it, crash")
parser.add_argument("--code", type=int, default=0, help="exit code after a failure with an answer")
options = parser.parse_args([word.replace("~", " ") for word in sys.argv[1:]])
own_key, tries_made = str(uuid.uuid4()), 0


def send(step, link=options.link):
    global tries_made
    method, path, item = (*step.split(":"), "")[:3]
    body, headers = ({"item": item, "count": 1} if item else None), {}
    body = {"query": "{ price }"} if path == "/graphql" else body
    body = {"grant_type": "client_credentials"} if path == "/oauth/token" else body
    key = {"same": own_key, "field": own_key}.get(options.key) or str(uuid.uuid4())
    if options.key in ("same", "new") and body:
        headers["Idempotency-Key"] = key
    if options.key in ("field", "new-field") and body:
        body["order_id"] = key
    if options.count_tries and body:
        body["note"] = f"try {'abcdefgh'[tries_made]}"
    if options.bearer:
        headers["Authorization"] = f"Bearer {options.bearer[min(tries_made, len(options.bearer) - 1)]}"
    tries_made += 1
    return call(link, path, body, method, headers, options.timeout, options.via)


def carry_out(step):
    for left in reversed(range(options.tries)):
        try:
            return send(step)
        except Failed as error:
            if not left or (options.only_on and error.status not in options.only_on):
                if options.fallback:
                    return send(options.fallback, options.fallback_link or options.link)
                if step.startswith(options.optional or "-"):
                    return ""
                raise
            if options.look and "tea" in call(options.link, "/orders?item=tea", via=options.via) + "tea":
                return ""
            seconds = float(error.headers.get("Retry-After") or 0) if options.heed else 0
            time.sleep(max(seconds, options.wait))


def answer(text):
    if text.startswith("report:"):
        text = json.dumps({"status": text.removeprefix("report:"), "answer": "the order", "values": []})
    print("" if text == "nothing" else text)


for left in reversed(range(options.whole)):
    try:
        texts = [carry_out(step) for step in options.steps]
        break
    except Failed as error:
        if left:
            time.sleep(options.wait)
            continue
        if not options.fails:
            raise
        answer(options.fails.replace("{error}", error.text).replace("{status}", str(error.status)))
        sys.exit(options.code)
answer(options.says.replace("{reply}", texts[-1]))
