"""The proofs that a client shows at a token endpoint: its secret (RFC 6749, section 4.4), or an assertion (RFC 7523).

Pure.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode

from kpybroker.security.oauth.assertions import Assertion

_JAVA_UNQUOTED: Final = "*"
_CREDENTIALS: Final = "client_credentials"
_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FORM: Final = {"Cache-Control": "no-cache", "Content-Type": "application/x-www-form-urlencoded"}


class ClientCredentials(NamedTuple):
    """The account of a client at the identity provider."""

    client_id: str
    client_secret: str
    scope: str = ""
    urlencode: bool = False
    """``sasl.oauthbearer.header.urlencode``: whether id and secret are encoded as RFC 6749 demands."""

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client_id!r}, [hidden], {self.scope!r})"

    @property
    def identity(self) -> str:
        """The client, for messages."""
        return self.client_id

    def headers(self) -> dict[str, str]:
        """The headers of a request for a token."""
        words = [self.client_id, self.client_secret]
        if self.urlencode:
            words = [quote_plus(word, safe=_JAVA_UNQUOTED) for word in words]
        return {
            "Authorization": f"Basic {b64encode(':'.join(words).encode()).decode()}",
            **_FORM,
        }

    def body(self) -> bytes:
        """The body of a request for a token."""
        return _encoded({"grant_type": _CREDENTIALS, "scope": self.scope})


class AssertionGrant(NamedTuple):
    """An assertion in place of a secret. It is the grant itself (``jwt-bearer``), or it proves who asks with the grant
    ``client_credentials``."""

    assertion: Assertion
    scope: str = ""
    is_bearer: bool = True
    client_id: str = ""

    @property
    def identity(self) -> str:
        """The client, for messages."""
        return self.client_id or self.assertion.identity

    def headers(self) -> dict[str, str]:
        """The headers of a request for a token."""
        return dict(_FORM)

    def body(self, assertion: str) -> bytes:
        """The body of a request for a token, with an assertion."""
        if self.is_bearer:
            return _encoded({"grant_type": _BEARER, "assertion": assertion, "scope": self.scope})
        form = {
            "client_assertion_type": _ASSERTION_TYPE,
            "client_assertion": assertion,
            "grant_type": _CREDENTIALS,
            "client_id": self.client_id,
            "scope": self.scope,
        }
        return _encoded(form)


def _encoded(form: Mapping[str, str]) -> bytes:
    """A form, without the fields that are empty."""
    return urlencode({name: value for name, value in form.items() if value}, safe=_JAVA_UNQUOTED).encode()
