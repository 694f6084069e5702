"""DescribeDelegationToken: API key 41."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: string  # The owner principal type.
    principal_name: string  # The owner principal name.


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Version 2 adds flexible version support
    Version 3 adds token requester into the response
    """

    # Each owner that we want to describe delegation tokens for, or null to describe all tokens.
    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribedDelegationTokenRenewer:
    principal_type: string  # The renewer principal type.
    principal_name: string  # The renewer principal name.


@struct
class DescribedDelegationToken:
    principal_type: string  # The token principal type.
    principal_name: string  # The token principal name.
    # The principal type of the requester of the token.
    token_requester_principal_type: string = field("3+", default="")
    # The principal type of the requester of the token.
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp: i64  # The token issue timestamp in milliseconds.
    expiry_timestamp: i64  # The token expiry timestamp in milliseconds.
    max_timestamp: i64  # The token maximum timestamp length in milliseconds.
    token_id: string  # The token ID.
    hmac: bytes  # The token HMAC.
    renewers: list[DescribedDelegationTokenRenewer]  # Those who are able to renew this token before it expires.


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 adds flexible version support
    Version 3 adds token requester details
    """

    error_code: i16  # The error code, or 0 if there was no error.
    tokens: list[DescribedDelegationToken]  # The tokens.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
