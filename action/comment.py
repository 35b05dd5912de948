"""Keep one comment of a pull request up to date: python3 comment.py SUMMARY.md

A hidden marker finds the comment again. Nothing is posted outside pull requests. A token that may not write
(as in pull requests from forks) costs a warning, not the build.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

MAX_LENGTH = 60_000
"""Of a comment, in characters; the host refuses more than 65,536."""
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_TIMEOUT_S = 30


class Host:
    """The host's API, with the token of the build."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.url = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        self.repository = environ["GITHUB_REPOSITORY"]
        self._token = environ.get("GITHUB_TOKEN", "")

    def is_own(self, comment: Mapping[str, Any]) -> bool:
        """Whether the token's user wrote the comment. A build's token names no user: any bot's counts."""
        user = comment.get("user") or {}
        return user.get("login") == self._login if self._login else user.get("type") == "Bot"

    @cached_property
    def _login(self) -> str:
        try:
            return str(self._call("GET", f"{self.url}/user")[0]["login"])
        except HTTPError:
            return ""

    def comments(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield the comments of the pull request, page by page."""
        url: str | None = f"{self.url}/repos/{self.repository}/issues/{number}/comments?per_page=100"
        while url:
            # the token goes to this host only
            if not url.startswith(f"{self.url}/"):
                return
            comments, link = self._call("GET", url)
            yield from comments
            following = _NEXT.search(link)
            url = following[1] if following else None

    def create(self, number: int, body: str) -> None:
        self._call("POST", f"{self.url}/repos/{self.repository}/issues/{number}/comments", body)

    def update(self, comment: int, body: str) -> None:
        self._call("PATCH", f"{self.url}/repos/{self.repository}/issues/comments/{comment}", body)

    def _call(self, method: str, url: str, body: str | None = None) -> tuple[Any, str]:
        data = None if body is None else json.dumps({"body": body}).encode()
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
            "User-Agent": "wirefault",
        }
        with urlopen(Request(url, data, headers, method=method), timeout=_TIMEOUT_S) as reply:
            return json.load(reply), reply.headers.get("Link", "")


def body_of(summary: str, name: str) -> str:
    """Return the comment with its marker; a long one is cut, and says so."""
    if len(summary) > MAX_LENGTH:
        summary = f"{summary[:MAX_LENGTH]}\n\n(cut; the whole summary is in the build)\n"
    return f"{marker(name)}\n{summary}"


def marker(name: str) -> str:
    """Return the hidden first line. ``name``: tells the comments of several uses apart."""
    return f"<!-- wirefault {re.sub(r'[^A-Za-z0-9_.]', '_', name)} -->"


def upsert(host: Host, number: int, body: str) -> str:
    """Update the comment with the same marker, or create one; return what was done. Raises ``HTTPError``."""
    first = body.partition("\n")[0]
    for comment in host.comments(number):
        if str(comment.get("body", "")).startswith(first) and host.is_own(comment):
            try:
                host.update(int(comment["id"]), body)
            except HTTPError as error:
                if error.code not in (403, 404):
                    raise
                continue  # another bot's, or deleted
            return "updated"
    host.create(number, body)
    return "created"


def main() -> None:
    event = Path(os.environ.get("GITHUB_EVENT_PATH", os.devnull)).read_text(encoding="utf-8")
    pull_request = json.loads(event or "{}").get("pull_request")
    if not pull_request:
        print("no comment: this build is not of a pull request")
        return
    summary = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    body = body_of(summary, os.environ.get("WIREFAULT_NAME", "wirefault"))
    try:
        print(f"comment {upsert(Host(os.environ), int(pull_request['number']), body)}")
    except HTTPError as error:
        print(
            f"::warning::no comment: the host answered {error.code} {error.reason}; does the token have write"
            " permission for pull requests?"
        )
    except URLError as error:
        print(f"::warning::no comment: {error.reason}")


if __name__ == "__main__":
    main()
