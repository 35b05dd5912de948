def test_the_inbox_holds_three_messages_with_something_to_ask_about(world):
    inbox = world.ask("message", "GET", "/inbox").json()["messages"]
    assert [message["from"] for message in inbox] == ["Alice", "Carol", "Dan"]
    assert all(fact in inbox[i]["body"] for i, fact in enumerate(["4200", "314", "18:45"]))
    assert world.effects() == []


def test_a_sent_message_is_listed_and_recorded(world):
    message = {"to": "Bob", "body": "12 °C in Zürich,\nbring a coat"}
    answer = world.ask("message", "POST", "/message", json=message)
    assert (answer.status_code, answer.json()) == (201, {"status": "sent", "message": message})
    assert world.ask("message", "GET", "/sent").json() == {"messages": [message]}
    assert [(e["service"], e["kind"], e["fields"]) for e in world.effects()] == [
        ("message_tool", "message_sent", message)
    ]


def test_sent_messages_stay_in_their_world(lab, world):
    world.ask("message", "POST", "/message", json={"to": "Bob", "body": "hi"})
    other = lab.ask("message", "GET", "/sent", headers={"Windtunnel-World": "run/other"})
    assert other.json() == {"messages": []}
