"""Calls a URL with one of several Python clients, or with curl: ``client.py NAME URL LIMIT CONNECT_LIMIT``.

One call for each line of standard input; prints a line for each.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

# how often the client tried the last call, if it counts that
_tries: list[int] = []


def main() -> None:
    name, url, limit, connect = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    call = {"requests": _requests, "httpx": _httpx, "openai": _openai, "curl": _curl}[name](
        url, limit, connect
    )
    for _ in sys.stdin:
        try:
            words = call()
        except Exception as error:  # noqa: BLE001 - whatever a client raises is what it saw
            words = _exception(error)
        print(words, *_tries, sep="\t", flush=True)


def _exception(error: Exception) -> str:
    """The exception, and the one that caused it if it says more."""
    root: BaseException = error
    while inner := root.__cause__ or (None if root.__suppress_context__ else root.__context__):
        root = inner
    causes = [error.__cause__] if error.__cause__ else []
    detail = next((type(cause).__name__ for cause in causes), "") or type(root).__name__
    own = type(error).__name__
    return f"exception {own}" if detail == own else f"exception {own} ({detail})"


def _requests(url: str, limit: float, connect: float) -> Callable[[], str]:
    import requests

    session = requests.Session()
    session.trust_env = False
    return lambda: _judged(session.get(url, timeout=(connect, limit)).content)


def _httpx(url: str, limit: float, connect: float) -> Callable[[], str]:
    import httpx

    client = httpx.Client(timeout=httpx.Timeout(limit, connect=connect), trust_env=False)
    return lambda: _judged(client.get(url).content)


def _openai(url: str, limit: float, connect: float) -> Callable[[], str]:
    import httpx
    import openai

    def count(request: httpx.Request) -> None:
        _tries[:] = [sum(_tries) + 1]

    limits = httpx.Timeout(limit, connect=connect)
    http_client = httpx.Client(trust_env=False, event_hooks={"request": [count]})
    client = openai.OpenAI(base_url=url, api_key="k", timeout=limits, http_client=http_client)

    def call() -> str:
        _tries.clear()
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        return _judged((reply.choices[0].message.content or "").encode())

    return call


def _curl(url: str, limit: float, connect: float) -> Callable[[], str]:
    words = ["curl", "-q", "-sS", "--noproxy", "*", "-m", str(limit), "--connect-timeout", str(connect), url]

    def call() -> str:
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode == 0:
            return _judged(done.stdout)
        return f"exit code {done.returncode} ({_reason(done.stderr.decode())})"

    return call


def _reason(message: str) -> str:
    """The message without its figures, which differ from run to run."""
    text = message.strip().partition(") ")[2]
    words = [word for word in text.split() if not word.rstrip(".:,").isdecimal()]
    return " ".join(words).partition(" after ")[0].partition(" with ")[0].partition(" port")[0]


def _judged(body: bytes) -> str:
    return "good answer" if len(body) >= 2000 else "silent: a cut answer taken as good"


main()
