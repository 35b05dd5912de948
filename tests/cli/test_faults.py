"""``wirefault faults``: the catalogue and fault sets on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import make_server

import pytest
from click.testing import CliRunner, Result

from wirefault.cli.main import main
from wirefault.core.sockets import Address
from wirefault.faults.catalogue import FAULTS
from wirefault.faults.sets.presets import preset_names
from wirefault.lab.live import LiveFaultsClient
from wirefault.toxiproxy.toxics import TOXICS
from wirefault.toxiproxy.toxics.base import Toxic


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str, code: int = 0, **environ: str) -> Result:
    result = CliRunner().invoke(main, ["faults", *arguments], env={"MANAGER_HOST": "127.0.0.2", **environ})
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_list_has_every_fault_once():
    lines = call().output.splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert [name for name in names if name in {fault.name for fault in FAULTS}] == [f.name for f in FAULTS]
    assert next(line for line in lines if line.startswith("truncate ")).split()[1:4] == [
        "any",
        "link",
        "http",
    ]
    assert set(preset_names()) <= set(names)
    assert "`" not in "".join(lines)


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.name)
def test_show_prints_page_of_fault(kind):
    output = call("show", kind.name).output
    assert output.startswith(f"{kind.name}   (")
    for name, info in kind.model_fields.items():
        assert f"\n{info.alias or name} " in output and (info.description or "").split()[-1] in output


@pytest.mark.parametrize("toxic", TOXICS, ids=lambda toxic: toxic.kind)
def test_show_prints_toxic_with_usable_example(toxic: Toxic) -> None:
    output = call("show", toxic.kind).output
    assert output.startswith(f"{toxic.kind}   (toxic")
    assert all(f"\n{attribute.name} " in output for attribute in toxic.attributes)
    Path("mine.yaml").write_text(output.partition("in a fault set:\n")[2])
    call("show", "mine.yaml")


def test_show_prints_usable_example_without_markdown():
    output = call("show", "delay").output
    assert not set("`|#") & set(output)
    Path("mine.yaml").write_text(output.partition("in a fault set:\n")[2])
    assert "delay tools 100 % of tries" in " ".join(call("show", "mine.yaml").output.split())


def test_show_names_entries_that_always_act_at_level():
    Path("mine.yaml").write_text(
        "faults: [{fault: empty, when: {probability: 0.6}}, {fault: stale, when: {probability: 0.5}}]"
    )
    assert "the chance is capped: empty\n" in call("show", "mine.yaml", "--chaos-level", "2").output
    assert "capped" not in call("show", "mine.yaml").output


def test_show_prints_true_rates_at_level():
    Path("mine.yaml").write_text(
        "description: what for\nfaults: [{fault: empty, links: search, when: {probability: 0.5}},"
        " {fault: stale, links: search, when: {nth: 2}}]\n"
        "toxics: [{toxic: latency, when: {probability: 0.5}}, {toxic: down, together: true, duration: 2}]\n"
    )
    output = call("show", "mine.yaml", "--chaos-level", "0.5").output
    rows = [" ".join(line.split()) for line in output.splitlines()]
    assert "what for" in rows
    assert "empty search 25 % of tries" in rows
    assert "stale search 37.5 % of tries nth 2" in rows
    assert "latency (toxic latency:300) tools 25 % of attempts" in rows
    assert "down (toxic down) tools 50 % of attempts all links by one draw, ends after 2 s" in rows


def test_links_with_equal_rates_share_row():
    output = call("show", "lost-replies").output
    assert sum(line.startswith("lose_reply ") for line in output.splitlines()) == 2


@pytest.mark.parametrize("name", preset_names())
def test_show_prints_entries_of_preset(name):
    rates = "messages 1-3" if name == "recovery-lab" else "% of tries"
    assert rates in call("show", name).output
    assert "(none of its faults can occur)" in call("show", name, "--chaos-level", "0").output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["show", "lose_rply"],
            "unknown fault, toxic, preset or file 'lose_rply'; did you mean 'lose_reply'?",
        ),
        (["show", "hevy"], "did you mean 'heavy'?"),
        (["show", ""], "unknown fault, toxic, preset or file ''; known are:\n  status  "),
        (["show", "x" * 5000], "unknown fault, toxic, preset or file 'xxx"),
        (["show", "none.yaml"], "none.yaml: No such file or directory"),
        (["show", "."], "cannot read .: Is a directory"),
        (["show", "light", "--chaos-level", "nan"], "nan is not in the range"),
        (["set", ""], "'': none of its faults can occur"),
        (["set", "x" * 5000], "unknown fault set"),
        (
            ["set", '{"faults": [{"fault": "empty", "when": {"probability": 0}}]}'],
            "none of its faults can occur",
        ),
        (["show", "light", "--chaos-level", "3"], "3.0 is not in the range"),
        (["set", "hevy"], "unknown fault set 'hevy'; did you mean 'heavy'?"),
        (["set", "light", "--chaos-level", "0"], "none of its faults can occur"),
    ],
)
def test_mistakes_are_reported(arguments, expected):
    assert expected in call(*arguments, code=64).output


@pytest.mark.parametrize("arguments", [["set", "light"], ["clear"]])
def test_missing_lab_error_explains_start(arguments):
    assert "start one: wirefault lab up" in call(*arguments, code=70).output


def test_source_is_name_or_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[str] = []
    monkeypatch.setattr(
        LiveFaultsClient, "set", lambda _, __, source: sources.append(source) or {"number": 0, "from": ""}
    )
    for name in ("light", '{"faults": [{"fault": "delay"}]}'):
        call("set", name)
        call("set", name, "--chaos-level", "0.5")
    full = "an inline set"
    assert sources == ["light", "light at chaos level 0.5", full, f"{full} at chaos level 0.5"]


def test_lab_note_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {
        "number": 1,
        "faults": None,
        "source": "light",
        "from": "later",
        "note": "no run is in progress",
    }
    monkeypatch.setattr(LiveFaultsClient, "set", lambda *_: answer)
    assert "\nno run is in progress\n" in call("set", "light").output


def test_status_needs_lab():
    assert "start one: wirefault lab up" in call("status", code=70).output


@pytest.fixture
def elsewhere() -> Iterator[Address]:
    """A manager that has none of this folder's tokens."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
        known = environ["REQUEST_METHOD"] == "GET"
        start("200 OK" if known else "401 Unauthorized", [("Content-Type", "application/json")])
        return [b'{"number": 0, "from": null}' if known else b'{"error": {"message": "token"}}']

    with make_server("127.0.0.1", 0, answer) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Address("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join()


def test_lab_of_other_folder_is_recognised(elsewhere: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirefault.lab.live.published_manager", lambda _: elsewhere)
    assert "did not start from this folder" in call("status").output
    assert "it was started from another folder" in call("clear", code=70).output
