"""The client's half of SCRAM."""

import hmac

from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.scram import ClientFinal, ClientFirst, ScramMechanism


class ScramClient:
    """Proves that it knows a password, and demands the same of the server."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        """``nonce`` is random and used once. ``by_token``: user and password are a delegation token's id and HMAC."""
        self._mechanism = mechanism
        self._password = password
        extensions = ((scram.TOKEN_AUTH, "true"),) if by_token else ()
        self._first = ClientFirst(user, nonce, extensions=extensions)
        self._signature: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return self._first.encode()

    def respond(self, challenge: bytes) -> bytes | None:
        try:
            if self._signature is None:
                return self._prove(challenge)
            final = scram.decode_server_final(challenge)
        except scram.MalformedScram as why:
            raise AuthenticationFailed(f"the server sent {why}") from None
        if final.error:
            raise AuthenticationFailed(f"the server refuses the login: {final.error[:200]}")
        if not hmac.compare_digest(final.signature, self._signature):
            raise AuthenticationFailed("the server does not know the password either")
        self.is_complete = True
        return None

    def _prove(self, challenge: bytes) -> bytes:
        server = scram.decode_server_first(challenge)
        if not server.nonce.startswith(self._first.nonce) or len(server.nonce) == len(self._first.nonce):
            raise AuthenticationFailed("the server's nonce does not continue this client's")
        if not scram.MIN_ITERATIONS <= server.iterations <= 1_000_000:
            raise AuthenticationFailed(f"the server asks for {server.iterations} iterations")
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, server.salt, server.iterations)
        credential = mechanism.credential(salted, server.salt, server.iterations)
        final = ClientFinal.made(self._first.header, server.nonce)
        text = scram.auth_message(self._first, challenge, final)
        client_key = mechanism.hmac(salted, b"Client Key")
        proof = scram.xor(client_key, mechanism.hmac(credential.stored_key, text))
        self._signature = mechanism.hmac(credential.server_key, text)
        return final._replace(proof=proof).encode()
