"""Delegation tokens by their HMAC, which requests name in place of the id."""

import hmac

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord


class TokenIndex:
    """Made when the first token is searched, and kept up to date from then on."""

    def __init__(self, secret: TokenSecret, image: MetadataImage) -> None:
        self._secret = secret
        self._image = image
        self._ids: dict[bytes, str] | None = None

    def find(self, token_hmac: bytes) -> DelegationTokenRecord | None:
        """The token with this HMAC."""
        if self._ids is None:
            self._ids = {self._secret.hmac_of(token_id): token_id for token_id in self._image.delegation_tokens}
        token_id = self._ids.get(token_hmac)
        if token_id is None or not hmac.compare_digest(self._secret.hmac_of(token_id), token_hmac):
            return None
        return self._image.delegation_tokens.get(token_id)

    def changed(self, token_id: str) -> None:
        """A token was created, changed or removed."""
        if self._ids is None:
            return
        token_hmac = self._secret.hmac_of(token_id)
        if token_id in self._image.delegation_tokens:
            self._ids[token_hmac] = token_id
        else:
            self._ids.pop(token_hmac, None)
