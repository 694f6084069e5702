"""DelegationTokenRecord: type 10 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i64, message, string


@message(key=10, versions="0", flexible="0+")
class DelegationTokenRecord:
    owner: string  # The delegation token owner.
    requester: string  # The delegation token requester.
    renewers: list[string]  # The principals which can renew this token.
    issue_timestamp: i64  # The time at which this timestamp was issued.
    max_timestamp: i64  # The time at which this token cannot be renewed any more.
    expiration_timestamp: i64  # The next time at which this token must be renewed.
    token_id: string  # The token id.
