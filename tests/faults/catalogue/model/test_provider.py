"""Errors in the provider's own form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dialects.forms import BERN, CALL, CALLS, FORMS, TEXT, ZURICH, Form
from tests.faults.tries import act_of, always, changed, keyed, model_try, why_not
from wirefault.dialects.base import reply_body
from wirefault.dialects.http import Reply, ReplyInPieces
from wirefault.dialects.token_usage import read_usage
from wirefault.faults.base import Miss
from wirefault.faults.catalogue.model.provider import (
    ApiTimeout,
    ContentFilter,
    ContextLength,
    TokenLimit,
    ToolUseFailed,
)

FORM = pytest.mark.parametrize("form", FORMS, ids=str)
FILTERED = pytest.mark.parametrize("form", [form for form in FORMS if form.dialect != "ollama"], ids=str)
CHAT, MESSAGES = Form("openai_chat", False), Form("anthropic", False)


def error(fault, form):
    answer = act_of(fault, model_try(form)).answer
    assert isinstance(answer, Reply) and answer.status == 400
    return answer.json()["error"]


def test_timeout_lasts_until_client_leaves():
    assert act_of(ApiTimeout(), model_try(CHAT)).answer == ReplyInPieces(ending="hang")


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 5.0), (0.5, 17.5), (0.9999999, 30.0)])
def test_timeout_is_drawn_between_its_bounds(draw: float, seconds: float) -> None:
    act = act_of(ApiTimeout(at_least=5, limit=30), model_try(CHAT, chance=always(draw)))
    assert (act.hang_s, act.evidence) == (seconds, {"hang_s": seconds})


def test_timeouts_of_two_tries_differ() -> None:
    fault = ApiTimeout(at_least=5, limit=30)
    waits = {act_of(fault, model_try(CHAT, chance=keyed(seed))).hang_s for seed in range(9)}
    assert len(waits) == 9 and all(5 <= wait <= 30 for wait in waits if wait is not None)


def test_bounds_of_timeout_must_be_in_order() -> None:
    with pytest.raises(ValueError, match="at_least must be at most limit, which is 30"):
        ApiTimeout(at_least=31, limit=30)


def test_context_too_long_has_provider_form():
    assert error(ContextLength(limit=10), CHAT)["code"] == "context_length_exceeded"
    refused = error(ContextLength(limit=10), MESSAGES)
    assert refused["type"] == "invalid_request_error"
    assert refused["message"].startswith("prompt is too long: ") and "> 10 maximum" in refused["message"]


def test_context_limit_refuses_only_longer_requests():
    assert ContextLength(limit=100_000).act(model_try(CHAT)) is None
    assert error(ContextLength(), CHAT)["type"] == "invalid_request_error"


@FORM
def test_failed_tool_use_error_has_failed_generation(form):
    reply, evidence = changed(ToolUseFailed(), form.reply(CALLS), model_try(form))
    generation = '<function=get_weather>{"city": "Zurich", "days": 2}</function>'
    assert reply.status == form.model_dialect.errors["tool_use_failed"].status and not reply.is_event_stream
    assert evidence["failed_generation"].startswith(generation)
    if form.dialect == "bedrock":  # whose error is a message, its type a header
        assert generation in reply.json()["message"]
        assert reply.header("x-amzn-errortype") == "ModelErrorException"
        return
    result = reply.json()["error"]
    if form.dialect == "ollama":  # whose error is a text
        assert generation in result
        return
    assert generation in result.get("failed_generation", result["message"])
    codes = {"openai_chat": "tool_use_failed", "openai_responses": "tool_use_failed", "gemini": 400}
    assert result.get("code") == codes.get(form.dialect)


@FORM
def test_request_without_tools_has_no_tool_use_failure(form):
    assert why_not(ToolUseFailed(), form.reply(TEXT), model_try(form, tools=False)) == "nothing_to_change"


def test_dialect_without_content_filter_has_no_such_reply():
    form = next(form for form in FORMS if form.dialect == "ollama")
    assert why_not(ContentFilter(), form.reply(TEXT), model_try(form)) == "not_in_dialect"
    assert ContentFilter(form="error").act(model_try(form)) == Miss("not_in_dialect")


@FILTERED
def test_filtered_answer_is_cut(form):
    reply, _ = changed(ContentFilter(fraction=0.25), form.reply(TEXT), model_try(form))
    result = form.read(reply)
    assert result.finish == "content_filter" and TEXT.text.startswith(result.text) and not result.calls
    assert len(result.text) == len(TEXT.text) // 4


@FILTERED
def test_filtered_call_is_dropped(form):
    reply, _ = changed(ContentFilter(), form.reply(CALL), model_try(form, chance=always(0)))
    assert not form.read(reply).calls


def test_filtered_request_is_refused():
    assert error(ContentFilter(form="error"), CHAT)["code"] == "content_filter"
    assert "filtered" in error(ContentFilter(form="error"), MESSAGES)["message"]


REASONS = {
    "openai_chat": '"finish_reason": "length"',
    "openai_responses": '"incomplete_details": {"reason": "max_output_tokens"}',
    "anthropic": '"stop_reason": "max_tokens"',
    "gemini": '"finishReason": "MAX_TOKENS"',
    "ollama": '"done_reason": "length"',
    "bedrock": '"stopReason": "max_tokens"',
}


@FORM
def test_text_ends_by_token_limit(form):
    reply, _ = changed(TokenLimit(fraction=0.25), form.reply(TEXT), model_try(form))
    result = form.read(reply)
    assert result.finish == "length" and result.text == TEXT.text[: len(TEXT.text) // 4]
    assert REASONS[form.dialect] in reply.body.decode("utf-8", "replace")


@FORM
def test_last_call_ends_by_token_limit(form):
    reply, _ = changed(TokenLimit(), form.reply(CALLS), model_try(form))
    result = form.read(reply)
    first, rest = result.calls[0], result.calls[1:]
    assert result.finish == "length" and first.values() == ZURICH.values()
    if form.dialect in ("gemini", "ollama"):
        assert not rest
    elif form.dialect in ("anthropic", "bedrock") and not form.stream:
        assert [call.values() for call in rest] == [{}]
    else:
        assert rest[0].values() is None and rest[0].arguments
        assert BERN.arguments.replace(" ", "").startswith(rest[0].arguments.replace(" ", ""))


def test_incomplete_responses_call_has_incomplete_status():
    form = Form("openai_responses", False)
    reply, _ = changed(TokenLimit(), form.reply(CALLS), model_try(form))
    assert [item["status"] for item in reply.json()["output"]] == ["completed", "incomplete"]
    assert reply.json()["status"] == "incomplete"


@FORM
def test_usage_shrinks_with_reply_cut_by_token_limit(form):
    tried = model_try(form)
    if form.dialect == "anthropic":  # whose requests always have a limit
        assert tokens(form, changed(TokenLimit(), form.reply(TEXT), tried)[0])[1] == 99
        return
    body = changed(TokenLimit(), form.reply(TEXT), tried)[0]
    assert tokens(form, body) == (9, 3)
    for total in ("total_tokens", "totalTokenCount", "totalTokens"):
        assert f'"{total}": 16'.encode() not in body.body


def tokens(form, reply) -> tuple[int | None, int | None]:
    usage = read_usage(reply_body(form.model_dialect, reply))
    return usage.tokens_in, usage.tokens_out


@pytest.mark.parametrize(
    ("form", "limit"),
    [
        (CHAT, {"max_completion_tokens": 5}),
        (Form("openai_responses", False), {"max_output_tokens": 5}),
        (Form("gemini", False), {"generationConfig": {"maxOutputTokens": 5}}),
        (Form("ollama", False), {"options": {"num_predict": 5}}),
        (Form("bedrock", False), {"inferenceConfig": {"maxTokens": 5}}),
    ],
    ids=str,
)
def test_usage_is_limit_of_request(form, limit):
    request = form.request()
    tried = replace(model_try(form), request=request.with_json({**request.json(), **limit}))
    assert tokens(form, changed(TokenLimit(), form.reply(CALL), tried)[0]) == (9, 5)


@FORM
def test_token_limit_without_content_changes_nothing(form):
    for fault, reply in ((TokenLimit(at="call"), TEXT), (TokenLimit(at="text"), CALLS)):
        assert why_not(fault, form.reply(reply), model_try(form)) == "nothing_to_change"
