"""AlterClientQuotas (Kafka's ``ClientQuotaControlManager``, KIP-546): the quotas of users, client ids and addresses.

Each entity succeeds or fails by itself; all that succeed form one batch. Unlike Kafka, the controller asks no name
server: an ``ip`` is an address, not the name of a host.
"""

from math import isfinite
from typing import Any, Final

from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import QuotaEntity
from kpybroker.machines.quotas.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

INT, LONG, DOUBLE = "INT", "LONG", "DOUBLE"
MOST: Final = {INT: 2.0**31 - 1, LONG: 2.0**63}
CLIENT_KEYS: Final = {
    PRODUCER_BYTE_RATE: LONG,
    CONSUMER_BYTE_RATE: LONG,
    REQUEST_PERCENTAGE: DOUBLE,
    CONTROLLER_MUTATION_RATE: DOUBLE,
}
ADDRESS_KEYS: Final = {CONNECTION_CREATION_RATE: INT}
SMALLEST_FRACTION: Final = 1e-6
Names = dict[str, str | None]
"""The name of each type of an entity; None is the default."""


def alter_client_quotas(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Set and remove quotas, or with ``validate_only`` only check them."""
    message: AlterClientQuotasRequest = request.message
    records: list[ClientQuotaRecord] = []
    outcomes: dict[QuotaEntity, tuple[Names, KafkaError | None]] = {}
    for number, entry in enumerate(message.entries):
        if number % STEP == LAST_OF_STEP:
            yield
        names: Names = {part.entity_type: part.entity_name for part in entry.entity}  # of a repeated type the last
        entity = tuple(sorted(names.items()))
        refusal: KafkaError | None = None
        keys = [operation.key for operation in entry.ops]
        if entity in outcomes or len(set(keys)) < len(keys):
            refusal = _invalid(f"Ignoring duplicate entity {_described(names)}")
        else:
            try:
                records += _altered(state, entity, names, entry)
            except KafkaError as error:
                refusal = error
        outcomes[entity] = names, refusal
    response = AlterClientQuotasResponse(
        throttle_time_ms=0, entries=[_answer(names, refusal) for names, refusal in outcomes.values()]
    )
    return [] if message.validate_only else records, response


def refused(request: AlterClientQuotasRequest, code: int, message: str | None) -> AlterClientQuotasResponse:
    """The answer to a request that failed as a whole."""
    return AlterClientQuotasResponse(
        throttle_time_ms=0,
        entries=[
            _answer({part.entity_type: part.entity_name for part in entry.entity}, KafkaError(code, message))
            for entry in request.entries
        ],
    )


def _answer(names: Names, refusal: KafkaError | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=error_codes.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=kind, entity_name=name) for kind, name in names.items()
        ],
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(error_codes.INVALID_REQUEST, message)


def _described(names: Names) -> str:
    """An entity as Kafka's messages have it (``ClientQuotaEntity.toString``)."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in names.items())
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _altered(
    state: ControllerState, entity: QuotaEntity, names: Names, entry: AlterClientQuotasRequestEntryData
) -> list[Any]:
    """The records of one entity. Raises INVALID_REQUEST."""
    _check_entity(names)
    types = _keys_of(names)
    current = state.image.client_quotas.get(entity, {})
    records = []
    for operation in entry.ops:
        if operation.remove:
            if operation.key in current:
                records.append(_record(names, operation, remove=True))
            continue
        _check_value(types, operation.key, operation.value)
        if current.get(operation.key) != operation.value:
            records.append(_record(names, operation, remove=False))
    return records


def _record(names: Names, operation: OpData, *, remove: bool) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        key=operation.key,
        value=0.0 if remove else operation.value,
        remove=remove,
    )


def _check_entity(names: Names) -> None:
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")


def _keys_of(names: Names) -> dict[str, str]:
    """The keys that may be set for an entity, and the types of their values."""
    if IP not in names:
        return CLIENT_KEYS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    name = names[IP]
    if name is not None:
        from ipaddress import ip_address

        try:
            ip_address(name)
        except ValueError:
            raise _invalid(f"{name} is not a valid IP or resolvable host.") from None
    return ADDRESS_KEYS


def _check_value(types: dict[str, str], key: str, value: float) -> None:
    kind = types.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind == DOUBLE:
        return
    if value > MOST[kind]:
        raise _invalid(f"Proposed value for {key} is too large for {'an INT' if kind == INT else 'a LONG'}.")
    if value % 1.0 > SMALLEST_FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")
