"""A user of the commands that logs in by OAUTHBEARER: its properties, and the token, which is fetched when needed.

The properties are those of Java's clients; librdkafka's names for the same are accepted, too. Fetching blocks.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kpybroker.client.bad_property import BadProperty
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.exchange import ClientExchange
from kpybroker.machines.sasl.oauthbearer import NAME, OAuthBearerClient
from kpybroker.security.oauth.token_login import TokenLogin, read_token_login
from kpywire.error_codes import SASL_AUTHENTICATION_FAILED

if TYPE_CHECKING:
    from kpybroker.security.oauth.access_tokens import KeptToken

METHOD: Final = "sasl.oauthbearer.method"
_UNSIGNED: Final = 'sasl.jaas.config=...OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me";'


class NoToken(KafkaError):
    """There is no token to log in with. The message is one line without a secret."""


class TokenUser:
    """The source of one user's tokens."""

    mechanism: Final = NAME
    may_block: Final = True
    to_check: Final = "the reason in the log of the broker"

    def __init__(self, source: TokenLogin) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"TokenUser({self.source!r})"

    @property
    def identity(self) -> str:
        """The user, for messages."""
        source = self.source
        if source.client is not None:
            return f"client {source.client.identity!r}"
        return "the token that was made here" if source.endpoint is None else f"the token in {source.endpoint.target}"

    @cached_property
    def _token(self) -> "KeptToken":
        from kpybroker.security.oauth.access_tokens import KeptToken

        return KeptToken(self.source)

    def exchange(self, _nonce: str, _host: str) -> ClientExchange:
        """The client's half of one login. Fetches a token if there is none, or if it is about to expire. Blocks. Raises
        NoToken."""
        from kpybroker.security.oauth.fetching import FetchFailed

        try:
            token = self._token.get()
        except FetchFailed as error:
            raise NoToken(SASL_AUTHENTICATION_FAILED, f"no token to log in with: {error}") from None
        return OAuthBearerClient(token.text, dict(self.source.extensions))


def token_user(configured: Mapping[str, str], options: Mapping[str, str]) -> TokenUser:
    """The user that properties describe. Raises BadProperty."""
    method = configured.get(METHOD, "").lower()
    if method not in ("", "default", "oidc"):
        raise BadProperty(f"{METHOD}={method}: use oidc, or leave it out")
    try:
        return TokenUser(read_token_login(configured.get, options, None))
    except ValueError as error:
        hint = (
            ""
            if configured.keys() & {"sasl.oauthbearer.token.endpoint.url"} or options
            else f"; or, for tests, {_UNSIGNED}"
        )
        raise BadProperty(f"{error}{hint}") from None
