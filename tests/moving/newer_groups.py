"""Groups of the newer protocols, each with one member that stays: consumer, share and streams."""

from typing import Any

from filling import CODECS, PLAIN

from kpywire import error_codes
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import Topology
from support.group_requests import beating, committing, coordinator_ready
from support.raw_client import RawClient
from support.raw_requests import GROUP, SET, changed, incremental_alteration, metadata_of
from support.share_group_requests import acknowledging, acquiring, describing, sharing
from support.streams_requests import source_of, streaming
from support.waiting import eventually

CONSUMERS, SHARERS, STREAMERS = "consumers", "sharers", "streamers"
MEMBER = "a member that stays"
ACCEPT = 1
ACCEPTED = (0, 1, 4)
"""The offsets of the share group's records that were accepted: the first two, and one in the midst."""
SHARED = CODECS


def join(raw: RawClient) -> None:
    """Join one group of each kind, commit an offset, accept some records."""
    coordinator_ready(raw)
    _consume(raw)
    _share(raw)
    topology = Topology(epoch=0, subtopologies=[source_of("0", PLAIN)])
    eventually(
        lambda: raw.call(streaming(STREAMERS, MEMBER, 0, topology=topology), 0).error_code == error_codes.NONE,
        "a member of a streams group",
    )


def _consume(raw: RawClient) -> None:
    owned = {metadata_of(raw, PLAIN).topic_id: [0, 1, 2]}
    joined = raw.call(beating(CONSUMERS, MEMBER, 0, topics=[PLAIN]), 1)
    assert joined.error_code == error_codes.NONE, joined
    beaten = raw.call(beating(CONSUMERS, MEMBER, joined.member_epoch, owned=owned), 1)
    assert beaten.error_code == error_codes.NONE, beaten
    offsets = committing(CONSUMERS, {PLAIN: [(0, 3, "m")]}, 9, member_id=MEMBER, generation=beaten.member_epoch)
    (topic,) = raw.call(offsets, 9).topics
    assert topic.partitions[0].error_code == error_codes.NONE


def _share(raw: RawClient) -> None:
    setting = (GROUP, SHARERS, [("share.auto.offset.reset", SET, "earliest")])
    assert changed(raw, incremental_alteration(setting), 1)[GROUP, SHARERS][0] == error_codes.NONE
    eventually(lambda: raw.call(sharing(SHARERS, MEMBER, 0, [SHARED]), 1).error_code == 0, "the coordinator")
    eventually(lambda: raw.call(sharing(SHARERS, MEMBER, 0, [SHARED]), 1).assignment.topic_partitions, "an assignment")
    topic_id = metadata_of(raw, SHARED).topic_id
    assert acquired(raw, topic_id)
    batches = [(offset, offset, [ACCEPT]) for offset in ACCEPTED]
    answer = raw.call(acknowledging(SHARERS, MEMBER, 1, topic_id, *batches), 2)
    assert answer.responses[0].partitions[0].error_code == error_codes.NONE, answer
    raw.call(acquiring(SHARERS, MEMBER, -1), 2)


def acquired(raw: RawClient, topic_id: bytes) -> list[int]:
    """The offsets that a new session of the member gets from the share group, as soon as there are any."""
    found: list[int] = []

    def gets_some() -> bool:
        answer = raw.call(acquiring(SHARERS, MEMBER, 0, topic_id), 2)
        parts = [part for topic in answer.responses for part in topic.partitions]
        found.extend(
            offset
            for part in parts
            for each in part.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        )
        return bool(found)

    eventually(gets_some, "records for the member of a share group")
    return found


OF_LATER_VERSIONS = ", topology_description=None, topology_description_status=0, assignor_name=None"
"""Fields that the versions asked here do not have, as a newer message prints them."""


def described(raw: RawClient) -> dict[str, str]:
    """The groups of the newer protocols, as they describe themselves."""
    asked: dict[str, tuple[Any, int]] = {
        "consumer": (ConsumerGroupDescribeRequest(group_ids=[CONSUMERS], include_authorized_operations=False), 1),
        "share": (ShareGroupDescribeRequest(group_ids=[SHARERS], include_authorized_operations=False), 1),
        "streams": (StreamsGroupDescribeRequest(group_ids=[STREAMERS], include_authorized_operations=False), 0),
    }
    kinds = {each.group_type for each in raw.call(ListGroupsRequest(), 5).groups} & set(asked)
    found = {kind: repr(raw.call(*asked[kind]).groups).replace(OF_LATER_VERSIONS, "") for kind in sorted(kinds)}
    if "share" in kinds:
        found["offsets of share"] = repr(raw.call(describing(SHARERS, everything=True), 1).groups)
    return found
