"""The settings: allowed values of each source, precedence, and errors."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wirefault.settings.settings import NAMES, Settings, SettingsError, load_frozen
from wirefault.settings.sources import (
    INSTALLATION_VARIABLES,
    Source,
    dotenv_remarks,
    from_dotenv,
    from_environment,
    merge_sources,
)


def one(**values):
    return merge_sources([Source("somewhere", values)])


def dotenv(tmp_path, text):
    path = tmp_path / ".env"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return from_dotenv(path)


def test_seed_is_drawn_by_default():
    assert len({one().seed for _ in range(8)}) > 1


@pytest.mark.parametrize("first", range(4))
def test_first_source_wins(first):
    values = [None] * first + [0.5] + [0.9] * (3 - first)
    sources = [
        Source(str(i), {} if value is None else {"toxic_prob": value}) for i, value in enumerate(values)
    ]
    assert merge_sources(sources).toxic_prob == 0.5


def test_source_with_none_is_skipped():
    assert merge_sources([Source("a", {"tool_limit": None}), Source("b", {"tool_limit": 3})]).tool_limit == 3


@pytest.mark.parametrize("text", ["42", " 42 ", 42, 42.0])
def test_seed_may_be_text(text):
    assert one(seed=text).seed == 42


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", True), ("off", False), ("true", True), ("False", False), ("1", True), ("0", False), (True, True)],
)
def test_idempotency_is_on_or_off(text, value):
    assert one(idempotency=text).idempotency is value


NO_SHARE = [math.nan, "nan", math.inf, "inf", "-inf", 1e308, "1e308", -0.1, 1.0001, "", "ten", True, [], {}]
BAD = [
    *[("toxic_prob", value) for value in NO_SHARE],
    *[("error_prob", value) for value in NO_SHARE],
    *[
        ("seed", value)
        for value in (-1, 2**31, 2**63, "", "x", "0x10", "1e3", 1.5, math.nan, True, "9" * 5000)
    ],
    *[("tool_limit", value) for value in (0, 21, -1, 1.5, "two", False)],
    *[("tool_timeout", value) for value in (0, -1, 601, "nan", "inf", "1s")],
    *[("retry_after", value) for value in (-0.1, 61, "nan")],
    *[("toxic_scope", value) for value in ("", "one", "ALL", True)],
    *[("toxic_seconds", value) for value in (-0.1, 601, "nan", "inf", "2s", True)],
    *[("idempotency", value) for value in ("", "maybe", 2, "onn")],
    *[("fallback", value) for value in ("", "on", "Direct", True)],
    *[("recovery", value) for value in ("retyr", "retry(tries=0)", "retry(", "none, retry", True, 1)],
    *[("toxics", value) for value in ("", ",", "latncy:300", "latency:x", "latency@up:3", ["latency"])],
    *[("model_base_url", value) for value in ("localhost:1", "ftp://h", "http://", "http://a b", "http://[")],
    ("model", "gpt"),
    ("persona", "lazy"),
    ("translator_backend", "deepl"),
    ("groq_model", ""),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{n}={str(v)[:12]}" for n, v in BAD])
def test_out_of_range_value_names_source_and_setting(name, value):
    with pytest.raises(SettingsError, match=f"^somewhere: {name.upper()}=") as caught:
        one(**{name: value})
    assert len(str(caught.value)) < 300


def test_error_names_source_of_value():
    with pytest.raises(SettingsError, match=r"^b: TOOL_LIMIT=99"):
        merge_sources(
            [Source("a", {"seed": 1}), Source("b", {"tool_limit": 99}), Source("c", {"tool_limit": 98})]
        )


@pytest.mark.parametrize("name", ["toxic_prb", "TOXIC_PROB", "toxicprob"])
def test_unknown_name_suggests_nearest(name):
    with pytest.raises(
        SettingsError, match=f"^somewhere: unknown setting {name}; did you mean 'toxic_prob'\\?$"
    ):
        one(**{name: 0.1})


@pytest.mark.parametrize("url", ["http://me:secret@h/v1", "https://token@h"])
def test_password_in_url_is_refused_and_redacted(url):
    with pytest.raises(SettingsError, match="MODEL_API_KEY") as caught:
        one(model_base_url=url)
    assert "secret" not in str(caught.value) and "token" not in str(caught.value)


def test_toxics_are_written_canonically():
    assert one(toxics=" latency : 300 ,, timeout@upstream:5").toxics == "latency:300,timeout@upstream:5"
    assert [spec.kind for spec in one().toxic_specs] == ["timeout", "latency", "latency"]


def test_other_settings_select_model():
    assert one().model_name == "scripted-diligent"
    assert one(persona="quitter").model_name == "scripted-quitter"
    assert one(model_base_url="http://h/v1/").model == "compatible"
    assert one(model_base_url="http://h/v1/").model_base_url == "http://h/v1"
    assert one(model="groq", groq_model="m").model_name == "m"
    assert one(model="replay", groq_model="m").model_name == "m"


def test_recording_uses_groq_without_address():
    assert one(model="record").asks_groq
    assert not one(model="record", model_base_url="http://h/v1").asks_groq


def test_compatible_model_needs_address():
    with pytest.raises(SettingsError, match="MODEL_BASE_URL"):
        one(model="compatible")


def test_environment_has_nonempty_values():
    source = from_environment({"SEED": "5", "TOXIC_PROB": "", "PATH": "x", "toxic_prob": "0.9"})
    assert (source.where, source.values) == ("environment", {"seed": "5"})


def test_dotenv_file_sets_settings_and_places(tmp_path):
    text = "# lab\nexport SEED=5\nTOXIC_PROB='0.5' # half\nGROQ_API_KEY=k\nCOMPOSE_FILE=c\nTOOL_LIMIT=\n"
    source, others = dotenv(tmp_path, text)
    assert source.where == str(tmp_path / ".env")
    assert source.values == {"seed": "5", "toxic_prob": "0.5"}
    assert others == {"GROQ_API_KEY": "k", "COMPOSE_FILE": "c"}


@pytest.mark.parametrize("name", INSTALLATION_VARIABLES)
def test_installation_variables_are_allowed_in_dotenv(tmp_path, name):
    assert dotenv(tmp_path, f"{name}=x")[1] == {name: "x"}


def test_reference_in_dotenv_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTER", "7")
    text = "SEED=${OUTER}\nLAB_ID=a${SEED}${SEED:-x}${NONE}${NONE:-b}\nLOGS_DIR='${SEED}'\nA\n"
    source, others = dotenv(tmp_path, text)
    assert (source.values, others) == ({"seed": "7"}, {"LAB_ID": "a77b", "LOGS_DIR": "7"})


def test_missing_dotenv_is_empty(tmp_path):
    source, others = from_dotenv(tmp_path / ".env")
    assert (source.values, others) == ({}, {})


def test_foreign_dotenv_names_are_ignored_and_listed(tmp_path):
    names = ("OPENAI_API_KEY", "DATABASE_URL", "LOG_LEVEL", "OPENAI_BASE_URL", "PORT", "DEBUG")
    source, others = dotenv(tmp_path, "SEED=1\n" + "".join(f"{name}=secret\n" for name in names))
    assert (source.values, others) == ({"seed": "1"}, {})
    [remark] = dotenv_remarks(tmp_path / ".env")
    assert "OPENAI_API_KEY, DATABASE_URL, LOG_LEVEL, OPENAI_BASE_URL, PORT and 1 more" in remark
    assert "secret" not in remark and "SEED" not in remark


@pytest.mark.parametrize(("name", "meant"), [("TOXIC_PRB", "TOXIC_PROB"), ("GROQ_API_KEYS", "GROQ_API_KEY")])
def test_misspelt_dotenv_name_is_ignored_with_remark(tmp_path, name, meant):
    assert dotenv(tmp_path, f"PORT=1\n{name}=0.5\n")[0].values == {}
    slip, foreign = dotenv_remarks(tmp_path / ".env")
    assert f"{name} is ignored: unknown setting; did you mean '{meant}'?" in slip
    assert "PORT" in foreign and name not in foreign


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SEED=1\nTOXIC_PROB 0.5", r":2: not NAME=value$"),
        ("=secret", r":1: not NAME=value$"),
        (b"SEED=\xff", "not UTF-8"),
        ("A=x\n" * 30_000, ": too large: at most"),
        ("A0=xxxxxxxxxx\n" + "".join(f"A{n}={f'${{A{n - 1}}}' * 9}\n" for n in range(1, 20)), ": too large"),
        ("A=" + "${" * 30_000, ": too large: .* and 1000 such references$"),
    ],
)
def test_bad_dotenv_error_names_place(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message) as caught:
        dotenv(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / ".env"))


def test_settings_are_frozen():
    with pytest.raises(ValidationError):
        one().seed = 5


@given(st.floats(0, 1), st.integers(0, 2**31 - 1), st.booleans())
def test_settings_round_trip_through_runs_row(prob, seed, idempotency):
    settings = one(toxic_prob=prob, seed=seed, idempotency=idempotency)
    assert load_frozen(settings.dump()) == settings
    assert load_frozen(settings.dump()).hash == settings.hash


def test_hash_depends_on_values_not_spelling():
    assert one(seed=1).hash != one(seed=2).hash
    assert one(seed="1", tool_timeout="1.0").hash == one(seed=1, tool_timeout=1).hash


def test_row_holds_plain_json_of_every_setting():
    assert set(json.loads(one().dump())) == set(NAMES)


def test_each_setting_has_description():
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize("text", ["heavy", "[]", '{"arm": 1}', '{"arm": {"tool": 1}}'])
def test_invalid_shadow_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must map arm names to settings"):
        Settings(seed=1, shadow=text)
