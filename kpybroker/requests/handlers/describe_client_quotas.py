"""DescribeClientQuotas (48), versions 0-1: the quotas that are set, by entity (KIP-546).

- A filter lists entity types, each with an exact name, the default, or any name. A strict filter excludes entities with
  other types. An address cannot be combined with users or client ids.
"""

from collections.abc import Iterable

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import QuotaEntity
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, SPECIFIED = range(3)
USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"

Wanted = dict[str, ComponentData]
"""The filter of each entity type."""


def handle(broker: Context, request: DescribeClientQuotasRequest, _call: Call) -> DescribeClientQuotasResponse:
    """Answer from the committed metadata."""
    try:
        wanted = _checked(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in broker.image.client_quotas.items()
            if _matches(entity, wanted, strict=request.strict)
        ],
    )


def _checked(components: Iterable[ComponentData]) -> Wanted:
    wanted: Wanted = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind not in (USER, CLIENT_ID, ADDRESS):
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if kind in wanted:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if component.match_type == EXACT and component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if component.match_type == DEFAULT and component.match is not None:
            raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
        if component.match_type == SPECIFIED and component.match is not None:
            raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
        if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise _invalid(f"Unknown match type {component.match_type}")
        wanted[kind] = component
    if ADDRESS in wanted and (USER in wanted or CLIENT_ID in wanted):
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return wanted


def _invalid(message: str) -> KafkaError:
    return KafkaError(error_codes.INVALID_REQUEST, message)


def _matches(entity: QuotaEntity, wanted: Wanted, *, strict: bool) -> bool:
    names = dict(entity)
    if not wanted.keys() <= names.keys() or (strict and len(names) != len(wanted)):
        return False
    return all(part.match_type == SPECIFIED or names[kind] == part.match for kind, part in wanted.items())
