import pytest

from flask_tools.app import create_service
from wirefault.wiring.links import lab_links


def test_link_without_service_is_refused(tmp_path):
    with pytest.raises(KeyError, match="model"):
        create_service("model", tmp_path / "effects.db")


@pytest.mark.parametrize("link", lab_links().tool_names)
def test_health_touches_no_state(start, tmp_path, link):
    path = tmp_path / "absent" / "effects.db"
    answer = start(link, path).ask(link, "GET", "/")
    assert (answer.status_code, answer.json()) == (200, {"status": "OK"})
    assert not path.parent.exists()


@pytest.mark.parametrize("link", lab_links().tool_names)
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/backends//probe", 404, "not_found"),
        ("GET", "/%00", 404, "not_found"),
        ("DELETE", "/", 405, "method_not_allowed"),
        ("POST", "/effects", 405, "method_not_allowed"),
        ("GET", "/effects?world=", 400, "bad_value"),
        ("GET", "/effects?worlds=a", 400, "unknown_parameter"),
    ],
)
def test_refusals_are_json_everywhere(lab, link, method, path, status, code):
    answer = lab.ask(link, method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["Content-Type"] == "application/json"


def test_wrong_method_gets_allow_header(lab):
    assert "GET" in lab.ask("weather", "PUT", "/weather").headers["Allow"]


def test_service_bug_is_json_500_without_details(tmp_path):
    app = create_service("weather", tmp_path / "effects.db")
    app.add_url_rule("/bug", view_func=lambda: 1 / 0)
    app.logger.disabled = True
    answer = app.test_client().get("/bug")
    assert (answer.status_code, answer.json["error"]["code"]) == (500, "internal_error")
    assert "zero" not in answer.text


def test_invalid_database_is_503_naming_setting(start, tmp_path):
    (tmp_path / "broken.db").write_text("this is no database, and never was one")
    lab = start("calendar", tmp_path / "broken.db")
    for answer in (lab.ask("calendar", "GET", "/events"), lab.ask("calendar", "GET", "/effects")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "state_unavailable")
        assert "EFFECTS_DB" in answer.json()["error"]["message"]


def test_uncreatable_database_is_503(start, tmp_path):
    (tmp_path / "file").touch()
    answer = start("message", tmp_path / "file" / "effects.db").ask("message", "GET", "/sent")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "state_unavailable")


def test_removed_database_is_created_again(start, tmp_path):
    lab = start("message")
    for _ in range(2):
        assert lab.ask("message", "POST", "/message", json={"to": "Bob", "body": "hi"}).status_code == 201
        (tmp_path / "effects.db").unlink()
    assert lab.ask("message", "GET", "/sent").json() == {"messages": []}


def test_answers_repeat_byte_for_byte(world):
    requests = [
        ("search", "/serp?q=height+of+Mount+Everest"),
        ("weather", "/weather?q=Paris"),
        ("movie", "/movie?query=the"),
        ("calendar", "/events"),
        ("message", "/inbox"),
    ]
    for link, path in requests:
        assert world.ask(link, "GET", path).content == world.ask(link, "GET", path).content
