"""Random histories of one consumer group: every answer and every record is that of Apache Kafka's own coordinator."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from consumer_twins import GROUP, ConsumerTwins
from kafka_shard import KafkaShard, started

from kpybroker.machines.groups.classic import classic_group
from kpybroker.machines.groups.classic.describe import DescribeGroup
from kpybroker.machines.groups.consumer.describe import DescribeConsumerGroup
from kpybroker.machines.groups.events import DeleteGroup, ExpireOffsets, ListGroups
from kpywire import api
from kpywire.codec import decode, encode
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kpywire.messages.sync_group import SyncGroupRequest
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oracle.recorded import Play

HISTORIES = 24
RECORDED = 6
"""The histories that quick tests play with the answers that Kafka gave once."""
STEPS = 150
INSTANCES = ("i", "j", "k")
NAMES = ("t", "u", "v", "w.x")
REGEXES = ("t|u", "[uv]", "w.*", "none")


class Client:
    """A member as its client sees it: the epoch, the partitions, the subscription."""

    def __init__(self, member_id: str, instance_id: str | None, version: int) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.version = version
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.given: dict[bytes, list[int]] | None = None
        self.topics: list[str] = []

    def take(self, response: Any) -> None:
        if response.error_code:
            if response.error_code in (25, 110, 82, 69):
                self.epoch, self.owned, self.given = 0, {}, None
            return
        self.member_id = response.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            given = {each.topic_id: sorted(each.partitions) for each in response.assignment.topic_partitions}
            self.given = dict(sorted(given.items()))  # ours has an order of its own

    def listed(self) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in self.owned.items()
        ]


class History:
    """Requests that make sense most of the time."""

    def __init__(self, twins: ConsumerTwins, rng: Random) -> None:
        self.twins = twins
        self.rng = rng
        self.clients: list[Client] = []
        self.made = 0
        self.grown: dict[str, int] = {}
        for name in NAMES[: rng.randrange(1, 4)]:
            self.grow(name)

    weights: Sequence[tuple[str, int]] = ()

    def step(self) -> None:
        name, _ = self.rng.choices(*zip(*((each, each[1]) for each in self.weights or STEP_WEIGHTS), strict=True))[0]
        getattr(self, name)()

    def grow(self, name: str) -> None:
        self.grown[name] = self.grown.get(name, 0) + self.rng.choice((1, 2, 3, 5, 9))
        self.twins.put_topic(name, self.grown[name], self.rng)

    def change_topics(self) -> None:
        name = self.rng.choice(NAMES)
        if name in self.grown and self.rng.random() < 0.4:
            del self.grown[name]
            self.twins.drop_topic(name)
        else:
            self.grow(name)

    def client(self) -> Client:
        if not self.clients or self.rng.random() < 0.02:
            return Client(self.rng.choice(("nobody", "m1")), self.rng.choice((None, None, "i")), 1)
        return self.rng.choice(self.clients)

    def names(self) -> list[str]:
        return self.rng.choice((["t"], ["t"], ["t", "u"], ["u", "v"], ["t", "u", "v", "w.x"], ["missing"], []))

    def subscription(self, version: int, *, joins: bool) -> dict[str, Any]:
        chosen = self.rng.random()
        if version == 0 or chosen < 0.7:
            return {"subscribed_topic_names": self.names()}
        regex = self.rng.choice((*REGEXES, *REGEXES, "", "", "(", "a)", "*", "[z-a]"))
        if chosen < 0.9:
            return {"subscribed_topic_names": [] if joins else None, "subscribed_topic_regex": regex}
        return {"subscribed_topic_names": self.names(), "subscribed_topic_regex": regex}

    def beat(self, client: Client, **fields: Any) -> None:
        message = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=fields.pop("member_epoch", client.epoch),
            instance_id=client.instance_id,
            **fields,
        )
        response = self.twins.request(api.CONSUMER_GROUP_HEARTBEAT, client.version, message)
        client.take(response)

    def join(self, client: Client) -> None:
        client.epoch, client.owned, client.given = 0, {}, None
        self.beat(
            client,
            rack_id=self.rng.choice((None, "a")),
            rebalance_timeout_ms=self.rng.randrange(5_000, 60_000),
            server_assignor=self.rng.choice((None, None, "range", "uniform")),
            topic_partitions=[],
            **self.subscription(client.version, joins=True),
        )

    def join_new(self) -> None:
        version = self.rng.choice((0, 1, 1, 1))
        self.made += 1
        member_id = "" if version == 0 and self.rng.random() < 0.5 else f"member-{self.made}"
        client = Client(member_id, self.rng.choice((None, None, *INSTANCES)), version)
        self.join(client)
        if client.epoch or client.given is not None:
            self.clients.append(client)
            if len(self.clients) > 8:
                self.leave()

    def join_again(self) -> None:
        self.join(self.client())

    def heartbeat(self) -> None:
        client = self.client()
        self.adopt(client)
        chosen = self.rng.random()
        owned = client.listed() if chosen < 0.6 else None
        epoch = client.epoch if self.rng.random() < 0.95 else client.epoch + self.rng.choice((-2, -1, 1))
        self.beat(client, member_epoch=max(epoch, 0), topic_partitions=owned)

    def heartbeat_all(self) -> None:
        for client in list(self.clients):
            self.adopt(client)
            self.beat(client, topic_partitions=client.listed())

    def adopt(self, client: Client) -> None:
        """The client gives up what it has to, and takes what it may."""
        if client.given is not None and self.rng.random() < 0.8:
            client.owned, client.given = client.given, None

    def repeat(self) -> None:
        """The answer was lost: the client is at the epoch before."""
        client = self.client()
        self.beat(client, member_epoch=max(client.epoch - 1, 0), topic_partitions=client.listed())

    def change(self) -> None:
        client = self.client()
        fields = self.subscription(client.version, joins=False)
        if self.rng.random() < 0.3:
            fields.update(rebalance_timeout_ms=30_000, topic_partitions=client.listed())
        if self.rng.random() < 0.2:
            fields.update(server_assignor=self.rng.choice(("range", "uniform")))
        self.beat(client, **fields)

    def leave(self) -> None:
        client = self.client()
        self.beat(client, member_epoch=-1)
        if client in self.clients:
            self.clients.remove(client)

    def leave_for_a_while(self) -> None:
        client = self.client()
        if client.instance_id is None:
            return
        self.beat(client, member_epoch=-2)
        if self.rng.random() < 0.7:
            self.made += 1
            client.member_id = f"member-{self.made}"
            self.join(client)

    def commit(self) -> None:
        client, version = self.client(), self.rng.choice((8, 9, 9, 9))
        epoch = client.epoch + self.rng.choice((0, 0, 0, -1, -2, 1))
        member_id = client.member_id
        if self.rng.random() < 0.2:
            member_id, epoch = "", -1
        message = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.rng.choice(NAMES),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=self.rng.randrange(100), committed_metadata=""
                        )
                        for index in self.rng.sample(range(4), self.rng.randrange(1, 3))
                    ],
                )
            ],
        )
        self.twins.with_ids(message.topics)
        self.twins.request(api.OFFSET_COMMIT, version, message)

    def commit_in_transaction(self) -> None:
        client = self.client()
        epoch, member_id = client.epoch + self.rng.choice((0, 0, -1, 1)), client.member_id
        if self.rng.random() < 0.3:
            member_id, epoch = "", -1
        message = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.rng.choice(NAMES),
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=self.rng.randrange(100), committed_metadata=None
                        )
                    ],
                )
            ],
        )
        version = self.rng.choice((4, 6)) if self.twins.with_ids(message.topics) else 5
        self.twins.request(api.TXN_OFFSET_COMMIT, version, message)

    def end_transaction(self) -> None:
        commit = self.rng.random() < 0.5
        self.twins.kafka.ask("marker", 1, int(commit))
        self.twins.ours.end_transaction(1, commit)

    def fetch(self) -> None:
        client = self.client()
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0, 1, 2]) for name in NAMES]
        part = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        if self.rng.random() < 0.7:
            part.member_id, part.member_epoch = client.member_id, client.epoch + self.rng.choice((0, 0, 1, -1))
        message = OffsetFetchRequest(groups=[part], require_stable=False)
        self.twins.request(api.OFFSET_FETCH, 9, message, part)

    def delete_offsets(self) -> None:
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in self.rng.sample(NAMES, 2)
        ]
        self.twins.request(api.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=GROUP, topics=topics))

    def describe(self) -> None:
        if self.rng.random() < 0.2:
            message = DescribeGroupsRequest(groups=[GROUP])
            self.twins.request(api.DESCRIBE_GROUPS, self.rng.choice((5, 6)), message, DescribeGroup(GROUP))
            return
        request = ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
        version = self.rng.randrange(2)
        self.twins.request(api.CONSUMER_GROUP_DESCRIBE, version, request, DescribeConsumerGroup(GROUP))

    def list_groups(self) -> None:
        states = self.rng.choice(([], ["stable"], ["EMPTY", "Dead"], ["Reconciling"], ["assigning"]))
        types = self.rng.choice(([], ["classic"], ["CONSUMER"]))
        message = ListGroupsRequest(states_filter=states, types_filter=types)
        self.twins.request(api.LIST_GROUPS, 5, message, ListGroups(states, types))

    def delete(self) -> None:
        self.twins.request(api.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroup(GROUP))

    def wait(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.randrange(1, 2_500))

    def wait_longer(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.randrange(5_000, 30_000))

    def wait_for_timer(self) -> None:
        deadline = self.twins.kafka.ask("next")
        if deadline:
            self.twins.advance(int(deadline))

    def wait_long(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + 4 * 24 * 3_600_000)

    def expire(self) -> None:
        self.twins.event(ExpireOffsets(self.twins.ours.now_ms), "expire")

    def restart(self) -> None:
        self.twins.restart()


class MixedHistory(History):
    """Members of both protocols."""

    def classic_protocols(self, client: Client) -> list[JoinGroupRequestProtocol]:
        names = self.rng.choice((["range"], ["range", "sticky"], ["sticky", "range"]))
        by_id = {topic.id: name for name, topic in self.twins.topics.items()}
        version = self.rng.randrange(4)
        owned = [
            TopicPartition(topic=by_id[topic_id], partitions=indexes)
            for topic_id, indexes in sorted(client.owned.items())  # ours has an order of its own
            if topic_id in by_id
        ]
        topics = client.topics if self.rng.random() < 0.8 else self.rng.choice((["t"], ["t", "u"], ["u", "v"]))
        client.topics = topics
        subscription = ConsumerProtocolSubscription(topics=topics, owned_partitions=owned if version else [])
        metadata = version.to_bytes(2, "big") + encode(subscription, version)
        return [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]

    def classic_client(self) -> Client:
        known = [client for client in self.clients if client.topics]
        return self.rng.choice(known) if known and self.rng.random() < 0.95 else self.client()

    def classic_join(self, client: Client) -> None:
        self.twins.advance(self.twins.ours.now_ms + 1)
        if client.member_id and not self.twins.theirs.member_ids:
            return  # Kafka forgets an empty consumer group when it refuses this request, but not in the log
        message = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.rng.randrange(10_000, 50_000),
            rebalance_timeout_ms=self.rng.randrange(5_000, 60_000),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=self.classic_protocols(client),
        )
        response = self.twins.request(api.JOIN_GROUP, 9, message, pause_ms=0)
        if response is not None and response.error_code in (0, 79):
            client.member_id, client.epoch = response.member_id, max(response.generation_id, 0)

    def classic_join_new(self) -> None:
        if len(self.clients) > 6:
            return
        client = Client("", self.rng.choice((None, None, *INSTANCES)), 1)
        client.topics = ["t"]
        self.classic_join(client)
        if client.member_id:
            self.clients.append(client)
            self.classic_join(client)
            self.sync_of(client)

    def classic_join_again(self) -> None:
        self.classic_join(self.classic_client())

    def sync(self) -> None:
        self.sync_of(self.classic_client())

    def sync_of(self, client: Client) -> None:
        message = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type=self.rng.choice((None, "consumer", "consumer")),
            protocol_name=self.rng.choice((None, "range")),
            assignments=[],
        )
        response = self.twins.request(api.SYNC_GROUP, 5, message)
        if response is not None and response.error_code == 0 and response.assignment:
            assignment = decode(ConsumerProtocolAssignment, 0, response.assignment, 2)
            known = self.twins.topics
            client.owned = {
                known[each.topic].id: sorted(each.partitions)
                for each in assignment.assigned_partitions
                if each.topic in known
            }

    def classic_heartbeat(self) -> None:
        client = self.classic_client()
        message = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.epoch + self.rng.choice((0, 0, 0, 0, 1)),
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        response = self.twins.request(api.HEARTBEAT, 4, message)
        if response.error_code == 27 and self.rng.random() < 0.8:
            self.classic_join(client)
            self.sync_of(client)

    def classic_leave(self) -> None:
        leaving = [self.classic_client() for _ in range(self.rng.choice((1, 1, 2)))]
        identities = [
            MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id)
            for each in {each.member_id: each for each in leaving}.values()
        ]
        self.twins.request(api.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=identities))
        self.clients = [each for each in self.clients if each not in leaving]


STEP_WEIGHTS = (
    *(("join_new", 14), ("join_again", 4), ("heartbeat", 40), ("heartbeat_all", 12), ("repeat", 4), ("change", 8)),
    *(("leave", 5), ("leave_for_a_while", 5), ("commit", 8), ("commit_in_transaction", 3), ("end_transaction", 2)),
    *(("fetch", 4), ("delete_offsets", 2), ("describe", 6), ("list_groups", 2), ("delete", 1), ("wait", 14)),
    *(("wait_longer", 3), ("wait_for_timer", 3), ("wait_long", 1), ("expire", 2), ("change_topics", 5), ("restart", 2)),
)


@pytest.mark.java
@pytest.mark.seeds(0, HISTORIES)
def test_a_history_of_a_consumer_group_goes_as_in_kafka(kafka: KafkaShard, seed: int) -> None:
    live(kafka, seed)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_a_history_of_a_consumer_group_goes_as_it_went_in_kafka(recorded: Play, seed: int) -> None:
    live(KafkaShard(recorded(started)), seed)


def live(kafka: KafkaShard, seed: int) -> None:
    rng = Random(seed)
    twins = ConsumerTwins(
        kafka,
        consumer_max_size=rng.choice((4, 1_000)),
        consumer_assignment_interval_ms=rng.choice((0, 1_000, 1_000)),
    )
    history = History(twins, rng)
    for _ in range(STEPS):
        history.step()


MIXED_WEIGHTS = (
    *STEP_WEIGHTS,
    *(("classic_join_new", 12), ("classic_join_again", 10), ("sync", 10), ("classic_heartbeat", 25)),
    ("classic_leave", 3),
)


@pytest.mark.java
@pytest.mark.seeds(0, HISTORIES)
def test_a_history_of_members_of_both_protocols_goes_as_in_kafka(
    kafka: KafkaShard, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_with_both(kafka, seed, monkeypatch)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_a_history_of_members_of_both_protocols_goes_as_it_went_in_kafka(
    recorded: Play, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_with_both(KafkaShard(recorded(started)), seed, monkeypatch)


def live_with_both(kafka: KafkaShard, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    twins = ConsumerTwins(
        kafka,
        consumer_max_size=1_000,
        consumer_assignment_interval_ms=rng.choice((0, 1_000)),
        consumer_migration_policy=rng.choice(("upgrade", "bidirectional", "downgrade", "disabled")),
    )
    monkeypatch.setattr(classic_group, "choose", twins.choose)
    history = MixedHistory(twins, rng)
    history.weights = MIXED_WEIGHTS
    for _ in range(STEPS):
        history.step()
