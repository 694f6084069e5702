"""Values of pages that are made of their types: every number is the same, and every list has as many items.

So a page is rendered with 0, 1 or 2 of everything that it can show, whatever it shows.
"""

import dataclasses
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

import jinja2

from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.rendering import MENU, NOTHING_REFUSED, environment
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.calls.principal import ANONYMOUS

WORDS = ("good", "share", "streams", "running")
"""The texts of the values that choose between parts of pages; each is tried."""


def made(kind: Any, count: int, word: str) -> Any:
    """A value of a type."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{each.name: made(hints[each.name], count, word) for each in dataclasses.fields(kind)})  # type: ignore[operator]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return made(arguments[0], count, word)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(made(arguments[0], count, word) for _ in range(count))
    if origin is tuple:
        return tuple(made(each, count, word) for each in arguments)
    if origin is dict:
        return {word: made(arguments[1], count, word)} if count else {}
    if kind is bool:
        return True
    return {int: count, float: float(count), str: word}[kind]


def rendered(page: ConsolePage, count: int, word: str) -> str:
    """A page with as many of everything, as HTML."""
    lenient = environment().overlay(undefined=jinja2.ChainableUndefined)
    values = {
        "menu": MENU,
        "page": page,
        "path": page.path,
        "query": Query({}),
        "refused": NOTHING_REFUSED,
        "title": page.title,
        "token": "token",
        "value": made(page.value, count, word),
        "viewer": Viewer(ANONYMOUS, "127.0.0.1", None),
        "writable": True,
    }
    return str(lenient.get_template(page.template).render(values))
