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
from kpybroker.machines.metadata.mirror_configs import (
    EXPORTED,
    JOINING,
    LEADER_EPOCH,
    MIRRORING,
    SOURCE,
    STATE,
    TOPIC_ID,
    is_mirror,
    may_follow,
    mirror_names,
)
from kpywire import error_codes
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.uuid import from_string, is_reserved

TIERED: Final = "remote.storage.enable"
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
    if is_reserved(topic_id) or topic_id in state.image.topics_by_id:
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

    An ordinary topic becomes a mirror of the topic with its id, and its records that the source lacks are exported
    before it is fed. KafkaError: INVALID_CONFIG.
    """
    if after.get(SOURCE) is None:
        return []
    _check_source(state, name, before, after)
    least = int(after.get(LEADER_EPOCH) or 0)
    if least < int(before.get(LEADER_EPOCH, 0)):
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


def _check_source(
    state: ControllerState, name: str, before: Mapping[str, str], after: Mapping[str, str | None]
) -> None:
    """Raise KafkaError if a topic cannot go on as such a mirror, or become one."""
    earlier = before.get(STATE, MIRRORING) if is_mirror(before) else None
    later = after.get(STATE) or MIRRORING
    if earlier is None:
        _check_adopted(state, name, after)
    elif (before[SOURCE], before[TOPIC_ID]) != (after[SOURCE], after.get(TOPIC_ID)):
        raise KafkaError(error_codes.INVALID_CONFIG, f"{SOURCE}: a mirror keeps its source")
    if not may_follow(earlier, later):
        message = f"{STATE}: {'an ordinary topic' if earlier is None else earlier} cannot be followed by {later}"
        raise KafkaError(error_codes.INVALID_CONFIG, message)
    if later == JOINING and after.get(EXPORTED) is None:
        raise KafkaError(error_codes.INVALID_CONFIG, f"{STATE}: {JOINING} needs {EXPORTED}")


def _check_adopted(state: ControllerState, name: str, after: Mapping[str, str | None]) -> None:
    if after[SOURCE] not in mirror_names(state.image.configs_of(BROKER_RESOURCE, "")):
        raise KafkaError(error_codes.INVALID_CONFIG, f"{SOURCE}: the cluster has no mirror {after[SOURCE]!r}")
    if from_string(after[TOPIC_ID] or "") != state.image.topics[name].id:
        message = f"{TOPIC_ID}: topic {name} has another id than its source, so it does not become its mirror"
        raise KafkaError(error_codes.INVALID_CONFIG, message)
    if after.get(TIERED) == "true":
        raise KafkaError(
            error_codes.INVALID_CONFIG, f"{SOURCE}: topic {name} is tiered, so it does not become a mirror"
        )
