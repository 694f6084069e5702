"""The names of a node as browsers know it. Pure.

A page of another site may point a name of its own at this machine (DNS rebinding), and is then of the same site as the
second port. So the host that a request names has to be an address, ``localhost``, or a name that is this node's own.
"""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final

from kpybroker.runtime.calls.address import is_address
from kpybroker.runtime.http.request import HttpRefused

_SHOWN_CHARS: Final = 100


def check_host(headers: Mapping[str, str], own: Collection[str]) -> None:
    """Raise Refused unless the host of a request is this node's for sure. ``own`` are its names in lower case.

    A request of HTTP/1.0 may name none; a browser always does."""
    if "host" not in headers:
        return
    host = host_in(headers["host"])
    if not (is_address(host) or host == "localhost" or host in own):
        line = f"this node is not known as {host[:_SHOWN_CHARS]!r}; kpybroker.http.hosts names further hosts"
        raise HttpRefused(HTTPStatus.MISDIRECTED_REQUEST, line)


def host_in(text: str) -> str:
    """The host of ``host:port``, in lower case, without brackets and without the dot of the root."""
    host = text.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return (host.rpartition(":")[0] if host.count(":") == 1 else host).removesuffix(".")
