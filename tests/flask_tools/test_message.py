def test_inbox_starts_with_three_messages(world):
    inbox = world.ask("message", "GET", "/inbox").json()["messages"]
    assert [message["from"] for message in inbox] == ["Alice", "Carol", "Dan"]
    assert all(fact in inbox[i]["body"] for i, fact in enumerate(["4200", "314", "18:45"]))
    assert world.effects() == []


def test_sent_message_is_listed_and_recorded(world):
    message = {"to": "Bob", "body": "12 °C in Zürich,\nbring a coat"}
    answer = world.ask("message", "POST", "/message", json=message)
    assert (answer.status_code, answer.json()) == (201, {"status": "sent", "message": message})
    assert world.ask("message", "GET", "/sent").json() == {"messages": [message]}
    assert [(e["service"], e["kind"], e["fields"]) for e in world.effects()] == [
        ("message_tool", "message_sent", message)
    ]


def test_sent_messages_stay_in_their_world(lab, world):
    world.ask("message", "POST", "/message", json={"to": "Bob", "body": "hi"})
    other = lab.ask("message", "GET", "/sent", headers={"Wirefault-World": "run/other"})
    assert other.json() == {"messages": []}


def test_own_messages_and_answers_arrive_in_inbox(lab, world):
    for to in ("me", "Alice", "Bob"):
        world.ask("message", "POST", "/message", json={"to": to, "body": f"for {to}"})
    arrived = world.ask("message", "GET", "/inbox").json()["messages"][3:]
    assert [(message["id"], message["from"]) for message in arrived] == [(4, "me"), (5, "Alice")]
    assert arrived[0]["body"] == "for me"
    assert "for Alice" in arrived[1]["body"]
    other = lab.ask("message", "GET", "/inbox", headers={"Wirefault-World": "run/other"})
    assert len(other.json()["messages"]) == 3
