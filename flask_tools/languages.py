"""Languages by their ISO 639-1 code and English name."""

from __future__ import annotations

from flask_tools.errors import bad_value

_NAMES = (
    "af Afrikaans, sq Albanian, am Amharic, ar Arabic, hy Armenian, az Azerbaijani, eu Basque, be "
    "Belarusian, bn Bengali, bs Bosnian, bg Bulgarian, my Burmese, ca Catalan, zh Chinese, hr Croatian, "
    "cs Czech, da Danish, nl Dutch, en English, eo Esperanto, et Estonian, fi Finnish, fr French, gl "
    "Galician, ka Georgian, de German, el Greek, gu Gujarati, ht Haitian Creole, ha Hausa, he Hebrew, "
    "hi Hindi, hu Hungarian, is Icelandic, ig Igbo, id Indonesian, ga Irish, it Italian, ja Japanese, "
    "kn Kannada, kk Kazakh, km Khmer, rw Kinyarwanda, ko Korean, ku Kurdish, ky Kyrgyz, lo Lao, la "
    "Latin, lv Latvian, lt Lithuanian, lb Luxembourgish, mk Macedonian, mg Malagasy, ms Malay, ml "
    "Malayalam, mt Maltese, mi Maori, mr Marathi, mn Mongolian, ne Nepali, no Norwegian, ps Pashto, fa "
    "Persian, pl Polish, pt Portuguese, pa Punjabi, ro Romanian, ru Russian, sm Samoan, sr Serbian, sk "
    "Slovak, sl Slovenian, so Somali, es Spanish, sw Swahili, sv Swedish, tl Tagalog, ta Tamil, te "
    "Telugu, th Thai, tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, cy Welsh, xh Xhosa, "
    "yi Yiddish, yo Yoruba, zu Zulu"
)

LANGUAGES: dict[str, str] = {
    code: name for code, _, name in (row.partition(" ") for row in _NAMES.split(", "))
}
_CODES = {name.casefold(): code for code, name in LANGUAGES.items()}


def language_code(field: str, value: str) -> str:
    """The code of a language given as ``fr``, ``FR`` or ``French``; raises ``ToolError``."""
    key = value.strip().casefold()
    code = key if key in LANGUAGES else _CODES.get(key)
    if code is None:
        raise bad_value(
            f"{field!r} must be a language, as a code or in English (fr or French), not {value!a}."
        )
    return code
