"""Model requests are recognised by path and body; look-alikes are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirefault.dialects.model_requests import may_ask_model, spoken_model_api

USER = {"role": "user", "content": "Order honey"}
IN_BLOCKS = {"role": "user", "content": [{"text": "Order honey"}]}
CHAT = {"model": "m", "messages": [USER]}
CLAUDE = {"model": "claude", "max_tokens": 100, "messages": [USER]}
PARTS = {"contents": [{"role": "user", "parts": [{"text": "Order honey"}]}]}
VERTEX = "/v1/projects/p/locations/eu/publishers"


@pytest.mark.parametrize(
    ("path", "body", "dialect"),
    [
        ("/v1/chat/completions", CHAT, "openai_chat"),  # vLLM, LM Studio, llama.cpp, LiteLLM
        ("/openai/deployments/mine/chat/completions", {"messages": [USER]}, "openai_chat"),  # Azure
        ("/v1/completions", {"model": "m", "prompt": "Once"}, "openai_chat"),
        ("/v1/embeddings", {"model": "m", "input": ["honey"]}, "openai_chat"),
        ("/v1/responses", {"model": "m", "input": "Order honey"}, "openai_responses"),
        ("/responses", {"model": "m", "input": [USER]}, "openai_responses"),
        ("/openai/responses", {"model": "m", "input": [{"type": "reasoning"}]}, "openai_responses"),
        ("/v1/messages", CLAUDE, "anthropic"),
        ("/v1/messages/count_tokens", CHAT, "anthropic"),
        (
            f"{VERTEX}/anthropic/models/claude:streamRawPredict",
            {"anthropic_version": "vertex-2023-10-16", "max_tokens": 9, "messages": [USER]},
            "anthropic",
        ),
        (f"{VERTEX}/google/models/gemini-2.5-pro:generateContent", PARTS, "gemini"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent", PARTS, "gemini"),
        ("/api/chat", CHAT, "ollama"),
        ("/api/generate", {"model": "m", "prompt": "Once"}, "ollama"),
        ("/api/embed", {"model": "m", "input": ["honey"]}, "ollama"),
        ("/model/m/converse", {"messages": [IN_BLOCKS]}, "bedrock"),
        ("/model/arn%3Aaws%3Abedrock%2Fm/converse-stream", {"messages": [IN_BLOCKS]}, "bedrock"),
        ("/model/m/invoke", {"inputText": "Order honey"}, "bedrock"),
    ],
)
def test_request_to_model_is_recognised(path: str, body: dict[str, Any], dialect: str) -> None:
    assert may_ask_model(path)
    assert spoken_model_api(path, json.dumps(body).encode()) == dialect


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/orders", CHAT),  # not a path of a model API
        ("/v1/messages", {"messages": [{"to": "Bob", "text": "Hi"}]}),  # of a chat service
        ("/v1/messages", {"model": "sms", "messages": [USER]}),  # no limit of tokens
        ("/messages", CLAUDE),
        ("/v1/messages/17", CLAUDE),
        ("/v1/chat/completions", {"model": "m", "messages": ["Order honey"]}),
        ("/v1/chat/completions", {"model": "m", "messages": [{"role": "admin", "content": "x"}]}),
        ("/v1/chat/completions", {"model": "m", "messages": []}),
        ("/v1/chat/completions", {"messages": [USER]}),
        ("/surveys/5/responses", {"model": "T", "input": "good"}),
        ("/v1/responses", {"input": "good"}),
        ("/v1/responses", {"model": "T", "input": [{"question": 1, "answer": "good"}]}),
        ("/v1/embeddings", {"model": "oak", "frame": "1"}),
        ("/api/chat", {"message": "Order honey"}),
        ("/api/chat", {"messages": [USER]}),  # of a web front end: its server chooses the model
        ("/api/chat", {"model": "m", "messages": [{"id": "1", "role": "user", "parts": [], "content": ""}]}),
        ("/api/generate", {"model": "T", "count": 3}),
        ("/model/m/converse", {"messages": [USER]}),  # a text, not blocks
        ("/model/17/converse", {"text": "Hi"}),
        ("/model/17/invoke", {"count": 3}),
        ("/v1/models", {"model": "T", "messages": [USER]}),
        ("/pages/7:generateContent", {"title": "Spring"}),
        ("/v1/chat/completions", [USER]),
    ],
)
def test_look_alike_is_not_recognised(path: str, body: Any) -> None:
    assert spoken_model_api(path, json.dumps(body).encode()) == ""


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'{"model": "m", "messages": [{"role"'])
def test_unreadable_body_is_not_recognised(body: bytes) -> None:
    assert spoken_model_api("/v1/chat/completions", body) == ""


def test_long_request_is_recognised_by_start() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:" + "x" * 500}}]}
    start = json.dumps({"messages": [image], "model": "m"}).encode()[:300]
    assert spoken_model_api("/v1/chat/completions", start, cut=True) == "openai_chat"
    assert spoken_model_api("/v1/messages", start, cut=True) == "anthropic"
    assert spoken_model_api("/v1/chat/completions", start) == ""
