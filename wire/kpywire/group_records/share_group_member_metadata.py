"""ShareGroupMemberMetadata: a record of type 10, key and value."""

from __future__ import annotations

from kpywire.schema import message, string


@message(key=10, versions="0")
class ShareGroupMemberMetadataKey:
    group_id: string  # The group id.
    member_id: string  # The member id.


@message(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: string | None  # The (optional) rack id.
    client_id: string  # The client id.
    client_host: string  # The client host.
    subscribed_topic_names: list[string]  # The list of subscribed topic names.
