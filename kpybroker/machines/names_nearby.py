"""Names that are similar to a name that was not found: ``; did you mean orders?``. Pure."""

from collections.abc import Iterable
from typing import Final

CLOSE: Final = 0.6
MOST_SHOWN: Final = 3


def nearby(names: Iterable[str], word: str, most: int = MOST_SHOWN) -> str:
    """The addition to a message that ``word`` does not exist: a question, or nothing if no name is similar."""
    from difflib import get_close_matches  # only a mistake needs it

    by_lower: dict[str, str] = {}
    for name in names:
        if name != word:
            by_lower.setdefault(name.lower(), name)
    close = [by_lower[each] for each in get_close_matches(word.lower(), list(by_lower), most, CLOSE)]
    return f"; did you mean {' or '.join(close)}?" if close else ""
