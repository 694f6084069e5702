"""DescribeUserScramCredentials: API key 50."""

from __future__ import annotations

from kpywire.schema import i8, i16, i32, message, string, struct


@struct
class UserName:
    name: string  # The user name.


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None  # The users to describe, or null/empty to describe all users.


@struct
class CredentialInfo:
    mechanism: i8  # The SCRAM mechanism.
    iterations: i32  # The number of iterations used in the SCRAM credential.


@struct
class DescribeUserScramCredentialsResult:
    user: string  # The user name.
    error_code: i16  # The user-level error code.
    error_message: string | None  # The user-level error message, if any.
    # The mechanism and related information associated with the user's SCRAM credentials.
    credential_infos: list[CredentialInfo]


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The message-level error code, 0 except for user authorization or infrastructure issues.
    error_message: string | None  # The message-level error message, if any.
    results: list[DescribeUserScramCredentialsResult]  # The results for descriptions, one per user.
