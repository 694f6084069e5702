"""Delegation tokens: ``/delegation_token/tokens/<id>``, and notices of their changes, which hold the id alone.

The HMAC of a token is not stored: id and ``delegation.token.secret.key`` give it.
"""

from dataclasses import dataclass
from typing import Any, Final

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import ZnodeFields, encode

CHANGE_PREFIX: Final = "token_change_"
NEWEST_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class TokenContent:
    """The content of a token's znode. Principals are written as ``User:name``, with the name sanitized in the znode."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def path(self) -> str:
        """The path of the znode."""
        return paths.token(self.token_id)

    def encode(self) -> bytes:
        """The content of the znode."""
        fields: dict[str, Any] = {
            "issueTimestamp": self.issue_timestamp_ms,
            "renewers": [paths.sanitize(each) for each in self.renewers],
            "tokenRequester": paths.sanitize(self.requester),
            "tokenId": self.token_id,
            "owner": paths.sanitize(self.owner),
            "expiryTimestamp": self.expiry_timestamp_ms,
            "maxTimestamp": self.max_timestamp_ms,
            "version": NEWEST_VERSION,
        }
        return encode(fields)

    @classmethod
    def decode(cls, token_id: str, content: bytes | None) -> "TokenContent":
        """The token in a znode. Before version 3 the requester is the owner."""
        fields = ZnodeFields.decode(paths.token(token_id), content)
        version = fields.integer("version")
        if version not in range(1, NEWEST_VERSION + 1):
            raise fields.fault(f"its version is {version}")
        owner = paths.desanitize(fields.text("owner"))
        return cls(
            token_id=fields.text("tokenId"),
            owner=owner,
            requester=paths.desanitize(fields.text("tokenRequester")) if version >= 3 else owner,
            renewers=tuple(map(paths.desanitize, fields.texts("renewers"))),
            issue_timestamp_ms=fields.integer("issueTimestamp"),
            expiry_timestamp_ms=fields.integer("expiryTimestamp"),
            max_timestamp_ms=fields.integer("maxTimestamp"),
        )
