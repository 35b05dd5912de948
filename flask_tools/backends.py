"""The online translators, each call in a thread of its own with a deadline.

``deep_translator`` sets no timeouts, so a call that hangs is left behind; the number of calls under way
is bounded, so that they cannot pile up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from flask_tools.errors import ToolError
from flask_tools.languages import LANGUAGES

MAX_UNDER_WAY = 8
# the library insists on a key, which a LibreTranslate server of the user's own does not need
_NO_KEY = "none"

Online = Callable[[str, str, str], str]
"""Text, source code and target code to the translated text; may raise anything."""


def online_backends(environ: Mapping[str, str]) -> dict[str, Online]:
    """The online translators that can be asked, in order of preference: ``libre`` needs ``LIBRE_URL``."""
    backends = {
        "google": _online("google", "GoogleTranslator"),
        "mymemory": _online("mymemory", "MyMemoryTranslator"),
    }
    if environ.get("LIBRE_URL"):
        url = environ["LIBRE_URL"].rstrip("/") + "/"
        backends["libre"] = _online("libre", "LibreTranslator", api_key=_NO_KEY, custom_url=url)
    return backends


class Deadlines:
    """Runs calls of online translators within a deadline."""

    def __init__(self, backends: Mapping[str, Online]) -> None:
        self.backends = backends
        self._slots = threading.BoundedSemaphore(MAX_UNDER_WAY)

    def translate(self, backend: str, text: str, source: str, target: str, deadline_s: float) -> str:
        """The translation; raises ``ToolError`` 503 ``backend_unavailable`` for whatever goes wrong.

        A language that the backend does not know is 400 ``language_unsupported``.
        """
        online = self.backends.get(backend)
        if online is None:
            raise _unavailable(backend, "LIBRE_URL is not set")
        if not self._slots.acquire(blocking=False):
            raise _unavailable(backend, f"{MAX_UNDER_WAY} calls are under way and none has ended")
        answers: SimpleQueue[str | Exception] = SimpleQueue()

        def work() -> None:
            try:
                answers.put(online(text, source, target))
            except Exception as error:  # noqa: BLE001  a third party's network client: it may raise anything
                answers.put(error)
            finally:
                self._slots.release()

        threading.Thread(target=work, name=f"translate-{backend}", daemon=True).start()
        try:
            answer = answers.get(timeout=deadline_s)
        except Empty:
            raise _unavailable(backend, f"it did not answer within {deadline_s:g} s") from None
        return _checked(backend, answer)


def _checked(backend: str, answer: Any) -> str:
    if isinstance(answer, str) and answer.strip():
        return answer
    if not isinstance(answer, Exception):
        raise _unavailable(backend, "it answered without a translation")
    # compared by name: importing the library takes a third of a second, which offline users shall not wait
    if type(answer).__name__ == "LanguageNotSupportedException":
        message = f"The translator {backend} does not know one of the two languages."
        raise ToolError(400, "language_unsupported", message)
    raise _unavailable(backend, f"it failed with {type(answer).__name__}")


def _unavailable(backend: str, reason: str) -> ToolError:
    return ToolError(503, "backend_unavailable", f"The translator {backend} is not available: {reason}.")


def _language(backend: str, code: str) -> str:
    """A language as deep_translator names it for that backend."""
    if backend == "libre":
        return code
    return "zh-CN" if code == "zh" else LANGUAGES[code].lower()


def _online(backend: str, translator: str, **options: str) -> Online:
    """The translator of that class of ``deep_translator``, which is imported by the first call."""

    def translate(text: str, source: str, target: str) -> str:
        import deep_translator

        languages = {"source": _language(backend, source), "target": _language(backend, target)}
        return getattr(deep_translator, translator)(**languages, **options).translate(text)  # type: ignore[no-any-return]

    return translate
