"""A page of the console, a change that a form of it sends, and their addresses. Pure."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer

View = Callable[[NodeParts, Viewer, Query], Awaitable[Any]]
Change = Callable[[NodeParts, Viewer, Query], Awaitable[str]]


class Parameter(NamedTuple):
    """A value in the query of a page, or in the body of a change."""

    name: str
    about: str
    kind: str = "string"
    is_needed: bool = False


class Download(NamedTuple):
    """Bytes that a browser keeps as a file."""

    data: bytes
    name: str


class ConsolePage(NamedTuple):
    """A page: its path with parameters in braces, its template, and the view with the type of its value."""

    path: str
    template: str
    title: str
    view: View
    value: type
    parameters: tuple[Parameter, ...] = ()
    every_s: int = 0
    """The time after which the page fetches itself again; 0 for never."""
    is_of_controllers: bool = False
    """Whether a node that is only a controller has it, too."""

    @property
    def api_path(self) -> str:
        """The path of its JSON."""
        return "/api/cluster" if self.path == "/" else f"/api{self.path}"


class Action(NamedTuple):
    """A change, by POST. It returns the address of the page that shows its result."""

    path: str
    title: str
    change: Change
    parameters: tuple[Parameter, ...]
    is_change: bool = True
    """Whether something of the cluster changes, so that writing has to be enabled."""
    shown_on: str = ""
    """The path of the page that has the form. A refusal is shown there, beside what was typed."""
    kept: tuple[str, ...] = ()
    """The values of the form that this page takes, in addition to those in its path."""


PARTITION: Final = Parameter("partition", "The number of the partition; all without it", "integer")


def match(pattern: str, path: str) -> dict[str, str] | None:
    """The parameters in a path; None if it has another form. Parts of a path are never empty."""
    wanted, given = pattern.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found = {}
    for part, text in zip(wanted, given, strict=True):
        if part.startswith("{"):
            if not text:
                return None
            found[part[1:-1]] = text
        elif part != text:
            return None
    return found
