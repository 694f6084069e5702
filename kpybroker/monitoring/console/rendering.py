"""Pages from templates. The templates escape everything; Jinja2 is imported with the first page."""

import asyncio
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from kpybroker.machines.console.content import in_one_line, sentence, visible
from kpybroker.machines.console.group_resets import TARGETS
from kpybroker.machines.console.listing import opposite
from kpybroker.machines.console.nodes import host_of
from kpybroker.machines.console.plots import clock_s, drawing, last_of, short_words, ticks_along, ticks_up, value_words
from kpybroker.machines.console.quorum import warning_of
from kpybroker.machines.console.quotas import in_unit
from kpybroker.machines.console.wording import (
    ago,
    counted,
    digits,
    in_bytes,
    in_words,
    milliseconds,
    milliseconds_of,
    percent,
    rate,
    seconds,
    time,
)
from kpybroker.monitoring.console.history import RANGES
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpAnswer, HttpRefused

HTML: Final = "text/html; charset=utf-8"
TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "plots.js": "text/javascript; charset=utf-8",
    "records.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "theme.js": "text/javascript; charset=utf-8",
    "openapi.json": "application/json",
}
"""The files that are sent as they are."""
MENU: Final = (
    ("/", "Cluster"),
    ("/topics", "Topics"),
    ("/records", "Records"),
    ("/groups", "Groups"),
    ("/connections", "Connections"),
    ("/transactions", "Transactions"),
    ("/quorum", "Quorum"),
    ("/balance", "Balance"),
    ("/configs", "Configs"),
    ("/security", "Security"),
    ("/quotas", "Quotas"),
    ("/tiers", "Tiers"),
    ("/mirrors", "Mirrors"),
)


class RefusedForm(NamedTuple):
    """A form that was refused: why, its address, the values that were typed into it, and the address on the console of
    another node where it is taken, if that is known."""

    status: HTTPStatus
    line: str
    path: str
    values: Mapping[str, str]
    elsewhere: str | None = None

    def of(self, path: str, hidden: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Whether it is the form at this address; of several the one with these hidden values."""
        return self.path == path and all(self.values.get(name) == value for name, value in hidden.items())

    def typed(self, path: str, name: str, default: str = "", hidden: Mapping[str, str] = MappingProxyType({})) -> str:
        """The text that was typed into a field of this form; for another form the default."""
        return self.values.get(name, "") if self.of(path, hidden) else default


NOTHING_REFUSED: Final = RefusedForm(HTTPStatus.OK, "", "", {})


def static_file(path: str) -> HttpAnswer:
    """A file of the console. Raises Refused."""
    name = path.removeprefix("/static/")
    kind = TYPES.get(name)
    if kind is None:
        raise HttpRefused(HTTPStatus.NOT_FOUND, "there is no such file")
    content = files("kpybroker.monitoring.console").joinpath("static", name).read_bytes()
    return HttpAnswer(HTTPStatus.OK, [content], kind, {"Cache-Control": "no-cache"})


@cache
def environment() -> Any:
    """The environment of the templates; None where Jinja2 is missing. In a thread when it is first used."""
    try:
        import jinja2
    except ImportError:
        return None
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("kpybroker.monitoring.console"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        ago=ago,
        bytes=in_bytes,
        counted=counted,
        digits=digits,
        host=host_of,
        one_line=in_one_line,
        milliseconds=milliseconds,
        percent=percent,
        query=urlencode,
        quoted=quoted,
        rate=rate,
        seconds=seconds,
        sentence=sentence,
        time=time,
        visible=visible,
    )
    made.globals.update(
        RANGES=RANGES,
        clock_s=clock_s,
        drawing=drawing,
        in_unit=in_unit,
        in_words=in_words,
        last_of=last_of,
        milliseconds_of=milliseconds_of,
        opposite=opposite,
        reset_targets=TARGETS,
        short_words=short_words,
        ticks_along=ticks_along,
        ticks_up=ticks_up,
        value_words=value_words,
        warning_of=warning_of,
    )
    return made


@cache
def template_of(name: str) -> Any:
    """A template, compiled. In a thread when it is first used."""
    return environment().get_template(name)


async def page_of(template: str, path: str, viewer: Viewer, values: dict[str, Any]) -> list[bytes]:
    """A page, rendered in pieces between which the loop serves others. Raises Refused where Jinja2 is missing."""
    if environment() is None:
        line = "the pages need Jinja2: pip install jinja2; /api/ works without it"
        raise HttpRefused(HTTPStatus.NOT_IMPLEMENTED, line)
    compiled = await asyncio.to_thread(template_of, template)
    pieces = compiled.generate(values, path=path, viewer=viewer)
    return ["".join([piece async for piece in paced(pieces)]).encode("utf-8", "backslashreplace")]


def quoted(text: str) -> str:
    """A text as part of an address."""
    return quote(text, safe="")
