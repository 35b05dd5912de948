"""Secrets are redacted from records; everything else is unchanged."""

from __future__ import annotations

import json

import pytest

from wirefault.core.redaction import Redaction, credential_in_query, is_secret_name, secret_values

KEY = "gsk_no_real_key_0123456789"
SALTED = Redaction(salt=b"a lab's token")


def test_values_of_secret_looking_variables_are_redacted() -> None:
    environ = {"GROQ_API_KEY": KEY, "AWS_SECRET_ACCESS_KEY": "a/b+c=d/e/f", "PATH": "/bin/bash"}
    redact = Redaction(environ | {"GITHUB_TOKEN": 'with"quotes&more'}).text
    assert redact(f"{KEY} a/b+c=d/e/f a%2Fb%2Bc%3Dd%2Fe%2Ff /bin") == "[secret] [secret] [secret] /bin"
    assert json.loads(redact(json.dumps({"said": 'with"quotes&more'}))) == {"said": "[secret]"}


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "TOKEN_FILE", "MAX_TOKENS", "KEYBOARD", "SSH_AUTH_SOCK"])
def test_ordinary_variables_are_not_redacted(name: str) -> None:
    assert secret_values({name: "/srv/me/notes"}) == []


def test_placeholder_key_in_request_is_not_secret() -> None:
    message = "Rate limit reached for model `scripted-diligent`."
    assert SALTED.text(message, ["scripted"]) == message
    assert "open-sesame" not in SALTED.text("the key is open-sesame", ["open-sesame"])


def test_placeholder_is_not_secret() -> None:
    assert Redaction({"MODEL_API_KEY": "none", "GROQ_API_KEY": ""}).text("there are none") == "there are none"


@pytest.mark.parametrize("name", ["next_page_token", "max_tokens", "pageToken", "key", "monkey", "keys"])
def test_ordinary_names_are_not_redacted(name: str) -> None:
    assert not is_secret_name(name)
    text = json.dumps({name: "abcdefgh12"})
    assert SALTED.body(text) == text


@pytest.mark.parametrize(
    "target",
    [
        "/a?token=S",
        "/a?b=1&api_key=S",
        "/a?pass%77ord=S",
        "/a?sig=S",
        "/bot123456:S/send",
        "/hooks/S",
    ],
)
def test_targets_with_different_secrets_differ(target: str) -> None:
    first, second = (SALTED.target(target.replace("S", f"val-ue-{n}-abcdefgh")) for n in (1, 2))
    assert "val-ue" not in first + second
    assert first != second
    assert first == SALTED.target(target.replace("S", "val-ue-1-abcdefgh"))
    assert first != Redaction(salt=b"another lab").target(target.replace("S", "val-ue-1-abcdefgh"))


@pytest.mark.parametrize(
    "target",
    [
        "/v1/orders/7f9c24e5-2d5f-4c7e-9a51-6f7a0c0c8a11?page=2",
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "/models/Meta-Llama-3-1-405B-Instruct",
        "/oauth/token/introspection",
        "/orders?next_page_token=abcdefgh12&limit=5",
    ],
)
def test_ordinary_targets_are_unchanged(target: str) -> None:
    assert SALTED.target(target) == target


def test_json_stays_json() -> None:
    inner = json.dumps({"password": 'a"b\\c', "n": 1})
    for value in (
        {"token": 'a"b\\', "next": "x"},
        {"text": inner},
        {"secret": 12345678},
    ):
        redacted = json.loads(SALTED.body(json.dumps(value)))
        assert list(redacted) == list(value)
    assert json.loads(SALTED.body(json.dumps({"text": inner})))["text"].endswith('"n": 1}')
    line = json.dumps({"token": "a name of the history", "text": inner})
    assert json.loads(SALTED.text(line, in_json=True))["token"] == "a name of the history"


def test_command_line_keeps_nonsecret_words() -> None:
    words = ["agent", "--token", "abcd1234", "--api-key=abcd1234", "--max-tokens", "512", "-u", "me:abcd1234"]
    assert Redaction().words(words) == [
        *("agent", "--token", "[secret]", "--api-key=[secret]", "--max-tokens", "512", "-u", "me:[secret]")
    ]


def test_query_credential_is_decoded_and_excludes_signature() -> None:
    assert credential_in_query("/a?sig=abc&ap%69key=a%20b") == "a b"
    assert credential_in_query("/a?q=keys") == ""
