"""The offline phrasebook: everyday phrases in five languages."""

from __future__ import annotations

import json
import re
from pathlib import Path

from flask_tools.errors import ToolError
from flask_tools.languages import LANGUAGES


class Phrasebook:
    """Looks phrases up whole, in any case and without regard to punctuation."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.languages = tuple(rows[0])
        self._rows: dict[str, dict[str, dict[str, str]]] = {code: {} for code in self.languages}
        for row in rows:
            for code, phrase in row.items():
                # of two rows with the same phrase the first one counts: French `bonjour` is `hello`
                self._rows[code].setdefault(_normalised(phrase), row)

    def translate(self, text: str, source: str, target: str) -> str:
        """The phrase in the target language, given codes.

        Raises ``ToolError``: 400 for a language that is not in the book, 404 for a phrase that is not.
        """
        for code in (source, target):
            if code not in self.languages:
                known = ", ".join(LANGUAGES[known] for known in self.languages)
                message = f"The offline phrasebook has no {LANGUAGES[code]}; it has {known}."
                raise ToolError(400, "language_unsupported", message)
        row = self._rows[source].get(_normalised(text))
        if row is None:
            message = f"The offline phrasebook has no {LANGUAGES[source]} phrase {text!r}."
            raise ToolError(404, "phrase_unknown", message)
        return row[target]


def load_phrasebook() -> Phrasebook:
    """The phrases that come with the lab."""
    return Phrasebook(json.loads(Path(__file__).with_name("phrasebook.json").read_text(encoding="utf-8")))


def _normalised(text: str) -> str:
    """The words of a phrase in lower case; apostrophes and hyphens belong to words."""
    return " ".join(re.findall(r"[\w'-]+", text.casefold().replace("’", "'"))).strip("'- ")
