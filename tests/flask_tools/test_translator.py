import json
import threading
from pathlib import Path

import pytest

import flask_tools.translator
from flask_tools.app import create_service
from flask_tools.inputs import ToolError
from flask_tools.translator import MAX_CALLS, OnlineTranslators, load_phrasebook, probe
from tests.support import until
from tests.upstream import Upstream, requests_of, whole
from wirefault.dialects.http import Reply

PHRASES = Path(flask_tools.translator.__file__).with_name("phrasebook.json")


def translate(lab, text, source="en", target="fr", **headers):
    body = {"text": text, "source_language": source, "target_language": target}
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return lab.ask("translator", "POST", "/translate", json=body, headers=headers)


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(
    ("text", "source", "target", "translated"),
    [
        ("Good morning", "en", "fr", "Bonjour"),
        ("  thank you! ", "English", "German", "Danke"),
        ("THE BILL PLEASE", "EN", "es", "La cuenta, por favor"),
        ("dov’è la stazione", "Italian", "en", "Where is the station?"),
        ("¿Cómo está?", "es", "de", "Wie geht es Ihnen?"),
        ("bonjour", "fr", "en", "Hello"),
        ("hello", "en", "en", "Hello"),
    ],
)
def test_phrasebook_translates_offline(lab, text, source, target, translated):
    answer = translate(lab, text, source, target).json()
    assert (answer["translated_text"], answer["backend"]) == (translated, "offline")
    assert len(answer["source_language"]) == len(answer["target_language"]) == 2


def test_sixty_phrases_ship_in_five_languages():
    rows = json.loads(PHRASES.read_text(encoding="utf-8"))
    assert len(rows) >= 60 and all(tuple(row) == ("en", "fr", "de", "es", "it") for row in rows)
    book = load_phrasebook()
    assert all(book.translate(row["en"], "en", code) == row[code] for row in rows for code in row)


def test_unknown_phrase_is_named_404(lab):
    answer = translate(lab, "the flux capacitor")
    assert code_of(answer) == (404, "phrase_unknown")
    assert "flux capacitor" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("language", "code"), [("klingon", "bad_value"), ("xx", "bad_value"), ("Thai", "language_unsupported")]
)
def test_unknown_language_is_refused_on_either_side(lab, language, code):
    assert code_of(translate(lab, "hello", source=language)) == (400, code)
    assert code_of(translate(lab, "hello", target=language)) == (400, code)


def test_backend_of_header_wins_over_environment(start):
    lab = start("translator", TRANSLATOR_BACKEND="libre")
    assert translate(lab, "hello", Wirefault_Translator="offline").json()["backend"] == "offline"
    assert translate(lab, "hello", Wirefault_Translator="auto").json()["backend"] == "offline"
    assert code_of(translate(lab, "hello")) == (503, "backend_unavailable")
    assert code_of(translate(lab, "hello", Wirefault_Translator="babelfish")) == (400, "bad_value")


@pytest.mark.parametrize(
    "environ",
    [{"TRANSLATOR_BACKEND": "babelfish"}, {"TRANSLATOR_DEADLINE_S": "soon"}, {"TRANSLATOR_DEADLINE_S": "-1"}],
)
def test_wrong_setting_is_named_before_start(tmp_path, environ):
    with pytest.raises(ValueError, match=next(iter(environ))):
        create_service("translator", tmp_path / "effects.db", environ)


class Libre:
    """A server of LibreTranslate's API that can be made to fail, to garble its answer or to hang."""

    def __init__(self):
        self.mode = "answer"
        self.released = threading.Event()
        self.upstream = Upstream(self._serve)
        self.url = self.upstream.address.url

    def _serve(self, connection):
        for _ in requests_of(connection):
            if self.mode == "hang":
                self.released.wait(20)
            body = b'{"translatedText": "salut"}' if self.mode == "answer" else b"<html>no</html>"
            reply = Reply(body=body, status=500 if self.mode == "fail" else 200)
            connection.sendall(b"".join(whole(reply)))


@pytest.fixture
def libre():
    libre = Libre()
    with libre.upstream:
        yield libre
        libre.released.set()
        until(no_backend_is_asked)


def no_backend_is_asked():
    return not any(thread.name.startswith("translate-") for thread in threading.enumerate())


def test_libretranslate_is_asked_at_its_url(start, libre):
    lab = start("translator", TRANSLATOR_BACKEND="libre", LIBRE_URL=libre.url)
    assert translate(lab, "hello").json()["translated_text"] == "salut"
    answer = lab.ask("translator", "GET", "/backends/probe?backend=libre").json()
    assert answer["backend"] == "libre" and answer["reason"]


@pytest.mark.parametrize("mode", ["fail", "garble", "hang"])
def test_failed_backend_is_503_without_phrasebook_fallback(start, libre, mode):
    libre.mode = mode
    lab = start("translator", TRANSLATOR_BACKEND="libre", LIBRE_URL=libre.url, TRANSLATOR_DEADLINE_S="0.5")
    answer = translate(lab, "hello")
    assert code_of(answer) == (503, "backend_unavailable")
    assert ("0.5 s" in answer.json()["error"]["message"]) == (mode == "hang")


def fails(*_):
    raise OSError


def test_hanging_calls_do_not_pile_up():
    released = threading.Event()
    online = OnlineTranslators({"google": lambda *_: "x" if released.wait(20) else ""})
    messages = []
    for _ in range(MAX_CALLS + 1):
        with pytest.raises(ToolError) as caught:
            online.translate("google", "hello", "en", "fr", 0.01)
        messages.append(caught.value.message)
    released.set()
    assert ["in progress" in message for message in messages] == [False] * MAX_CALLS + [True]
    until(no_backend_is_asked)
    assert online.translate("google", "hello", "en", "fr", 5) == "x"


def test_probe_takes_first_backend_that_answers():
    online = OnlineTranslators({"google": fails, "mymemory": lambda *_: "salut", "libre": fails})
    assert probe(online, "auto")["backend"] == "mymemory"


def test_unanswered_probe_falls_back_to_offline_with_reason():
    online = OnlineTranslators({"google": fails, "mymemory": lambda *_: ""})
    answer = probe(online, "auto")
    assert answer["backend"] == "offline"
    assert "google" in answer["reason"] and "mymemory" in answer["reason"]


def test_probe_calls_only_selected_backend(lab):
    with pytest.raises(ToolError) as caught:
        probe(OnlineTranslators({"google": fails, "mymemory": lambda *_: "salut"}), "google")
    assert (caught.value.status, caught.value.code) == (503, "backend_unavailable")
    assert lab.ask("translator", "GET", "/backends/probe?backend=offline").json()["backend"] == "offline"


def test_language_unknown_to_backend_is_400():
    class LanguageNotSupportedException(Exception):
        pass

    def lacks(*_):
        raise LanguageNotSupportedException

    with pytest.raises(ToolError) as caught:
        OnlineTranslators({"google": lacks}).translate("google", "hello", "en", "la", 5)
    assert (caught.value.status, caught.value.code) == (400, "language_unsupported")


@pytest.mark.parametrize("language", ["French", "zh"])
def test_online_libraries_support_language_names(language):
    from deep_translator import GoogleTranslator, LibreTranslator, MyMemoryTranslator

    from flask_tools.inputs import language_code
    from flask_tools.translator import _language

    code = language_code("target_language", language)
    GoogleTranslator(source=_language("google", "en"), target=_language("google", code))
    MyMemoryTranslator(source=_language("mymemory", "en"), target=_language("mymemory", code))
    LibreTranslator(source=_language("libre", "en"), target=_language("libre", code), api_key="none")
