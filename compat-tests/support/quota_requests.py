"""AlterClientQuotas and DescribeClientQuotas, as tests send them."""

from collections.abc import Mapping

from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from support.raw_client import RawClient

Names = Mapping[str, str | None]


def entry(names: Names, quotas: Mapping[str, float | None]) -> AlterClientQuotasRequestEntryData:
    """Set the quotas of one entity; None removes one."""
    return AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alteration(*entries: AlterClientQuotasRequestEntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def set_quotas(raw: RawClient, names: Names, **quotas: float | None) -> None:
    """Set quotas of one entity, which must be accepted."""
    (answer,) = raw.call(alteration(entry(names, quotas)), 1).entries
    assert (answer.error_code, answer.error_message) == (0, None)
