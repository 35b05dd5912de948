"""The files of cassettes: what is said of those that are broken or not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wirefault.cassettes.cassettes import CassettePlayer, CassetteRecorder, check_cassettes
from wirefault.dialects.http import Reply, Request
from wirefault.settings.settings import Settings, SettingsError

ASKED = Request((), b'{"a": 1}', "POST", "/chat")
REPLY = Reply((("Content-Type", "text/plain"),), b"hello")
STORED: dict[str, Any] = {"status": 200, "content_type": "text/plain", "body": ["hello"]}


def write(folder: Path, content: object) -> Path:
    path = folder / "one.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_order_is_that_of_asking_whichever_reply_comes_first(tmp_path: Path) -> None:
    recorder = CassetteRecorder(tmp_path)
    keeps = [recorder.ask(ASKED) for _ in range(3)]
    keeps[2](REPLY.with_body(b"3"))
    keeps[0](REPLY.with_body(b"1"))
    player = CassettePlayer(tmp_path)
    replies = [player.next_reply(ASKED) for _ in range(3)]
    assert [reply and reply.body for reply in replies] == [b"1", b"3", None]
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_a_file_may_be_renamed_and_edited(tmp_path: Path) -> None:
    CassetteRecorder(tmp_path).ask(ASKED)(REPLY)
    [path] = tmp_path.iterdir()
    path.rename(tmp_path / "hello.json")
    (tmp_path / "hello.json").write_text((tmp_path / "hello.json").read_text().replace("hello", "bye"))
    reply = CassettePlayer(tmp_path).next_reply(ASKED)
    assert reply is not None and reply.body == b"bye"


def test_without_cassettes_it_says_how_to_record_some(tmp_path: Path) -> None:
    settings = Settings(seed=1, model="replay", cassettes=str(tmp_path / "none"))
    with pytest.raises(SettingsError, match=r"none \(CASSETTES\) has no cassettes: .* MODEL=record"):
        check_cassettes(settings)
    check_cassettes(settings.model_copy(update={"model": "scripted"}))


def test_a_recording_needs_a_folder(tmp_path: Path) -> None:
    settings = Settings(seed=1, model="record", cassettes=str(tmp_path / "a" / "b"))
    check_cassettes(settings)
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"CASSETTES=.*file: no folder to record into: File exists"):
        check_cassettes(settings.model_copy(update={"cassettes": str(tmp_path / "file")}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"request": {},\n "replies": [}', "one.json:2: not JSON"),
        ('{"request": {}, "request": {}, "replies": []}', "request is given twice"),
        ({"replies": []}, "'request' is missing"),
        ({"request": {}, "replies": [{}]}, "'body' is missing"),
        ({"request": {}, "replies": [STORED | {"status": 1000}]}, "1000 is not a valid HTTPStatus"),
        ({"request": {}, "replies": [STORED | {"body": [1]}]}, "no cassette: sequence item 0"),
        ({"request": {}, "replies": 1}, "no cassette"),
        ([], "no cassette"),
        ("[" * 100_000, "no cassette"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: object, said: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SettingsError) as caught:
        CassettePlayer(tmp_path)
    assert str(caught.value).startswith(str(path)) and said in str(caught.value)


def test_two_files_for_one_request_are_refused(tmp_path: Path) -> None:
    CassetteRecorder(tmp_path).ask(ASKED)(REPLY)
    [path] = tmp_path.iterdir()
    write(tmp_path, path.read_text())
    with pytest.raises(SettingsError, match=r"one.json: another file .* the same request"):
        CassettePlayer(tmp_path)
