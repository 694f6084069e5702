"""Topics that are mirrors of another cluster's topics: their ids, leader epochs and configs.

A mirror gets its source's topic id. Its leader epochs are above the source's, so none goes back for a consumer that is
cut over, and no batch of the source is of a later epoch than its leader. The producer ids of this cluster go on at a
random place in the upper half of all ids, so that they do not meet those of the source's producers.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.controller.state import ControllerState
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.machines.metadata.mirror_configs import LEADER_EPOCH, SOURCE, TOPIC_ID, is_mirror, mirror_names
from kpywire import error_codes
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.uuid import from_string, usable

NO_BROKER: Final = -1
DISTANT_FROM: Final = 1 << 62
PLACES: Final = 1 << 30
IDS_OF_A_PLACE: Final = 1 << 31


class NamedSource(NamedTuple):
    """The topic that a new topic is a mirror of."""

    mirror: str
    topic_id: bytes


def named_source(state: ControllerState, name: str, configs: Mapping[str, str]) -> NamedSource | None:
    """The source that a new topic's configs name; None for an ordinary topic. KafkaError if it cannot be one."""
    if not is_mirror(configs):
        return None
    mirror = configs[SOURCE]
    if mirror not in mirror_names(state.image.configs_of(BROKER_RESOURCE, "")):
        raise KafkaError(error_codes.INVALID_CONFIG, f"{SOURCE}: the cluster has no mirror {mirror!r}")
    topic_id = from_string(configs[TOPIC_ID])
    if not usable(topic_id) or topic_id in state.image.topics_by_id:
        raise KafkaError(error_codes.INVALID_CONFIG, f"{TOPIC_ID}: topic {name} cannot have the id {configs[TOPIC_ID]}")
    return NamedSource(mirror, topic_id)


def fenced(records: list[Any], configs: Mapping[str, str]) -> list[Any]:
    """The records of new partitions, with a leader epoch above all of the source's if the topic is a mirror."""
    if is_mirror(configs):
        for record in records:
            assert isinstance(record, PartitionRecord)
            record.leader_epoch = max(record.leader_epoch, int(configs[LEADER_EPOCH]))
    return records


def distant_producer_ids(state: ControllerState) -> list[Any]:
    """The record by which producer ids go on far away from those of other clusters; none if they do already."""
    if state.image.next_producer_id >= DISTANT_FROM:
        return []
    first = DISTANT_FROM + state.rng.randrange(PLACES) * IDS_OF_A_PLACE
    return [ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=-1, next_producer_id=first)]


def alteration(
    state: ControllerState, name: str, before: Mapping[str, str], after: Mapping[str, str | None]
) -> list[Any]:
    """The records that a change of a topic's configs needs in addition: partitions with raised leader epochs.

    A topic becomes a mirror only when it is created. KafkaError: INVALID_CONFIG.
    """
    if after.get(SOURCE) is None:
        return []
    if (before.get(SOURCE), before.get(TOPIC_ID)) != (after.get(SOURCE), after.get(TOPIC_ID)):
        message = f"{SOURCE}: an existing topic does not become a mirror, and a mirror keeps its source"
        raise KafkaError(error_codes.INVALID_CONFIG, message)
    least = int(after.get(LEADER_EPOCH) or 0)
    if least < int(before[LEADER_EPOCH]):
        raise KafkaError(error_codes.INVALID_CONFIG, f"{LEADER_EPOCH} cannot go back from {before[LEADER_EPOCH]}")
    topic, image = state.image.topics[name], state.image
    records: list[Any] = []
    for partition_id, partition in topic.partitions.items():
        if partition.leader_epoch < least:
            record = partition.to_record(topic.id, partition_id, image.level, elr_enabled=image.elr_enabled)
            record.leader_epoch = least
            record.partition_epoch += 1
            records.append(record)
    return records
