"""CreateDelegationToken: API key 38."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class CreatableRenewers:
    principal_type: string  # The type of the Kafka principal.
    principal_name: string  # The name of the Kafka principal.


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Version 2 is the first flexible version.
    Version 3 adds owner principal
    """

    # The principal type of the owner of the token. If it's null it defaults to the token request principal.
    owner_principal_type: string | None = field("3+", default="")
    # The principal name of the owner of the token. If it's null it defaults to the token request principal.
    owner_principal_name: string | None = field("3+", default="")
    renewers: list[CreatableRenewers]  # A list of those who are allowed to renew this token before it expires.
    max_lifetime_ms: i64  # The maximum lifetime of the token in milliseconds, or -1 to use the server side default.


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    Version 3 adds token requester details
    """

    error_code: i16  # The top-level error, or zero if there was no error.
    principal_type: string  # The principal type of the token owner.
    principal_name: string  # The name of the token owner.
    # The principal type of the requester of the token.
    token_requester_principal_type: string = field("3+", default="")
    # The principal type of the requester of the token.
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp_ms: i64  # When this token was generated.
    expiry_timestamp_ms: i64  # When this token expires.
    max_timestamp_ms: i64  # The maximum lifetime of this token.
    token_id: string  # The token UUID.
    hmac: bytes  # HMAC of the delegation token.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
