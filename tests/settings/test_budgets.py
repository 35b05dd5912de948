"""Budgets: read from a file or a text, saved in the settings; errors name the problem first."""

from __future__ import annotations

import pytest

from wirefault.settings.budgets import Budget, EpisodeBudget, load_budgets, with_pool, without_pool
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.settings.sources import Source, merge_sources

TEXT = """
episode:
  {tokens: 10000, cost: 1.00, calls: 100, requests_a_minute: 60, concurrent: 5, time: 60s, memory: 512MB}
run: {cost: 5.00, time: 5 min}
warn_at: 70 %
mode: degrading
"""
PRICES = "m: {input: 1, output: 1}\n"


def settings(budgets_text: str, prices: str = PRICES) -> Settings:
    return merge_sources([Source("environment", {"budgets": budgets_text, "prices": prices})])


@pytest.mark.parametrize("as_file", [True, False])
def test_budgets_are_saved_in_full(tmp_path, as_file):
    file = tmp_path / "budgets.yaml"
    file.write_text(TEXT)
    text = settings(str(file) if as_file else TEXT).budgets
    budgets = load_budgets(text)
    assert budgets.episode == EpisodeBudget(
        tokens=10000, cost=1.0, calls=100, requests_a_minute=60, concurrent=5, time=60.0, memory=512_000_000
    )
    assert (budgets.run, budgets.warn_at) == (Budget(cost=5.0, time=300.0), 0.7)
    assert settings(text).budgets == text and Settings(seed=1, budgets=text).budgets == text


def test_no_budgets_by_default():
    assert load_budgets(Settings(seed=1).budgets) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "missing a budget"),
        ("episode: {token: 1}\n", "episode.token: no such key; did you mean 'tokens'?"),
        ("episode: {calls: 1}\nmodus: hard\n", "modus: no such key; did you mean 'mode'?"),
        ("run: {memory: 1GB}\n", "run.memory: no such key"),
        ("episode: {time: 5 parsec}\n", "episode.time: must be a number and one of ms, s, min, h"),
        ("episode: {memory: 5 kB}\n", "episode.memory: "),
        ("episode: {tokens: true}\n", "episode.tokens: "),
        ("episode: {cost: 0}\n", "episode.cost: "),
        ("run: {calls: 3}\nmode: soft\n", "mode: Input should be 'hard', 'degrading' or 'end'"),
        ("run: {calls: 3}\nwarn_at: 120 %\n", "warn_at: "),
        ("run: {calls: 3}\npool: ../another\n", "pool: String should match pattern"),
        ("run: {calls: 3}\nlinks: model\n", "links: Input should be 'models', 'tools' or 'all'"),
        ("/no/such/file", "/no/such/file: cannot be read"),
    ],
)
def test_invalid_budget_is_named(text, message):
    with pytest.raises(SettingsError) as error:
        settings(text)
    assert str(error.value).startswith("environment: BUDGETS: ") and message in str(error.value)


def test_cost_budget_needs_prices():
    with pytest.raises(SettingsError, match="a budget of cost needs PRICES"):
        settings("run: {cost: 1}\n", prices="")


def test_tool_link_has_no_token_budget():
    budgets = load_budgets(settings(TEXT + "links: all\n").budgets)
    assert budgets.at_gateway(of_model=False)["run"] == Budget(time=300.0)
    assert budgets.at_gateway(of_model=False)["episode"] == Budget(
        calls=100, requests_a_minute=60, concurrent=5
    )
    assert load_budgets(settings(TEXT).budgets).at_gateway(of_model=False) == {}


def test_existing_budget_pool_is_kept():
    pooled = with_pool(settings(TEXT).budgets, "arm-1")
    assert load_budgets(pooled).pool == load_budgets(with_pool(pooled, "arm-2")).pool == "arm-1"
    assert without_pool(pooled) == settings(TEXT).budgets
    for text in ("", settings("episode: {calls: 1}\n").budgets):  # nothing to share
        assert with_pool(text, "arm-1") == without_pool(text) == text


def test_cost_budget_needs_scripted_model_price(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budgets = {"budgets": '{"episode": {"cost": 1}}'}
    with pytest.raises(SettingsError, match="add scripted-diligent to PRICES"):
        load_configuration({}, {**budgets, "prices": PRICES})
    priced = PRICES.replace("m:", "scripted-diligent:")
    assert load_configuration({}, {**budgets, "prices": priced}).settings.budgets
