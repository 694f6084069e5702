"""AlterUserScramCredentials: passwords of users, of which only the keys are stored (KIP-554; ``ScramControlManager``).

Each user succeeds or fails by itself; all that succeed form one batch. A request may change one credential of a user
only: a second change, even of the other mechanism, is an error, and the first one is not made either.
"""

from typing import Any

from kpybroker.machines.controller.state import STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.sasl import scram
from kpybroker.runtime.calls.steps import in_blocks
from kpywire import error_codes
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Store and delete credentials."""
    message: AlterUserScramCredentialsRequest = request.message
    changes: dict[str, Alteration] = {}
    errors: dict[str, KafkaError] = {}
    alterations: list[Alteration] = [*message.deletions, *message.upsertions]
    for nth, alteration in enumerate(alterations, 1):
        if not nth % STEP:
            yield
        name = alteration.name
        if name in errors:
            continue
        try:
            if changes.pop(name, None) is not None:
                text = "A user credential cannot be altered twice in the same request"
                raise KafkaError(error_codes.DUPLICATE_RESOURCE, text)
            _check(state, alteration)
        except KafkaError as error:
            errors[name] = error
        else:
            changes[name] = alteration
    results = yield from in_blocks(changes, lambda name: _result(name, error_codes.NONE, None))
    results += yield from in_blocks(errors, lambda name: _result(name, errors[name].code, errors[name].message))
    records = yield from in_blocks(changes.values(), _record)
    return records, AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


def _result(name: str, code: int, text: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=text)


def _check(state: ControllerState, alteration: Alteration) -> None:
    if state.image.level < metadata_version.SCRAM:
        text = "The current metadata.version does not support SCRAM"
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
    if not alteration.name:
        raise KafkaError(error_codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if alteration.mechanism not in scram.BY_CODE:
        raise KafkaError(error_codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(alteration, ScramCredentialDeletion):
        if (alteration.mechanism, alteration.name) not in state.image.scram_credentials:
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(error_codes.RESOURCE_NOT_FOUND, text)
    elif why := scram.why_unacceptable(alteration.iterations, alteration.salted_password):
        raise KafkaError(error_codes.UNACCEPTABLE_CREDENTIAL, why)


def _record(alteration: Alteration) -> Any:
    if isinstance(alteration, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=alteration.name, mechanism=alteration.mechanism)
    mechanism = scram.BY_CODE[alteration.mechanism]
    return UserScramCredentialRecord(
        name=alteration.name,
        mechanism=alteration.mechanism,
        **mechanism.credential(alteration.salted_password, alteration.salt, alteration.iterations)._asdict(),
    )
