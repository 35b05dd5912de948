import pytest

from flask_tools.weather import load_cities, observation


def test_city_has_shape_of_openweather(world):
    data = world.ask("weather", "GET", "/weather?q=Paris").json()
    assert set(data) >= {"coord", "weather", "main", "wind", "name"}
    assert set(data["main"]) == {"temp", "feels_like", "pressure", "humidity"}
    assert (data["name"], data["coord"], data["units"]) == ("Paris", {"lon": 2.35, "lat": 48.85}, "standard")


@pytest.mark.parametrize(
    "name",
    ["paris", " PARIS ", "Paris,FR", "Paris, France", "Sao  Paulo", "São Paulo, Brazil", "NYC", "Bogotá"],
)
def test_names_are_found_in_any_usual_form(world, name):
    assert world.ask("weather", "GET", "/weather", params={"q": name}).status_code == 200


@pytest.mark.parametrize("name", ["Atlantis", "Paris, Texas", "Paris, US", "., FR"])
def test_unknown_place_is_named_404(world, name):
    answer = world.ask("weather", "GET", "/weather", params={"q": name})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "city_not_found")
    assert name in answer.json()["error"]["message"]


@pytest.mark.parametrize("city", load_cities().values(), ids=lambda city: city.name)
def test_units_agree_and_values_are_plausible(city):
    kelvin, celsius, fahrenheit = (
        observation(city, u)["main"]["temp"] for u in ("standard", "metric", "imperial")
    )
    assert kelvin == pytest.approx(celsius + 273.15)
    assert fahrenheit == pytest.approx(celsius * 9 / 5 + 32, abs=0.051)
    assert abs(celsius - city.mean) < 3.1 and celsius == round(celsius, 1)
    assert abs(city.lat) <= 90 and abs(city.lon) <= 180


def test_cities_differ():
    seen = {str(observation(city, "metric")) for city in load_cities().values()}
    assert len(seen) == len({city.name for city in load_cities().values()}) >= 40
