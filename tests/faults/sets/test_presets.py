"""Presets, and fault sets named at the edge: by a preset's name, a file, or their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets import fault_set, presets
from wirefault.faults.sets.fault_set import Entry, FaultSet, FaultSetError, ToxicEntry, load_set
from wirefault.faults.sets.presets import (
    MAX_BYTES,
    canonical_text,
    find_set,
    preset,
    preset_names,
    preset_of,
    read_canonical,
)
from wirefault.settings.configuration import load_configuration
from wirefault.settings.settings import Settings, SettingsError
from wirefault.toxiproxy.toxics.text_form import parse_list
from wirefault.wiring.links import Link, Links, lab_links

NAMES = [
    "bad-network",
    "broken-model",
    "heavy",
    "light",
    "lost-replies",
    "lying-tools",
    "moderate",
    "rate-limits",
    "recovery-lab",
]
SET = "faults:\n- {fault: truncate, links: search, with: {fraction: 0.1}}\n"


def test_presets_match_design():
    assert list(preset_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_preset_has_description(name):
    loaded = preset(name)
    assert loaded.description and loaded.faults
    assert load_set(loaded.dump(), name, REGISTRY, lab_links()) == loaded
    assert preset_of(loaded.dump(), lab_links()) == name


def test_preset_is_recognised_on_few_links():
    links = Links([Link("shop", upstream="http://127.0.0.1:9000")])
    assert preset_of(preset("moderate", links).dump(), links) == "moderate"
    assert preset_of('{"faults": []}', links) is None


def test_preset_file_and_text_are_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text(SET, encoding="utf-8")
    Path("light").write_text(SET, encoding="utf-8")
    assert find_set("mine") == find_set("./light") == find_set(find_set("mine").dump())
    assert find_set("light") == preset("light")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ligth", "unknown fault set 'ligth'; did you mean 'light'?"),
        ("there/none.yaml", "cannot read there/none.yaml: No such file"),
        ("a\0.yaml", "cannot read a\0.yaml: embedded null byte"),
        ("empty.yaml", "empty.yaml: no faults"),
        ("bad.yaml", "bad.yaml: faults[1]: unknown fault 'truncat'; did you mean 'truncate'?"),
        ("wrong.yaml", "wrong.yaml: faults[1]: truncate: with: unknown key 'fractoin'; did you mean"),
    ],
)
def test_bad_set_names_source_key_and_nearest_name(setting, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.yaml").write_text("faults: []", encoding="utf-8")
    Path("bad.yaml").write_text("faults: [{fault: truncat}]", encoding="utf-8")
    Path("wrong.yaml").write_text("faults: [{fault: truncate, with: {fractoin: 1}}]", encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        load_configuration({"FAULTS": setting})
    assert f"environment: FAULTS: {message}" in str(raised.value)


def test_oversized_set_is_refused(tmp_path):
    text = "faults:\n" + "- {fault: truncate}\n" * (MAX_BYTES // 150)
    (tmp_path / "large.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(FaultSetError, match="split it"):
        find_set(str(tmp_path / "large.yaml"))


def test_frozen_set_is_complete(tmp_path):
    (tmp_path / "mine.yaml").write_text(SET, encoding="utf-8")
    settings = load_configuration({"FAULTS": str(tmp_path / "mine.yaml"), "CHAOS_LEVEL": "0.5"}).settings
    assert Settings.model_validate_json(settings.dump()) == settings
    [entry] = read_canonical(settings.faults, settings.chaos_level).faults
    assert (entry.fault.name, entry.links, entry.when.probability) == ("truncate", ("search",), 0.5)


def test_python_set_needs_no_ids_and_is_checked_at_once():
    empty = REGISTRY["empty"]()
    toxic = ToxicEntry(parse_list("latency:5")[0], ("search",))
    settings = Settings(seed=1, faults=FaultSet((Entry(empty, ("search",)),) * 2, (toxic,)))
    faults = read_canonical(settings.faults)
    assert [entry.id for entry in (*faults.faults, *faults.toxics)] == ["empty", "empty-2", "latency"]
    with pytest.raises(ValueError, match="empty: links: unknown link 'serch'; did you mean 'search'"):
        Settings(seed=1, faults=FaultSet((Entry(empty, ("serch",)),)))


def test_settings_accept_set_data_and_text():
    loaded = preset("light")
    data = {"faults": [{"fault": "truncate"}]}
    assert Settings(seed=1, faults=loaded).faults == Settings(seed=1, faults=loaded.dump()).faults
    assert read_canonical(Settings(seed=1, faults=data).faults).faults[0].fault.name == "truncate"


def test_fault_name_selects_fault_on_all_its_links() -> None:
    assert find_set("rate_limit").dump() == find_set('{"faults": [{"fault": "rate_limit"}]}').dump()
    with pytest.raises(FaultSetError, match="tool_error is possible on no link of this wiring"):
        find_set("tool_error")


@pytest.mark.parametrize("name", [*NAMES, "truncate", "{faults: [{fault: hang, links: weather}]}"])
def test_each_set_is_built_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_known", {})
    text = find_set(name).dump()
    monkeypatch.setattr(fault_set, "build_set", lambda *_: pytest.fail("built again"))
    known = find_set(text)
    assert canonical_text(text, lab_links()) == text == known.dump()
    assert read_canonical(text) == known and not known.description


def test_remembered_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_known", {})
    for number in range(100):
        find_set(f"{{faults: [{{fault: hang, id: f{number}}}]}}")
    assert len(presets._known) <= presets._MAX_KNOWN
