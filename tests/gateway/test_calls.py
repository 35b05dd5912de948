"""Grouping of requests into tries of one call."""

from __future__ import annotations

from typing import Any

import pytest

from wirefault.gateway.calls import AttemptCalls, CountedTry


class Client:
    """Send requests in sequence and return the call of each."""

    def __init__(self) -> None:
        self.calls = AttemptCalls()
        self.now = 0.0

    def send(
        self, what: str = "order", *, fails: bool | int = False, marked: bool = False, **more: Any
    ) -> tuple[str, int]:
        """``fails``: the status of the reply; True without any."""
        self.now += 1
        link, of_model = more.pop("link", "shop"), more.get("of_model", False)
        fingerprint = "" if of_model else what
        body = more.pop("body", what).encode()
        tried = CountedTry(
            link, "POST", "/orders", fingerprint, body, more.pop("size", len(body)), self.now, **more
        )
        arrival = self.calls.count_arrival(link, fingerprint)
        name = self.calls.name(tried, arrival, is_marked=marked)
        self.now += 1
        if fails:
            self.calls.fail(tried, self.now, was_refused=400 <= fails < 500)
        else:
            self.calls.answer(tried)
        return name

    def ask_model(self) -> None:
        self.now += 1
        self.calls.note_model_reply(self.now)


@pytest.mark.parametrize("failure", [True, 429, 500, 404])
def test_repeat_of_failed_request_is_try_of_same_call(failure: int) -> None:
    client = Client()
    calls = [client.send(fails=failed) for failed in (failure, failure, False, failure, False)]
    assert calls == [("order", 1)] * 3 + [("order", 2)] * 2


def test_repeat_of_answered_request_is_new_call() -> None:
    client = Client()
    assert [client.send()[1] for _ in range(3)] == [1, 2, 3]


def test_request_after_reply_of_model_is_new_call() -> None:
    client = Client()
    first = client.send(fails=500)
    client.ask_model()
    assert client.send() != first


def test_earlier_model_reply_does_not_separate_tries() -> None:
    client = Client()
    client.ask_model()
    assert client.send(fails=500) == client.send()


def test_restarted_step_makes_new_calls() -> None:
    client = Client()
    client.send("order")
    price = client.send("price", fails=500)
    assert client.send("order") == ("order", 2)
    assert client.send("price") != price


def test_restarted_step_over_two_links_makes_new_calls() -> None:
    client = Client()
    client.send("order")
    price = client.send("price", fails=500, link="prices")
    client.send("order")
    assert client.send("price", link="prices") != price


def test_first_request_to_other_link_ends_no_call() -> None:
    client = Client()
    first = client.send(fails=401, access="old")
    client.send("token", link="login")
    assert client.send(access="old") == first


def test_other_request_in_between_makes_new_call() -> None:
    client = Client()
    first = client.send("a", fails=500)
    client.send("b")
    assert client.send("a") != first


def test_concurrent_failed_calls_have_separate_tries() -> None:
    client = Client()
    tries = []
    for what in ("a", "b"):
        tried = CountedTry("shop", "POST", "/", what, b"", 0, 1.0)
        tries.append((client.calls.name(tried, 1, is_marked=False), tried))
    for _, tried in tries:
        client.calls.fail(tried, 2.0)
    client.now = 3.0
    assert [client.send("a"), client.send("b")] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(("status", "is_same"), [(401, False), (429, False), (500, True)])
def test_other_credential_mends_refusal_only(status: int, is_same: bool) -> None:
    client = Client()
    first = client.send(fails=status, access="old")
    assert (client.send(access="new") == first) is is_same


def test_generated_ids_do_not_separate_tries() -> None:
    client = Client()
    first = client.send("a", body='{"item": "tea", "request_id": "1"}', fails=True)
    assert client.send("b", body='{"item": "tea", "request_id": "2"}') == first
    assert client.send("c", body='{"item": "tea", "request_id": "3"}') == ("c", 1)


def test_different_resource_id_is_new_call() -> None:
    client = Client()
    first = client.send("a", body='{"order": "9f0c1c3e-6a0f-4c9e-9d58-0a3b8c6f1d11"}', fails=True)
    assert client.send("b", body='{"order": "1b2c1c3e-6a0f-4c9e-9d58-0a3b8c6f1d22"}') != first


def test_parallel_model_requests_are_separate_calls() -> None:
    client = Client()
    assert client.send("a", of_model=True, fails=429) == ("", 1)
    assert client.send("b", of_model=True) == ("", 2)
    assert client.send("a", of_model=True) == ("", 1)
    assert client.send("c", of_model=True) == ("", 3)


def test_restarted_conversation_makes_new_calls() -> None:
    client = Client()
    client.send("first", of_model=True)
    client.send("second", of_model=True, fails=500)
    assert [client.send(what, of_model=True)[1] for what in ("first", "second")] == [3, 4]


def test_long_bodies_are_compared_by_size() -> None:
    client = Client()
    first = client.send("start", of_model=True, size=300_000, fails=500)
    assert client.send("start", of_model=True, size=300_100) != first
    assert client.send("start", of_model=True, size=None, fails=500) != client.send(
        "start", of_model=True, size=None
    )


def test_marked_retry_needs_no_failure() -> None:
    client = Client()
    assert client.send() == client.send(marked=True)


def test_retry_after_client_left_is_same_call() -> None:
    client = Client()
    first = CountedTry("shop", "POST", "/orders", "order", b"order", 5, 1.0)
    name = client.calls.name(first, client.calls.count_arrival("shop", "order"), is_marked=False)
    client.calls.fail(first, 2.0)
    client.now = 2.0
    assert client.send() == name
    client.calls.answer(first)
    assert client.send() == ("order", 2)


def test_request_in_progress_is_not_failure() -> None:
    client = Client()
    for number in (1, 2):
        tried = CountedTry("shop", "POST", "/orders", "order", b"order", 5, 1.0)
        assert client.calls.name(tried, number, is_marked=False).number == number


def test_other_mcp_messages_end_no_call() -> None:
    client = Client()
    first = client.send("add", fails=500, tool="add")
    client.send("ping", is_protocol=True)
    assert client.send("add", tool="add") == first


def test_tries_share_call_number_on_link() -> None:
    client = Client()
    names = [client.send("a", fails=500), client.send("a"), client.send("b")]
    assert client.calls.last_on_link("shop") == 1
    assert [client.calls.number_on_link("shop", name) for name in names] == [1, 1, 2]
    assert client.calls.last_on_link("shop") == 2
