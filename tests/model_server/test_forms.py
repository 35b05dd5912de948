"""Recognise final forms among tools, and fill them."""

from typing import Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from agent.loop import Report
from wirefault.model_server.forms import CannotFill, fill, split_tools
from wirefault.model_server.playbooks import Answer, Value

T = TypeVar("T")
FINAL = "The final response which ends this conversation"
GUIDE = (
    "IMPORTANT: This StructuredOutputTool should only be invoked as the last and final tool before returning"
)


def tool(name, description=""):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


SEARCH = tool("search_results", "Searches the results of past matches")


@pytest.mark.parametrize(
    ("form", "choice"),
    [
        (tool("Report", "Report to the user; ends the task."), "auto"),
        (tool("final_result", FINAL), "auto"),
        (tool("final_result_Weather", f"Weather: {FINAL}"), "required"),
        (tool("done_with_it", f"A weather report. {FINAL}"), "auto"),
        (tool("final_answer", "Provides a final answer to the given problem."), "required"),
        (tool("submit_final_answer"), "auto"),
        (tool("set_model_response", "Set your final response using the required output schema."), "auto"),
        (tool("Weather", GUIDE), "auto"),
        (tool("__finish__"), "auto"),
        (tool("submit", "Submit an answer for evaluation."), "auto"),
        (tool("ContactInfo", "Contact information for a person."), "required"),
        (tool("Weather", "Weather(city: str, temp: float)"), "required"),
        (tool("response_format_3f2a"), "required"),
    ],
)
def test_form_is_recognised_among_tools(form, choice):
    assert split_tools([SEARCH, form], choice) == ([SEARCH], [form])


@pytest.mark.parametrize(
    "form",
    [
        tool("Person", "Correctly extracted `Person` with all the required parameters with correct types"),
        tool("Person", "A person."),
        tool("Order"),
        tool("json", "Respond with a JSON object."),
        tool("extract_person"),
    ],
)
def test_tool_choice_may_name_form(form):
    assert split_tools([SEARCH, form], form["function"]["name"]) == ([], [form])


@pytest.mark.parametrize("choice", ["auto", "required", "named"])
@pytest.mark.parametrize(
    "working",
    [
        SEARCH,
        tool("send_final_notice", "Sends the final notice to a debtor"),
        tool("submit_report_to_authority", "Submits the final report to the authority"),
        tool("report_issue", "Report an issue to the maintainers"),
        tool("complete_task", "Marks a task of the list as done"),
        tool("stop_timer", "Stops the timer and ends the task in the time sheet"),
        tool("final_results", "The final results of a match"),
        tool("GetWeather", "Get the current weather in a given location"),
        tool("SendReport", ""),
        tool("WeatherReport", "Returns the weather report of a city"),
        tool("Calculator", "Useful for sums"),
        tool("TavilySearch", ""),
    ],
)
def test_ordinary_tool_is_not_form(working, choice):
    others = [] if choice == "named" else [SEARCH]
    named = working["function"]["name"] if choice == "named" else choice
    assert split_tools([*others, working], named) == ([*others, working], [])


def test_tool_choice_none_offers_no_tools():
    for forms in (
        [tool("final_result_Weather"), tool("final_result_Failure")],
        [tool("Weather", "The weather."), tool("Failure")],
    ):
        assert split_tools([SEARCH, *forms], "none") == ([], [])
        assert split_tools([SEARCH, *forms], "required") == ([SEARCH], forms)


DONE = Answer(
    "done",
    "It is 8.4 celsius in Paris.",
    (Value(8.4, "celsius", "temp"),),
    {"city": "Paris", "temp": 8.4, "conditions": "Cloudy", "events": [{"title": "Gym", "day": "2026-03-02"}]},
)
FAILED = Answer("failed", "I could not get the weather.", (), {"city": "Paris"})
KEYED = Answer(
    "done", "It is 8.4 degrees.", (), {"city_name": "Paris", "temperature_celsius": 8.4, "temp_max": 9.0}
)
UNSURE = Answer("unsure", "It may have been sent.")


class Weather(BaseModel):
    city: str
    temperature: float


class Failure(BaseModel):
    """The reason of the failure."""

    reason: str


class Detailed(BaseModel):
    kind: Literal["weather"]
    location: str
    temperature_celsius: float
    condition: Literal["sunny", "cloudy"]
    humidity: int | None
    wind: str = "calm"


class Event(BaseModel):
    title: str
    day: str = Field(pattern=r"^\d{4}-\d\d-\d\d$")


class Agenda(BaseModel):
    events: list[Event] = Field(min_length=1)
    answer: str


class Shipped(BaseModel):
    status: str


class Foreign(BaseModel):
    都市: str


class Nested(BaseModel):
    weather: Weather
    summary: str


class State(BaseModel):
    success: bool
    status: Literal["SUCCESS", "ERROR"]
    message: str
    error: str | None


class Wrapped(BaseModel, Generic[T]):
    response: T


class Tree(BaseModel):
    city: str
    parent: "Tree | None"


TEXT, LOST = DONE.text, FAILED.text
ITEM = {"value": 8.4, "unit": "celsius"}


@pytest.mark.parametrize(
    ("form", "answer", "filled"),
    [
        (Report, DONE, {"status": "done", "answer": TEXT, "values": [ITEM]}),
        (Report, FAILED, {"status": "failed", "answer": LOST, "values": []}),
        (Report, UNSURE, {"status": "unsure", "answer": UNSURE.text, "values": []}),
        (Weather, DONE, {"city": "Paris", "temperature": 8.4}),
        (Weather, KEYED, {"city": "Paris", "temperature": 8.4}),
        (
            Detailed,
            DONE,
            {
                "kind": "weather",
                "location": "Paris",
                "temperature_celsius": 8.4,
                "condition": "cloudy",
                "humidity": None,
            },
        ),
        (Agenda, DONE, {"events": [{"title": "Gym", "day": "2026-03-02"}], "answer": TEXT}),
        (Shipped, Answer("done", "Sent.", (), {"status": "shipped"}), {"status": "shipped"}),
        (Foreign, Answer("done", "Oslo.", (), {"都市": "Oslo"}), {"都市": "Oslo"}),
        (Nested, DONE, {"weather": {"city": "Paris", "temperature": 8.4}, "summary": TEXT}),
        (State, DONE, {"success": True, "status": "SUCCESS", "message": TEXT, "error": None}),
        (State, FAILED, {"success": False, "status": "ERROR", "message": LOST, "error": LOST}),
        (State, UNSURE, {"success": False, "status": "ERROR", "message": UNSURE.text, "error": UNSURE.text}),
        (Tree, DONE, {"city": "Paris", "parent": None}),
        (Wrapped[float], DONE, {"response": 8.4}),
        (Wrapped[str], DONE, {"response": TEXT}),
        (Wrapped[list[float]], DONE, {"response": [8.4]}),
        (Wrapped[list[Event]], DONE, {"response": [{"title": "Gym", "day": "2026-03-02"}]}),
        (Wrapped[float | None], FAILED, {"response": None}),
        (Wrapped[Failure | Weather], DONE, {"response": {"city": "Paris", "temperature": 8.4}}),
        (Wrapped[Weather | Failure], FAILED, {"response": {"reason": LOST}}),
        (Weather | Failure, FAILED, {"reason": LOST}),
        (float, DONE, 8.4),
        (str, FAILED, LOST),
        (dict[str, Any], UNSURE, {"status": "unsure", "answer": UNSURE.text, "values": []}),
    ],
)
def test_form_is_filled_from_answer(form, answer, filled):
    adapter = TypeAdapter(form)
    made = fill(adapter.json_schema(), answer)
    assert made == filled
    adapter.validate_python(made)


class Forecast(BaseModel):
    city: str
    humidity: float


class Extremes(BaseModel):
    temp_max: float
    temperature_fahrenheit: float


class Fahrenheit(BaseModel):
    temperature_f: float


class Cold(BaseModel):
    temperature: float = Field(lt=8.4)


class Whole(BaseModel):
    temperature: int


class Good(BaseModel):
    status: Literal["success"]
    city: str


class Pair(BaseModel):
    response: tuple[str, float]


@pytest.mark.parametrize(
    ("form", "answer", "reason"),
    [
        (Forecast, DONE, "'humidity'"),
        (Extremes, DONE, "'temp_max'"),
        (Fahrenheit, KEYED, "'temperature_f'"),
        (Cold, DONE, "'temperature'"),
        (Whole, DONE, "'temperature'"),
        (Good, FAILED, "'status'"),
        (Weather, FAILED, "'temperature'"),
        (Pair, DONE, "prefixItems"),
        (Wrapped[bool], DONE, "'response'"),
        (Foreign, Answer("done", "Ann.", (), {"名前": "Ann"}), "'都市'"),
        (Wrapped[float], FAILED, "'response'"),
        (Wrapped[dict[str, int]], DONE, "'response'"),
        (float, Answer("done", "Two.", (Value(1, None, "a"), Value(2, None, "b"))), "''"),
        (Weather, Answer("failed", "Not sent.", (), {"city": "Rome", "temp": 3}), "no place to say"),
        (Weather | Forecast, FAILED, "'temperature'"),
    ],
)
def test_unknown_values_are_never_invented(form, answer, reason):
    with pytest.raises(CannotFill, match=reason):
        fill(TypeAdapter(form).json_schema(), answer)


@pytest.mark.parametrize("ref", ["#", "#/$defs/Nowhere"])
def test_endless_reference_is_refused(ref):
    schema = {"type": "object", "properties": {"a": {"$ref": ref}}, "required": ["a"]}
    with pytest.raises(CannotFill, match="'a'"):
        fill(schema, DONE)
