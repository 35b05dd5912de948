import pytest

from flask_tools.calendar import FIXTURES


def titles(world, query=""):
    return [event["title"] for event in world.ask("calendar", "GET", "/events" + query).json()["events"]]


def create(world, **changes):
    event = {"title": "Yoga", "date": "2026-03-12", "time": "13:00"} | changes
    return world.ask("calendar", "POST", "/events", json=event)


def test_world_starts_with_fixtures_and_no_side_effects(world):
    assert titles(world) == [title for title, _, _ in FIXTURES]
    assert titles(world, "?date=2026-03-12") == ["Team lunch", "Design review"]
    assert titles(world, "?date=2026-3-2") == ["Budget review"]
    assert world.effects() == []


def test_created_event_is_listed_in_order_and_recorded(world):
    answer = create(world, title="  Yoga ", date="2026-3-12", time="9:05")
    event = {"title": "Yoga", "date": "2026-03-12", "time": "09:05"}
    assert (answer.status_code, answer.json()) == (201, {"event": event})
    assert titles(world, "?date=2026-03-12") == ["Yoga", "Team lunch", "Design review"]
    assert [(e["service"], e["kind"], e["fields"]) for e in world.effects()] == [
        ("calendar_tool", "event_created", event)
    ]


def test_delete_by_date_takes_all_events_of_day(world):
    create(world)
    fields = {"date": "2026-03-12", "count": 3, "titles": ["Team lunch", "Yoga", "Design review"]}
    assert world.ask("calendar", "DELETE", "/events?date=2026-3-12").json() == fields
    assert titles(world, "?date=2026-03-12") == []
    assert len(titles(world)) == len(FIXTURES) - 2
    recorded = fields | {"times": ["12:30", "13:00", "15:00"]}
    assert [(e["kind"], e["fields"]) for e in world.effects()][1:] == [("events_deleted", recorded)]


def test_empty_delete_has_no_side_effect(world):
    answer = world.ask("calendar", "DELETE", "/events?date=2026-12-24")
    assert (answer.status_code, answer.json()) == (200, {"date": "2026-12-24", "count": 0, "titles": []})
    assert world.effects() == []


def test_worlds_are_separate(lab, world):
    create(world)
    assert "Yoga" not in str(lab.ask("calendar", "GET", "/events").json())
    assert lab.ask("calendar", "GET", f"/effects?world={world.name}").json()["effects"] == world.effects()


def test_absent_world_is_default_world(lab):
    assert lab.ask("calendar", "GET", "/effects").json()["world"] == "default"


@pytest.mark.parametrize(
    "date",
    ["2026-02-29", "2026-13-01", "2026-00-10", "26-03-12", "12.03.2026", "tomorrow", "2026-03-12T10:00"],
)
def test_invalid_day_is_refused(world, date):
    for answer in (create(world, date=date), world.ask("calendar", "DELETE", f"/events?date={date}")):
        assert (answer.status_code, "date" in answer.json()["error"]["message"]) == (400, True)
    assert world.effects() == []


@pytest.mark.parametrize("time", ["24:00", "12:60", "9:5", "9am", "09:30:00", "-1:00", "٠٩:٣٠"])
def test_invalid_time_is_refused(world, time):
    answer = create(world, time=time)
    assert (answer.status_code, "time" in answer.json()["error"]["message"]) == (400, True)


def test_leap_day_is_valid(world):
    assert create(world, date="2028-2-29").json()["event"]["date"] == "2028-02-29"
