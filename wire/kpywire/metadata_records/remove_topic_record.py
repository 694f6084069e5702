"""RemoveTopicRecord: type 9 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message, uuid


@message(key=9, versions="0", flexible="0+")
class RemoveTopicRecord:
    topic_id: uuid  # The topic to remove. All associated partitions will be removed as well.
