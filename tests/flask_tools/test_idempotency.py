import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from flask_tools.store import Store
from wirefault.state.effects import read_effects

HI = {"to": "Bob", "body": "hi"}
WRITES = [
    ("calendar", "POST", "/events", {"title": "Lunch", "date": "2026-03-20", "time": "12:30"}),
    ("calendar", "DELETE", "/events?date=2026-03-12", None),
    ("calendar", "DELETE", "/events?date=2027-01-01", None),
    ("message", "POST", "/message", HI),
]


@pytest.mark.parametrize(("link", "method", "path", "body"), WRITES)
def test_same_key_again_replays_first_answer(world, link, method, path, body):
    first, second = (world.ask(link, method, path, key=world.name, json=body) for _ in range(2))
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert (first.headers.get("Idempotency-Replayed"), second.headers["Idempotency-Replayed"]) == (
        None,
        "true",
    )
    assert len(world.effects()) == (0 if "2027" in path else 1)


def test_without_key_every_request_acts(world):
    for _ in range(2):
        world.ask("message", "POST", "/message", json=HI)
    assert [effect["fields"] for effect in world.effects()] == [HI, HI]


def test_two_keys_act_twice(world):
    for key in "ab":
        world.ask("message", "POST", "/message", key=world.name + key, json=HI)
    assert [effect["idempotency_key"] for effect in world.effects()] == [world.name + "a", world.name + "b"]


def test_key_used_for_another_body_is_refused_and_does_nothing(world):
    world.ask("message", "POST", "/message", key=world.name, json=HI)
    answer = world.ask("message", "POST", "/message", key=world.name, json=HI | {"body": "other"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert len(world.effects()) == 1


@pytest.mark.parametrize("other", [0, 2])
def test_key_used_for_another_method_or_query_is_refused(world, other):
    link, method, path, body = WRITES[1]
    world.ask(link, method, path, key=world.name, json=body)
    link, method, path, body = WRITES[other]
    assert world.ask(link, method, path, key=world.name, json=body).status_code == 422


def test_key_used_in_another_world_is_refused(lab, world):
    world.ask("message", "POST", "/message", key=world.name, json=HI)
    other = {"Wirefault-World": "elsewhere", "Idempotency-Key": world.name}
    assert lab.ask("message", "POST", "/message", json=HI, headers=other).status_code == 422


def test_services_do_not_share_keys(world):
    for link, method, path, body in (WRITES[0], WRITES[3]):
        assert world.ask(link, method, path, key=world.name, json=body).status_code == 201
    assert [effect["service"] for effect in world.effects()] == ["calendar_tool", "message_tool"]


def test_refused_request_leaves_its_key_free(world):
    assert world.ask("message", "POST", "/message", key=world.name, json={"to": "Bob"}).status_code == 400
    assert world.ask("message", "POST", "/message", key=world.name, json=HI).status_code == 201


def test_simultaneous_tries_with_one_key_act_once(world):
    with ThreadPoolExecutor(8) as pool:
        tries = [
            pool.submit(world.ask, "message", "POST", "/message", world.name, json=HI) for _ in range(16)
        ]
        answers = [attempt.result() for attempt in tries]
    assert {answer.content for answer in answers} == {answers[0].content}
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert len(world.effects()) == 1


def test_request_waits_for_active_writer(lab, world):
    store = Store(lab.effects_path, clock=lambda: 0.0)
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with store.writing("elsewhere", "test", None):
            waiting = pool.submit(world.ask, "message", "POST", "/message", world.name, json=HI)
            waiting.add_done_callback(lambda _: done.set())
            assert not done.is_set() and world.effects() == []
        assert waiting.result().status_code == 201


def test_failure_in_transaction_leaves_no_change(tmp_path):
    store = Store(tmp_path / "effects.db", clock=lambda: 7.0)
    with pytest.raises(RuntimeError), store.writing("w", "test", None) as transaction:
        transaction.record("message_sent", HI)
        raise RuntimeError
    assert read_effects(store.path, "w") == []


def test_side_effects_have_clock_time(tmp_path):
    store = Store(tmp_path / "effects.db", clock=lambda: 7.0)
    with store.writing("w", "test", "k") as transaction:
        transaction.record("message_sent", HI)
    (effect,) = read_effects(store.path, "w")
    assert (effect.at, effect.fields, effect.idempotency_key) == (7.0, HI, "k")


def test_request_id_in_body_is_key(world):
    named = HI | {"request_id": world.name}
    first, second = (world.ask("message", "POST", "/message", json=named) for _ in range(2))
    assert second.content == first.content
    assert second.headers["Idempotency-Replayed"] == "true"
    assert [(effect["fields"], effect["idempotency_key"]) for effect in world.effects()] == [(HI, world.name)]


@pytest.mark.parametrize(("request_id", "key"), [(7, None), ("", None), ("a", "b")])
def test_invalid_or_conflicting_request_id_is_refused(world, request_id, key):
    answer = world.ask("message", "POST", "/message", key=key, json=HI | {"request_id": request_id})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_idempotency_key")
    assert "Idempotency-Key" in answer.json()["error"]["message"]
    assert world.effects() == []
