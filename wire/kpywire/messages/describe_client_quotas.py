"""DescribeClientQuotas: API key 48."""

from __future__ import annotations

from kpywire.schema import f64, i8, i16, i32, message, string, struct


@struct
class ComponentData:
    entity_type: string  # The entity type that the filter component applies to.
    match_type: i8  # How to match the entity {0 = exact name, 1 = default name, 2 = any specified name}.
    match: string | None  # The string to match against, or null if unused for the match type.


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Version 1 enables flexible versions."""

    components: list[ComponentData]  # Filter components to apply to quota entities.
    strict: bool  # Whether the match is strict, i.e. should exclude entities with unspecified entity types.


@struct
class EntityData:
    entity_type: string  # The entity type.
    entity_name: string | None  # The entity name, or null if the default.


@struct
class ValueData:
    key: string  # The quota configuration key.
    value: f64  # The quota configuration value.


@struct
class EntryData:
    entity: list[EntityData]  # The quota entity description.
    values: list[ValueData]  # The quota values for the entity.


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """Version 1 enables flexible versions."""

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or `0` if the quota description succeeded.
    error_message: string | None  # The error message, or `null` if the quota description succeeded.
    entries: list[EntryData] | None  # A result entry.
