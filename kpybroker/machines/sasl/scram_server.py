"""The server's half of SCRAM (``ScramSaslServer``)."""

import hmac
from collections.abc import Callable

from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import AuthenticationFailed, InvalidCredentials
from kpybroker.machines.sasl.scram import ClientFirst, ScramCredential, ScramMechanism, ServerFinal, ServerFirst


class ScramLogin:
    """The owner of a credential, as found by the name that a client gave."""

    __slots__ = ("authorization_id", "credential", "expires_ms", "token_authenticated")

    def __init__(
        self,
        credential: ScramCredential,
        authorization_id: str,
        *,
        token_authenticated: bool = False,
        expires_ms: int | None = None,
    ) -> None:
        self.credential = credential
        self.authorization_id = authorization_id
        self.token_authenticated = token_authenticated
        self.expires_ms = expires_ms


Find = Callable[[str, bool], ScramLogin | None]
"""(name, whether it is the id of a delegation token) -> the login, or None if nobody has this name."""
MakeUp = Callable[[str, bool], ScramCredential]
"""(name, whether it is the id of a delegation token) -> a credential for the challenge if nobody has this name."""


class ScramServer:
    """Checks that the client knows a password, and proves to know its keys. Users that do not exist get a challenge
    like all others, so that nobody can find out who does."""

    def __init__(self, mechanism: ScramMechanism, find: Find, nonce: str, make_up: MakeUp) -> None:
        """``nonce`` is random and used once."""
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._make_up = make_up
        self._first: ClientFirst | None = None
        self._server_first = b""
        self._login: ScramLogin | None = None
        self._trouble = ""
        self.is_complete = False
        self.authorization_id = ""
        self.token_authenticated = False
        self.expires_ms: int | None = None

    def respond(self, message: bytes) -> bytes:
        try:
            return self._challenge(message) if self._first is None else self._finish(self._first, message)
        except scram.MalformedScram as why:
            raise self._failed(str(why)) from None

    def _failed(self, reason: str) -> InvalidCredentials:
        prefix = "" if self._first is None else f"user {self._first.user[:64]!r}: "
        return InvalidCredentials(self._mechanism.name, prefix + reason)

    def _challenge(self, message: bytes) -> bytes:
        first = self._first = scram.decode_client_first(message)
        if first.authorization_id and first.authorization_id != first.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username",
                f"user {first.user[:64]!r} asked to be {first.authorization_id[:64]!r}",
            )
        by_token = (scram.TOKEN_AUTH, "true") in [(name, value.lower()) for name, value in first.extensions]
        made_up = self._make_up(first.user, by_token)  # for users that exist too: it takes time
        login = self._find(first.user, by_token)
        if login is None:
            kind = "delegation token" if by_token else f"{self._mechanism.name} credential"
            self._trouble = f"no such {kind}"
            credential = made_up
            login = ScramLogin(credential, "")
        else:
            credential = login.credential
            if credential.iterations < scram.MIN_ITERATIONS:
                self._trouble = f"the credential has only {credential.iterations} iterations"
        self._login = login
        self._server_first = ServerFirst(first.nonce + self._nonce, credential.salt, credential.iterations).encode()
        return self._server_first

    def _finish(self, first: ClientFirst, message: bytes) -> bytes:
        final = scram.decode_client_final(message)
        login = self._login
        assert login is not None
        if not hmac.compare_digest(final.nonce.encode(), (first.nonce + self._nonce).encode()):
            raise self._failed("the nonce is not the one that it got")
        if final.binding != first.header.encode():
            raise self._failed("the channel binding is not the one of its first message")
        mechanism, credential = self._mechanism, login.credential
        text = scram.auth_message(first, self._server_first, final)
        signature = mechanism.hmac(credential.stored_key, text)
        if len(final.proof) != len(signature):
            raise self._failed("the proof has a wrong length")
        stored_key = mechanism.hash(scram.xor(final.proof, signature))
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise self._failed(self._trouble or "wrong password")
        if self._trouble:
            raise self._failed(self._trouble)
        self.authorization_id = login.authorization_id
        self.token_authenticated = login.token_authenticated
        self.expires_ms = login.expires_ms
        self.is_complete = True
        return ServerFinal(mechanism.hmac(credential.server_key, text)).encode()
