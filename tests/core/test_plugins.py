"""Entry points of installed packages are found by name; errors name the package."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from wirefault.core.plugins import PluginError, WithPlugins, find_plugins
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSetError, build_set
from wirefault.settings.settings import SettingsError
from wirefault.subjects.loading import load_subject
from wirefault.wiring.links import lab_links

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Create an installed package: ``install("acme", "wirefault.faults", "name = module:object")``."""
    monkeypatch.syspath_prepend(tmp_path)

    def lay_down(package: str, group: str, *lines: str) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")

    return lay_down


@pytest.fixture
def mapping() -> WithPlugins[str]:
    def checked(name: str, loaded: object) -> str:
        if not isinstance(loaded, str):
            raise TypeError("is no text")
        return loaded

    return WithPlugins("test.group", lambda: {"own": "ours"}, checked)


def test_without_plugins_built_in_names_remain(mapping: WithPlugins[str]) -> None:
    assert dict(mapping) == {"own": "ours"}
    assert mapping.get("other") is None and mapping.package_of("own") == ""


def test_plugins_come_last_and_are_imported_on_use(install: Install, mapping: WithPlugins[str]) -> None:
    install("acme", "test.group", "theirs = string:digits", "broken = not_there:x")
    assert list(mapping) == ["own", "broken", "theirs"] and len(mapping) == 3 and "broken" in mapping
    assert mapping["theirs"] == "0123456789" and mapping.package_of("theirs") == "package acme 1.0"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("broken = not_there:x", "cannot be loaded: ModuleNotFoundError: No module named 'not_there'"),
        ("broken = string:nothing", "cannot be loaded: AttributeError: "),
        ("broken = string:capwords", "is no text"),
    ],
)
def test_broken_plugin_names_its_package(
    install: Install, mapping: WithPlugins[str], line: str, problem: str
) -> None:
    install("acme", "test.group", line)
    message = f"package acme 1.0 (test.group: {line}) {problem}"
    with pytest.raises(PluginError, match=re.escape(message)):
        mapping["broken"]


@pytest.mark.parametrize(
    ("name", "whose"),
    [("own", "a name that Wirefault uses itself"), ("x", "the same name as .*(acme|bolt) 1.0")],
)
def test_name_clash_is_error_on_any_lookup(
    install: Install, mapping: WithPlugins[str], name: str, whose: str
) -> None:
    install("acme", "test.group", f"{name} = string:digits")
    install("bolt", "test.group", "x = string:digits")
    with pytest.raises(PluginError, match=f"has {whose}"):
        mapping.get("anything")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("theirs = string:digits", "is not a subclass of wirefault.faults.base.Fault"),
        ("theirs = wirefault.faults.base:Fault", "lacks name and family"),
        (
            "theirs = wirefault.faults.catalogue.http.delivery:Flap",
            "has the name 'flap'; the entry point must have the same name",
        ),
        ("flap = wirefault.faults.catalogue.http.delivery:Flap", "has a name that Wirefault uses itself"),
    ],
)
def test_non_fault_plugin_is_fault_set_error(
    install: Install, monkeypatch: pytest.MonkeyPatch, line: str, problem: str
) -> None:
    install("acme", "wirefault.faults", line)
    registry = WithPlugins("wirefault.faults", lambda: REGISTRY.own, REGISTRY._checked)
    with pytest.raises(FaultSetError, match=rf"^f: faults\[1\]: package acme 1.0 .*{problem}"):
        build_set({"faults": [{"fault": "theirs"}]}, "f", registry, lab_links())


@pytest.mark.parametrize("value", ["string:digits", "wirefault.dialects.openai_chat:OpenAIChat"])
def test_non_dialect_plugin_is_error(install: Install, value: str) -> None:
    install("acme", "wirefault.dialects", f"theirs = {value}")
    dialects = WithPlugins("wirefault.dialects", lambda: MODEL_DIALECTS.own, MODEL_DIALECTS._checked)
    with pytest.raises(PluginError, match=r"package acme 1.0 .* must be an object that implements"):
        dialects["theirs"]


def test_subject_is_loaded_by_its_name(install: Install) -> None:
    install("acme", "wirefault.subjects", "theirs = string:capwords", "broken = not_there:x")
    assert load_subject("theirs").__name__ == "capwords"
    with pytest.raises(SettingsError, match=r"'broken' .*package acme 1.0.*not_there cannot be imported"):
        load_subject("broken")
    with pytest.raises(SettingsError, match=r"'thiers'.*did you mean 'theirs'"):
        load_subject("thiers")
    assert set(find_plugins("wirefault.subjects")) == {"theirs", "broken"}
