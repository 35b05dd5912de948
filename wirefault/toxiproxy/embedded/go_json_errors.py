"""What is wrong with broken JSON, in the words of the real server, which is written in Go."""

from __future__ import annotations

_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _Broken(Exception):
    """The scan ends here; the text says what is wrong."""


def go_json_error(data: bytes) -> str | None:
    """Go's error for the first JSON value of the data; None if it is sound. Raises nothing."""
    if not data.strip(_SPACE):
        return "EOF"
    try:
        _Scanner(data).value()
    except _Broken as broken:
        return str(broken)
    return None


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> None:
        """Passes over one value.

        The objects and arrays that are open are kept in a list, not in recursion: nesting may be deep.
        """
        opened: list[bytes] = []
        while True:
            first = self._next_after_space()
            if first in b"{[":
                self._at += 1
                closing = b"}" if first == ord("{") else b"]"
                opened.append(closing)
                if self._next_after_space() != closing[0]:
                    self._key(closing)
                    continue
            else:
                self._scalar(first)
            if not self._after_value(opened):
                return

    def _after_value(self, opened: list[bytes]) -> bool:
        """Passes over the brackets that close after a value; whether another value must follow."""
        while opened:
            closing = opened[-1]
            byte = self._next_after_space()
            if byte == ord(","):
                self._at += 1
                self._key(closing)
                return True
            if byte != closing[0]:
                raise self._invalid(
                    "after array element" if closing == b"]" else "after object key:value pair"
                )
            self._at += 1
            opened.pop()
        return False

    def _key(self, closing: bytes) -> None:
        if closing == b"]":
            return
        if self._next_after_space() != ord('"'):
            raise self._invalid("looking for beginning of object key string")
        self._string()
        if self._next_after_space() != ord(":"):
            raise self._invalid("after object key")
        self._at += 1

    def _scalar(self, first: int) -> None:
        if first == ord('"'):
            self._string()
        elif first in _LITERALS:
            self._literal(_LITERALS[first])
        elif first in b"-0123456789":
            self._number()
        else:
            raise self._invalid("looking for beginning of value")

    def _string(self) -> None:
        self._at += 1
        while (byte := self._next()) != ord('"'):
            if byte < 0x20:
                raise self._invalid("in string literal")
            self._at += 1
            if byte == ord("\\"):
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        kind = self._next()
        if kind not in b'bfnrt\\/"u':
            raise self._invalid("in string escape code")
        self._at += 1
        for _ in range(4 if kind == ord("u") else 0):
            self._need(b"0123456789abcdefABCDEF", "in \\u hexadecimal character escape")

    def _literal(self, word: bytes) -> None:
        for position, letter in enumerate(word):
            where = f"in literal {word.decode()} (expecting {chr(letter)!r})"
            self._need(word[position : position + 1], where)

    def _number(self) -> None:
        if self._next() == ord("-"):
            self._at += 1
        first = self._next()
        self._need(_DIGITS, "in numeric literal")
        if first != ord("0"):
            self._digits()
        if self._peek() == ord("."):
            self._at += 1
            self._need(_DIGITS, "after decimal point in numeric literal")
            self._digits()
        if self._peek() in (ord("e"), ord("E")):
            self._at += 1
            if self._next() in b"+-":
                self._at += 1
            self._need(_DIGITS, "in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while (byte := self._peek()) is not None and byte in _DIGITS:
            self._at += 1

    def _need(self, allowed: bytes, where: str) -> None:
        if self._next() not in allowed:
            raise self._invalid(where)
        self._at += 1

    def _peek(self) -> int | None:
        return self._data[self._at] if self._at < len(self._data) else None

    def _next(self) -> int:
        byte = self._peek()
        if byte is None:
            raise _Broken("unexpected EOF")
        return byte

    def _next_after_space(self) -> int:
        while (byte := self._next()) in _SPACE:
            self._at += 1
        return byte

    def _invalid(self, where: str) -> _Broken:
        return _Broken(f"invalid character {_quoted(self._next())} {where}")


_ESCAPES = dict(zip("\a\b\f\n\r\t\v\\'", (rf"\{letter}" for letter in "abfnrtv\\'"), strict=True))


def _quoted(byte: int) -> str:
    """The character of that number, quoted as Go does."""
    char = chr(byte)
    if char.isprintable() or char in _ESCAPES:
        return f"'{_ESCAPES.get(char, char)}'"
    return rf"'\x{byte:02x}'" if byte < 0x80 else rf"'\u{byte:04x}'"
