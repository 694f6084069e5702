"""AlterClientQuotas: API key 49."""

from __future__ import annotations

from kpywire.schema import f64, i16, i32, message, string, struct


@struct
class AlterClientQuotasRequestEntityData:
    entity_type: string  # The entity type.
    entity_name: string | None  # The name of the entity, or null if the default.


@struct
class OpData:
    key: string  # The quota configuration key.
    value: f64  # The value to set, otherwise ignored if the value is to be removed.
    remove: bool  # Whether the quota configuration value should be removed, otherwise set.


@struct
class AlterClientQuotasRequestEntryData:
    entity: list[AlterClientQuotasRequestEntityData]  # The quota entity to alter.
    ops: list[OpData]  # An individual quota configuration entry to alter.


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Version 1 enables flexible versions."""

    entries: list[AlterClientQuotasRequestEntryData]  # The quota configuration entries to alter.
    validate_only: bool  # Whether the alteration should be validated, but not performed.


@struct
class AlterClientQuotasResponseEntityData:
    entity_type: string  # The entity type.
    entity_name: string | None  # The name of the entity, or null if the default.


@struct
class AlterClientQuotasResponseEntryData:
    error_code: i16  # The error code, or `0` if the quota alteration succeeded.
    error_message: string | None  # The error message, or `null` if the quota alteration succeeded.
    entity: list[AlterClientQuotasResponseEntityData]  # The quota entity to alter.


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """Version 1 enables flexible versions."""

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    entries: list[AlterClientQuotasResponseEntryData]  # The quota configuration entries to alter.
