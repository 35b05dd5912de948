"""Model prices: read from a file or a text, saved in the settings; errors name the problem."""

import json

import pytest

from wirefault.settings.budgets import Price, load_prices
from wirefault.settings.settings import Settings, SettingsError
from wirefault.settings.sources import Source, merge_sources

TEXT = "m-1: {input: 2.5, output: 10}\nm-0: {input: 0, output: 0}\n"


def settings(prices_value: object) -> Settings:
    return merge_sources([Source("environment", {"prices": prices_value})])


@pytest.mark.parametrize("as_file", [True, False])
def test_prices_are_saved_in_full(tmp_path, as_file):
    file = tmp_path / "prices.yaml"
    file.write_text(TEXT)
    prices = settings(str(file) if as_file else TEXT).prices
    assert load_prices(prices) == {"m-0": Price(0, 0), "m-1": Price(2.5, 10)}
    assert settings(prices).prices == prices and Settings(seed=1, prices=prices).prices == prices


def test_no_prices_without_file():
    assert load_prices(Settings(seed=1).prices) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]\n", "must be a mapping"),
        ("m: 3\n", "m.input: must be US dollars per million tokens, not nothing"),
        ("m: {input: 1}\n", "m.output: must be"),
        ("m: {input: 1, outptu: 2}\n", "m.outptu: no such field; did you mean 'output'?"),
        ("m: {input: -1, output: 2}\n", "m.input: must be US dollars per million tokens, not -1"),
        ("m: {input: true, output: 2}\n", "not True"),
        ("m: {input: .inf, output: 2}\n", "must be a finite number"),
        ("m: {input: 1, input: 2, output: 2}\n", "input"),
        ("a: b: c\n", "text:1"),
        ("/no/such/file", "/no/such/file: cannot be read"),
    ],
)
def test_invalid_price_is_named(text, message):
    with pytest.raises(SettingsError) as error:
        settings(text)
    assert str(error.value).startswith("environment: PRICES: ") and message in str(error.value)


def test_runs_row_stores_prices_as_text():
    dumped = json.loads(Settings(seed=1, prices=TEXT).dump())["prices"]
    assert json.loads(dumped)["m-1"] == {"input": 2.5, "output": 10.0}
