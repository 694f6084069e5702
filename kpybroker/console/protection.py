"""The checks of a request before the console looks at it: its site and its token. Pure. Its host is checked for the
whole second port (`kpybroker.http.names`).

- A page of another site may send requests here. Browsers say so in ``Sec-Fetch-Site`` and ``Origin``.
- A form that changes something also needs a token that only the console's own pages contain. JSON needs none: browsers
  send it to other sites only after asking, and nobody answers that question here.
"""

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from kpybroker.http.request import Refused

FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every answer of the console."""
SAFE: Final = frozenset({"GET"})


def check_site(method: str, headers: Mapping[str, str]) -> None:
    """Raise Refused for a request of another site's page. Following a link of another site is no such request."""
    site = headers.get("sec-fetch-site", "none")
    is_link = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not is_link:
        raise Refused(HTTPStatus.FORBIDDEN, f"a page of another site sent this request ({site})")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Refused(HTTPStatus.FORBIDDEN, f"a page of {origin[:100]!r} sent this request")


def token_of(secret: bytes, name: str) -> str:
    """The token in the forms of a user."""
    return hmac.digest(secret, name.encode(), "sha256").hex()


def check_token(given: str, expected: str) -> None:
    """Raise Refused unless a form came from a page of the console."""
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise Refused(HTTPStatus.FORBIDDEN, "this form is old, since the node was started again; load its page again")
