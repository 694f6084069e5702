"""The hash by which consumer groups see that their topics changed, and the node that keeps it in step."""

from typing import NamedTuple

import pytest

from kpybroker.hosts.coordinators.followed_topics import FollowedTopics
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_view import TopicView
from kpybroker.machines.metadata.xxh3 import xxh3_64
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord

HASHES = {
    0: 3244421341483603138,
    1: 16226181191752404715,
    2: 3724619060873665926,
    3: 12180141160879835164,
    4: 6297312323375345790,
    5: 2565845316291143453,
    7: 5729351036430577319,
    8: 12752855198315354378,
    9: 10000907846553926702,
    12: 13493662757664391912,
    16: 3159599325006435930,
    17: 7070371635116224842,
    32: 9876767123032657305,
    33: 13175479875485247564,
    64: 1953419934939160347,
    65: 17294807227940740292,
    96: 14966057553054199593,
    97: 16231356406767973594,
    128: 16813233705924465638,
    129: 13063484349860316345,
    144: 4562368557712465490,
    161: 3503066604632025520,
    240: 4473034316189165092,
    241: 13654115510048419178,
    256: 18400051043315964857,
    257: 8713265036859552365,
    1024: 15878231082470753371,
    1025: 14435947017053915143,
    1087: 13166005503726749719,
    1088: 1926298949930276695,
    1089: 3061970922016395564,
    2048: 9551330843961554072,
    2049: 246499933171993818,
    5000: 3499038088879543845,
}
"""The hashes of `sample` at each length: those of hash4j, which Kafka uses, and of the xxHash library."""


class Broker(NamedTuple):
    rack: str | None


def sample(length: int) -> bytes:
    return bytes((i * 7 + length) & 255 for i in range(length))


def topic(name: str, low: int, partitions: int, replicas: tuple[int, ...] = (0,)) -> Topic:
    made = Topic(name, (1).to_bytes(8, "big") + low.to_bytes(8, "big"))
    made.partitions = {index: Partition(replicas, replicas, replicas[0]) for index in range(partitions)}
    return made


def view(*topics: Topic, racks: tuple[str | None, ...] = (None,)) -> TopicView:
    brokers = {number: Broker(rack) for number, rack in enumerate(racks)}
    return TopicView({each.name: each for each in topics}, {each.id: each for each in topics}, brokers, 1, 1, {}, {})


@pytest.mark.parametrize("length", HASHES)
def test_the_hash_is_xxh3(length: int) -> None:
    assert xxh3_64(sample(length)) == HASHES[length]


def test_the_hash_of_topics_is_that_of_kafka() -> None:
    both = view(topic("t", 116, 4), topic("u", 117, 2))
    assert both.group_hash(["t"]) == -5185195673680047242
    assert both.group_hash(["u"]) == 153297972606311536
    assert both.group_hash(["unknown"]) == both.group_hash([]) == 0


def test_racks_and_partitions_are_in_the_hash() -> None:
    two = topic("t", 116, 2, (0, 1))
    hashes = {
        view(two, racks=(None, None)).group_hash("t"),
        view(two, racks=("a", "b")).group_hash("t"),
        view(topic("t", 116, 3, (0, 1)), racks=("a", "b")).group_hash("t"),
    }
    assert len(hashes) == 3
    assert view(two, racks=("b", "a")).group_hash("t") == view(two, racks=("a", "b")).group_hash("t")


class Followed:
    """An image that records change, and the topics that follow it."""

    def __init__(self) -> None:
        self.image = MetadataImage("c")
        self.topics = FollowedTopics()

    def apply(self, *records: object) -> TopicView:
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
        self.topics.apply(self.image, delta)
        return self.topics.now()


def partition(index: int, replicas: list[int]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=b"i" * 16,
        replicas=replicas,
        isr=replicas,
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[],
    )


def test_a_view_follows_topics_partitions_and_replicas_and_nothing_else() -> None:
    followed = Followed()
    first = followed.apply(TopicRecord(name="t", topic_id=b"i" * 16), partition(0, [0]))
    assert first.created_version == first.version == 1
    one = first.group_hash("t")
    assert followed.apply(PartitionChangeRecord(partition_id=0, topic_id=b"i" * 16, isr=[], leader=-1)) is first
    grown = followed.apply(partition(1, [0]))
    assert (grown.created_version, grown.version) == (1, 3)
    assert grown.group_hash("t") != one
    moved = followed.apply(PartitionChangeRecord(partition_id=0, topic_id=b"i" * 16, replicas=[1]))
    assert moved.version == 4
    gone = followed.apply(RemoveTopicRecord(topic_id=b"i" * 16))
    assert gone.version == 5
    assert gone.has_changed(["t"], 4)
    assert not gone.has_changed(["t"], 5)
    assert not gone.has_changed(["other"], 0)
    assert gone.group_hash("t") == 0
