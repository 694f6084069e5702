"""TopicRecord: type 2 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message, string, uuid


@message(key=2, versions="0", flexible="0+")
class TopicRecord:
    name: string  # The topic name.
    topic_id: uuid  # The unique ID of this topic.
