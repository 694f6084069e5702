"""The checks of a request before the console looks at it: its site and its token. Pure. Its host is checked for the
whole second port (`kpybroker.runtime.http.names`).

- A page of another site may send requests here. Browsers say so in ``Sec-Fetch-Site``. Older ones, and all where the
  address is neither https nor loopback, send ``Origin`` alone.
- A form that changes something also needs a token that only the console's own pages contain. JSON needs none: browsers
  send it to other sites only after asking, and nobody answers that question here.
"""

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from kpybroker.runtime.http.request import HttpRefused

FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers hide the Origin of the console's own forms: "null"
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every answer of the console."""
SAFE: Final = frozenset({"GET"})


def check_site(method: str, headers: Mapping[str, str]) -> None:
    """Raise Refused for a request of another site's page. Following a link of another site is no such request.

    ``Sec-Fetch-Site`` decides where it is sent: the browser compares the page with the address that it asked, whatever
    a proxy between them makes of Host. Otherwise Origin has to be the host that was asked.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        is_link = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not is_link:
            raise HttpRefused(HTTPStatus.FORBIDDEN, f"a page of another site sent this request ({site[:100]})")
        return
    origin = headers.get("origin")
    if origin is not None and not _is_at(origin, headers.get("host", "")):
        raise HttpRefused(HTTPStatus.FORBIDDEN, f"a page of {origin[:100]!r} sent this request")


def _is_at(origin: str, host: str) -> bool:
    """Whether an Origin is that of the host that was asked. Browsers leave out the usual port; proxies may add it."""
    scheme, separator, authority = origin.strip().lower().partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme)
    asked = host.strip().lower()
    return bool(separator and usual and authority and asked.removesuffix(usual) == authority.removesuffix(usual))


def token_of(secret: bytes, name: str) -> str:
    """The token in the forms of a user."""
    return hmac.digest(secret, name.encode(), "sha256").hex()


def check_token(given: str, expected: str) -> None:
    """Raise Refused unless a form came from a page of the console."""
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise HttpRefused(
            HTTPStatus.FORBIDDEN, "this form is old, since the node was started again; load its page again"
        )
