"""DescribeUserScramCredentials (50), version 0: the users with SCRAM credentials, and their mechanisms (KIP-554).

- Null or no users means all. A user without credentials is RESOURCE_NOT_FOUND, one named twice DUPLICATE_RESOURCE.
- Keys and salts are never part of an answer.
"""

from collections import Counter
from collections.abc import Generator

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import each
from kpywire import error_codes
from kpywire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    broker: Context, request: DescribeUserScramCredentialsRequest, _call: Call
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    """Answer from the committed metadata."""
    credentials: dict[str, list[CredentialInfo]] = {}
    for (mechanism, name), record in sorted(broker.image.scram_credentials.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=record.iterations)
        credentials.setdefault(name, []).append(info)
    asked = Counter(user.name for user in request.users or ())
    if not asked:
        asked = Counter(list(credentials))
    results = yield from each(sorted(asked), lambda name: _describe(name, asked[name], credentials.get(name)))
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=error_codes.NONE, error_message="", results=results
    )


def _describe(name: str, times: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code = error_codes.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif infos is None:
        code = error_codes.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=error_codes.NONE, error_message="", credential_infos=infos
        )
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message, credential_infos=[])
