"""The URLs of keys and tokens: which ones are accepted at all (CVE-2025-27817). Pure.

``https``, or ``http`` to this machine, or a ``file``. A broker also demands that its owner lists each of them in
``kpybroker.oauthbearer.allowed.urls``, as Kafka does in a system property.
"""

import re
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

ALLOWED_URLS: Final = "kpybroker.oauthbearer.allowed.urls"
_PORTS: Final = {"https": 443, "http": 80}
_UNUSABLE: Final = re.compile(r"[\x00-\x20\x7f]")


class BadUrl(ValueError):
    """A URL that is not accepted. The message is one line."""


class OAuthEndpoint(NamedTuple):
    """A place from which keys or tokens are fetched."""

    url: str
    scheme: str
    host: str
    port: int
    target: str
    """The path with the query; of a file its path."""

    @property
    def is_file(self) -> bool:
        return self.scheme == "file"


def parse_endpoint(name: str, url: str) -> OAuthEndpoint:
    """The endpoint in a config. Raises BadUrl with a line that names the config."""
    url = url.strip()
    if _UNUSABLE.search(url):
        raise BadUrl(f"{name}: the URL holds white space or control characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadUrl(f"{name}={url}: this is not a URL") from None
    if parts.username is not None or parts.fragment:
        raise BadUrl(f"{name}: the URL must hold neither a user nor a fragment")
    if parts.scheme == "file":
        if host not in ("", "localhost") or not parts.path.startswith("/"):
            raise BadUrl(f"{name}={url}: a file is written as file:///path")
        return OAuthEndpoint(url, "file", "", 0, parts.path)
    if parts.scheme not in _PORTS or not host:
        raise BadUrl(f"{name}={url}: only https, http and file URLs are possible")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadUrl(f"{name}={url}: http is possible to this machine only (127.0.0.1, localhost); use https")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return OAuthEndpoint(url, parts.scheme, host, port or _PORTS[parts.scheme], target)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_allowed(name: str, endpoint: OAuthEndpoint, allowed: tuple[str, ...]) -> None:
    """Raise BadUrl for an endpoint whose URL is not in the list of `ALLOWED_URLS`."""
    if endpoint.url not in allowed:
        raise BadUrl(f"{name}={endpoint.url} is not allowed yet; add this URL to {ALLOWED_URLS}")
