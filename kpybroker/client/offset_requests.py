"""The requests of ``kpybroker offsets`` to partition leaders. Errors as KafkaError."""

from collections.abc import Mapping

from kpybroker.client.client import Client, Spot, raise_for
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

TIMEOUT_MS = 30_000


def delete_records(client: Client, before: Mapping[Spot, int]) -> dict[Spot, int]:
    """Delete the records before an offset in each partition; -1 is its high watermark. Return the new first offsets."""
    return client.retrying(lambda: _delete_records(client, before))


def _delete_records(client: Client, before: Mapping[Spot, int]) -> dict[Spot, int]:
    lows: dict[Spot, int] = {}
    for node_id, spots in client.by_leader(before).items():
        topics: dict[str, DeleteRecordsTopic] = {}
        for spot in spots:
            topic = topics.setdefault(spot.topic, DeleteRecordsTopic(name=spot.topic, partitions=[]))
            topic.partitions.append(DeleteRecordsPartition(partition_index=spot.partition, offset=before[spot]))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=TIMEOUT_MS)
        for answered in client.call_node(node_id, request, wait_s=TIMEOUT_MS / 1000).topics:
            for each in answered.partitions:
                spot = Spot(answered.name, each.partition_index)
                raise_for(each.error_code, f"partition {spot}")
                lows[spot] = each.low_watermark
    return dict(sorted(lows.items()))
