"""Remove secrets from texts, targets and command lines before they are recorded or shown. Pure.

Only records are changed: what is forwarded on the wire and what is hashed into a draw never passes here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit

SECRET = "[secret]"
# keys that the lab sets for clients that require one
PLACEHOLDER_KEYS = frozenset(("scripted", "scripted-model"))
MIN_SECRET = 8
"""Shorter values are not hidden: they are placeholders, and occur inside other words."""
_SECRET_WORDS = frozenset(
    (
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "apikey",
        "accesskey",
        "secretkey",
        "signature",
        "sig",
        "jwt",
        "authorization",
        "credential",
        "credentials",
        "sas",
    )
)
_KINDS_OF_KEY = frozenset(
    "api access secret private auth subscription signing encryption account master".split()  # noqa: SIM905
)
# words before `token` that make it harmless: it pages, repeats or counts
_HARMLESS = frozenset(
    (
        "page",
        "next",
        "continuation",
        "sync",
        "pagination",
        "cursor",
        "skip",
        "start",
        "previous",
        "prev",
        "max",
        "min",
        "stop",
        "eos",
        "bos",
        "pad",
        "idempotency",
        "request",
        "client",
        "reset",
        "dedup",
    )
)
# last words of names that only describe a secret, such as `TOKEN_FILE`
_DESCRIPTIONS = frozenset(
    (
        "file",
        "path",
        "dir",
        "url",
        "uri",
        "name",
        "ttl",
        "expiry",
        "expires",
        "endpoint",
        "host",
        "port",
        "length",
        "type",
        "lifetime",
        "seconds",
        "algorithm",
        "version",
        "limit",
        "count",
        "socket",
        "sock",
        "fd",
    )
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HINTS = re.compile(r"token|secret|passw|passp|pwd|key|sig|jwt|auth|credential|sas", re.I)
_SHAPES = re.compile(
    r"""(?P<prefix>\b[Bb](?:earer|asic)\ +)(?=[A-Za-z._~+/-]*\d)[A-Za-z0-9._~+/-]{12,}=*
    | \b(?:sk-|sk_live_|sk_test_|rk_live_|gsk_|xai-|hf_|npm_|glpat-|pypi-|github_pat_|gh[opsur]_|xox[abeprs]-)
      [A-Za-z0-9_-]{16,}
    | \bAIza[A-Za-z0-9_-]{30,}
    | \bA[KS]IA[A-Z0-9]{16}\b
    | (?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)""",
    re.VERBOSE | re.DOTALL,
)
# Only a text with one of these strings is matched against the pattern: a search for fixed strings is cheap.
_SHAPE_TRACES = (
    *("earer ", "asic ", "sk-", "sk_", "rk_", "gsk_", "xai-", "xox", "AIza", "AKIA", "ASIA", "eyJ"),
    *("_pat_", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "hf_", "npm_", "glpat-", "pypi-", "PRIVATE KEY"),
)
# A JSON member, from the word that hints at a secret. Inside a JSON string its quotes are escaped.
_MEMBER = re.compile(
    r"""(?:token|secret|passw|passp|pwd|key|sig|jwt|auth|credential|sas)[\w.-]{0,16}
    (?P<quote>\\{0,7}")\s*:\s*
    (?:(?P=quote)(?P<value>(?:(?!(?P=quote))(?:[^"\\]|\\.))+) | (?P<number>\d{4,}))""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_NUMERIC = frozenset(("password", "passwd", "passphrase", "pwd", "secret", "pin"))
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>\\`]+", re.I)
_ASSIGNED = re.compile(r"(?<![\w%.\]-])(-{0,2}[\w.%\[\]-]{2,80}=)([^\s&;\"'<>\\,)`]{4,})")
_OPTION = re.compile(r"(?<![\w-])(--?[\w.-]{2,60}) +('[^'\"\\]+'|[^\s\"'\\-][^\s\"'\\]{3,})")
_LOGIN = re.compile(r"(?<![\w-])((?:-u|--user|--proxy-user)[ =]'?[^\s:'\"\\]+:)([^\s'\"\\]{3,})")
_HEADER = re.compile(
    r"((?:(?:proxy-)?authorization|x-[\w-]{0,30}(?:key|token|secret|signature)|api-key|cookie)\s*:\s*)"
    r"((?:bearer |basic |token )?[^\s\"'\\,]{4,})",
    re.I,
)
# A path's segment after one of these, or after the name of a secret, is a key.
_KEY_SEGMENTS = frozenset(
    "hook hooks webhook webhooks services tokens secrets apikeys share invite magic".split()  # noqa: SIM905
)
_KEY_SEGMENT = re.compile(r"(?=.*\d).{8,}")
_OPAQUE = re.compile(r"(?=[a-zA-Z]*\d)(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z0-9]{20,}")
_BOT = re.compile(r"(bot)(\d{5,}:[\w-]{8,})")
# No hexadecimal digits, so that no reader takes a digest for an id that the client generated.
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return whether a parameter, field, option or header of that name has a secret as its value."""
    words = [word.lower() for word in _WORD.findall(name)]
    if words and words[-1] == "id":  # AWS's access key id
        words.pop()
    if not words or (words[-1] == "token" and _HARMLESS & set(words[:-1])):
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    return last in _SECRET_WORDS or (last == "key" and before in _KINDS_OF_KEY)


def is_signature_name(name: str) -> bool:
    """Return whether the parameter is a signature, which may differ each time the request is sent."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and words[-1] in ("sig", "signature")


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Return the values of secret-looking variables, and the passwords in URLs, the longest first."""
    values = {value for name, value in environ.items() if _is_secret_variable(name)}
    for value in environ.values():
        if "://" in value and "@" in value:
            values.add(_password_in(value))
    return sorted((value for value in values if len(value) >= MIN_SECRET), key=len, reverse=True)


def _is_secret_variable(name: str) -> bool:
    words = name.lower().split("_")
    if words[-1] in _DESCRIPTIONS:
        return False
    named = (_SECRET_WORDS - {"pwd"}) & set(words)  # PWD and OLDPWD are folders
    return bool(named) or words[-1] == "key" or ("key" in words and words[-1] == "id")


def _password_in(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


class Redaction:
    """Hide the secrets of an environment, and all texts that look like secrets.

    With a ``salt``, a keyed digest replaces each secret: different secrets remain different, and cannot be
    guessed without the salt. The salt is the lab's, so digests of one run can be compared.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, salt: bytes = b"") -> None:
        self._salt = salt
        self._values = [
            (spelling, value) for value in secret_values(environ or {}) for spelling in _spellings(value)
        ]

    def digest(self, secret: str) -> str:
        """Return the digest that replaces a credential in this lab's records."""
        data = secret.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._salt[:64], digest_size=8).hexdigest()

    def hide(self, secret: str) -> str:
        """Return the text that replaces the secret; unchanged if it is hidden already."""
        if not self._salt:
            return SECRET
        return (
            secret if secret.startswith("[secret") else f"[secret:{self.digest(secret).translate(_LETTERS)}]"
        )

    def text(self, text: str, secrets: Iterable[str] = (), *, in_json: bool = False) -> str:
        """Return the text without secrets, including ``secrets``.

        ``in_json``: the text is one line of JSON whose own members are not secrets. The result is JSON, too.
        """
        for spelling, value in self._values:
            if spelling in text:
                text = text.replace(spelling, self.hide(value))
        for secret in secrets:
            if len(secret) >= MIN_SECRET and secret not in PLACEHOLDER_KEYS:
                for spelling in _spellings(secret):
                    text = text.replace(spelling, self.hide(secret))
        if "://" in text:
            text = _URL.sub(lambda url: self._url(url[0]), text)
        if any(map(text.__contains__, _SHAPE_TRACES)):
            text = _SHAPES.sub(lambda match: (match["prefix"] or "") + self.hide(match[0]), text)
        if _HINTS.search(text):
            text = self._members(text, nested_only=in_json)
            text = _OPTION.sub(self._named, text)
            text = _HEADER.sub(lambda match: match[1] + self.hide(match[2]), text)
        if "=" in text and (_HINTS.search(text) or "%" in text):
            text = _ASSIGNED.sub(self._named, text)
        return _LOGIN.sub(lambda m: m[1] + self.hide(m[2]), text) if "-u" in text else text

    def body(self, text: str, secrets: Iterable[str] = ()) -> str:
        """Return the body of a request or reply, which may be a form, without secrets."""
        start = text[:256]
        if "=" in start and not text.startswith(("{", "[", "<")) and not any(map(str.isspace, start)):
            text = self._query(text)
        return self.text(text, secrets)

    def target(self, target: str) -> str:
        """Return a request's target without secrets in path and query."""
        path, mark, query = target.partition("?")
        return self._path(path) + mark + (self._query(query) if query else "")

    def secrets_in(self, target: str) -> list[str]:
        """Return the secrets in a target, both as written and decoded: replies may repeat either."""
        clean = self.target(target)
        if clean == target:
            return []
        parts = zip(re.split("[/?&]", target), re.split("[/?&]", clean), strict=True)
        changed = [(part, hidden) for part, hidden in parts if part != hidden]
        values = [part.removeprefix(hidden.partition("[secret")[0]) for part, hidden in changed]
        return [*values, *map(unquote_plus, values)]

    def words(self, words: Iterable[str]) -> list[str]:
        """Return a command line without secrets."""
        clean: list[str] = []
        option = ""
        for word in words:
            is_value = option.startswith("-") and "=" not in option and not word.startswith("-")
            hidden = is_value and is_secret_name(option) and len(word) > 3
            login = is_value and option in ("-u", "--user", "--proxy-user") and ":" in word
            name, colon, _ = word.partition(":")
            clean.append(self.hide(word) if hidden else name + colon + SECRET if login else self.text(word))
            option = word
        return clean

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets; a list of texts is a command line."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            if value and all(isinstance(member, str) for member in value):
                return self.words(value)
            return [self.value(member) for member in value]
        if isinstance(value, Mapping):
            return {
                name: self.hide(member)
                if isinstance(member, str) and is_secret_name(name)
                else self.value(member)
                for name, member in value.items()
            }
        return value

    def _named(self, match: re.Match[str]) -> str:
        """Hide the matched value if its name is the name of a secret."""
        between = "" if match[1].endswith("=") else " "
        name = unquote_plus(match[1].rstrip("=").lstrip("-"))
        if match[2].startswith("[secret") or not is_secret_name(name):
            return match[0]
        return match[1] + between + self.hide(match[2].strip("'"))

    def _members(self, text: str, *, nested_only: bool) -> str:
        def hidden(match: re.Match[str]) -> str:
            begin = text.rfind('"', max(0, match.start() - 60), match.start()) + 1
            name = text[begin : match.start("quote")]
            if (nested_only and match["quote"] == '"') or not is_secret_name(name):
                return match[0]
            value = match["value"] if match["value"] is not None else match["number"]
            start, end = match.start(), match.start("value" if match["value"] is not None else "number")
            if match["number"] is not None:
                if name.lower().rpartition("_")[2] not in _NUMERIC:
                    return match[0]
                return text[start:end] + f"{match['quote']}{self.hide(value)}{match['quote']}"
            return text[start:end] + self.hide(value)

        return _MEMBER.sub(hidden, text)

    def _query(self, query: str) -> str:
        parts = query.split("&")
        for place, part in enumerate(parts):
            name, equals, value = part.partition("=")
            if value and _is_secret_parameter(name):
                parts[place] = f"{name}{equals}{self.hide(unquote_plus(value))}"
        return "&".join(parts)

    def _path(self, path: str) -> str:
        if len(path) < MIN_SECRET or not any(map(str.isdigit, path)):
            return path
        segments, before = path.split("/"), ""
        earlier: set[str] = set()
        for place, segment in enumerate(segments):
            plain = unquote(segment) if "%" in segment else segment
            if segment:
                segments[place] = self._segment(segment, plain, before, earlier)
                before = plain
                earlier.add(plain.lower())
        return "/".join(segments)

    def _segment(self, segment: str, plain: str, before: str, earlier: set[str]) -> str:
        if plain.startswith("[secret"):
            return segment
        name, equals, value = plain.rpartition("=")
        if equals and value and is_secret_name(name.rpartition(";")[2]):
            return f"{segment.rpartition('=')[0] or name}={self.hide(value)}"
        bot = _BOT.fullmatch(plain)
        if bot:
            return bot[1] + self.hide(bot[2])
        after_key = is_secret_name(before) or bool(_KEY_SEGMENTS & earlier)
        if (after_key and _KEY_SEGMENT.fullmatch(plain)) or _OPAQUE.search(plain) or _SHAPES.fullmatch(plain):
            return self.hide(plain)
        return segment

    def _url(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        host, slash, target = rest.partition("/")
        host, mark, query = host.partition("?")
        login, at, host = host.rpartition("@")
        user, colon, password = login.partition(":")
        if colon and password:
            login = f"{user}:{self.hide(unquote(password))}"
        if mark:
            return f"{scheme}://{login}{at}{host}?{self._query(query + slash + target)}"
        return f"{scheme}://{login}{at}{host}{self.target(slash + target) if slash else ''}"


def credential_in_query(target: str) -> str:
    """Return the first credential in a target's query, decoded; signatures do not count. Empty for none."""
    for part in target.partition("?")[2].split("&"):
        name, _, value = part.partition("=")
        if value and _is_secret_parameter(name) and not is_signature_name(unquote_plus(name)):
            return unquote_plus(value)
    return ""


@lru_cache(1024)
def _is_secret_parameter(name: str) -> bool:
    """Return whether a parameter of a query has a secret as its value; ``name`` is encoded."""
    plain = unquote_plus(name)
    return plain.lower() == "key" or is_secret_name(plain)


def _spellings(value: str) -> Sequence[str]:
    """Return the value's spellings: plain, in JSON, and in a URL."""
    data = value.encode("utf-8", "surrogatepass")
    both = repr(value + "'")[1:-1].removesuffix("'").removesuffix("\\")  # as Python prints it
    printed = (value, repr(value)[1:-1], both)
    in_json = [json.dumps(text, ensure_ascii=only)[1:-1] for text in printed for only in (True, False)]
    spellings = (*printed, *in_json)
    return list(dict.fromkeys((*spellings, quote(data, safe=""), quote(data), quote_plus(data))))
