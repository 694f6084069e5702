"""The search of everything: names of several kinds that contain a text, the closest first. Pure."""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

MOST_HITS: Final = 20
"""The most names of one kind that are listed; the others are counted."""
_EXACT: Final = 1
"""The distance of a name that is the text, but for capitals."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A name that was found, the address of its page, and a word about it."""

    name: str
    see: str
    about: str


@dataclass(frozen=True, slots=True)
class Hits:
    """The names of one kind: the closest ones, and the address of the list that has all of them."""

    kind: str
    total: int
    hits: tuple[Hit, ...]
    see: str


@dataclass(frozen=True, slots=True)
class FindPage:
    """Everything that the viewer may see and that has a text in its name. A kind with the exact name comes first."""

    search: str
    kinds: tuple[Hits, ...]
    missing: tuple[str, ...]
    """Why something was not searched."""


def is_hit(name: str, search: str) -> bool:
    """Whether a name contains the text, whatever the capitals."""
    return search.lower() in name.lower()


class Closest:
    """The closest names of one kind; names that were found are added one by one."""

    def __init__(self, kind: str, see: str, search: str) -> None:
        self._kind, self._see, self._search = kind, see, search
        self._best: list[tuple[int, str, Hit]] = []
        self._total = 0

    def add(self, hit: Hit) -> None:
        """Take a name that contains the text."""
        self._total += 1
        insort(self._best, (_distance(hit.name, self._search), hit.name, hit), key=itemgetter(0, 1))
        del self._best[MOST_HITS:]

    def hits(self) -> Hits:
        """The hits so far."""
        return Hits(self._kind, self._total, tuple(hit for _, _, hit in self._best), self._see)


def find_page(search: str, kinds: Iterable[Hits], missing: Iterable[str]) -> FindPage:
    """The page of what was found."""
    found = [each for each in kinds if each.total]
    found.sort(key=lambda each: _distance(each.hits[0].name, search) > _EXACT)
    return FindPage(search, tuple(found), tuple(missing))


def _distance(name: str, search: str) -> int:
    if name == search:
        return 0
    lower, wanted = name.lower(), search.lower()
    return _EXACT if lower == wanted else 2 if lower.startswith(wanted) else 3
