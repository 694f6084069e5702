"""ConfigRecord: type 4 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i8, message, string


@message(key=4, versions="0", flexible="0+")
class ConfigRecord:
    resource_type: i8  # The type of resource this configuration applies to.
    resource_name: string  # The name of the resource this configuration applies to.
    name: string  # The name of the configuration key.
    value: string | None  # The value of the configuration, or null if the it should be deleted.
