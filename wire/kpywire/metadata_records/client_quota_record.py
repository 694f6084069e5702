"""ClientQuotaRecord: type 14 in the metadata log."""

from __future__ import annotations

from kpywire.schema import f64, message, string, struct


@struct
class EntityData:
    entity_type: string  # The entity type.
    entity_name: string | None  # The name of the entity, or null if the default.


@message(key=14, versions="0", flexible="0+")
class ClientQuotaRecord:
    entity: list[EntityData]  # The quota entity to alter.
    key: string  # The quota configuration key.
    value: f64  # The value to set, otherwise ignored if the value is to be removed.
    remove: bool  # Whether the quota configuration value should be removed, otherwise set.
