"""Tables of words, kept readable."""


def wordlist(text: str) -> list[str]:
    """The words of a text in order, split at blanks."""
    return text.split()
