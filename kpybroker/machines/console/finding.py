"""The search of everything: names of several kinds that contain a text, the closest first. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
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


def hits_of(kind: str, found: Iterable[Hit], see: str, search: str) -> Hits:
    """The hits of one kind."""
    listed = list(found)
    closest = nsmallest(MOST_HITS, listed, key=lambda hit: (_distance(hit.name, search), hit.name))
    return Hits(kind, len(listed), tuple(closest), see)


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
