"""Make one HTTP call with one of three libraries, for the clients in this folder."""

import json
import os
import urllib.error
import urllib.request


class Failed(Exception):
    """No reply (``status`` 0), or a reply with a status from 400. ``text`` is the reply's body."""

    def __init__(self, status, text, headers=None):
        super().__init__(f"{status} {text}" if status else text)
        self.status, self.text, self.headers = status, text, headers or {}


def call(link, path, body=None, method="", headers=None, timeout=30, via="requests"):
    """Return the reply's text. Raises ``Failed``."""
    url = os.environ["OPENAI_BASE_URL" if link == "model" else f"{link.upper()}_URL"] + path
    method = method or ("GET" if body is None else "POST")
    status, text, reply_headers = _VIAS[via](method, url, body, headers or {}, timeout)
    if status >= 400:
        raise Failed(status, text, reply_headers)
    return text


def _requests(method, url, body, headers, timeout):
    import requests

    try:
        reply = requests.request(method, url, json=body, headers=headers, timeout=timeout)
    except requests.RequestException as error:
        raise Failed(0, type(error).__name__) from None
    return reply.status_code, reply.text, reply.headers


def _httpx(method, url, body, headers, timeout):
    import httpx

    try:
        reply = httpx.request(method, url, json=body, headers=headers, timeout=timeout, follow_redirects=True)
    except httpx.HTTPError as error:
        raise Failed(0, type(error).__name__) from None
    return reply.status_code, reply.text, reply.headers


def _urllib(method, url, body, headers, timeout):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return reply.status, reply.read().decode(), reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers
    except OSError as error:
        raise Failed(0, type(error).__name__) from None


_VIAS = {"requests": _requests, "httpx": _httpx, "urllib": _urllib}
