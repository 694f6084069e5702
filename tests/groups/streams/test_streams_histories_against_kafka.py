"""Random histories of one streams group: every answer and every record is that of Apache Kafka's own coordinator."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from consumer_twins import GROUP
from kafka_shard import KafkaShard, started
from streams_twins import StreamsTwins
from topologies import BAD, GOOD, random_topology

from kpybroker.machines.groups.events import DeleteGroup, ExpireOffsets, ListGroups
from kpybroker.machines.groups.streams.events import DescribeStreamsGroup
from kpywire import api
from kpywire.messages.delete_groups import DeleteGroupsRequest
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
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestTaskIds,
    TaskOffset,
    Topology,
)
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
NAMES = ("t", "u", "v", "w")
FENCED = (25, 82, 110, 111, 69)
Listed = dict[str, list[int]]


class Client:
    """A member as its client sees it: the epoch and the tasks of each role."""

    def __init__(self, member_id: str, process_id: str, endpoint: tuple[str, int] | None) -> None:
        self.member_id = member_id
        self.process_id = process_id
        self.endpoint = endpoint
        self.instance_id: str | None = None
        self.epoch = 0
        self.endpoint_epoch = 0
        self.owned: tuple[Listed, Listed] = ({}, {})
        self.given: tuple[Listed, Listed] | None = None

    def take(self, response: Any) -> None:
        if response.error_code:
            if response.error_code in FENCED:
                self.forget()
            return
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None:
            self.given = (_read(response.active_tasks), _read(response.standby_tasks))

    def forget(self) -> None:
        self.epoch, self.owned, self.given = 0, ({}, {}), None

    def listed(self) -> dict[str, Any]:
        active, standby = map(_written, self.owned)
        return {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": []}


def _read(listed: Any) -> Listed:
    return {each.subtopology_id: list(each.partitions) for each in listed}


def _written(tasks: Listed) -> list[StreamsGroupHeartbeatRequestTaskIds]:
    return [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=each, partitions=indexes) for each, indexes in tasks.items()
    ]


class History:
    """Requests that make sense most of the time."""

    def __init__(self, twins: StreamsTwins, rng: Random) -> None:
        self.twins = twins
        self.rng = rng
        self.clients: list[Client] = []
        self.made = 0
        self.topology: Topology = random_topology(rng) if rng.random() < 0.5 else rng.choice(GOOD)
        self.topics: dict[str, int] = {}
        for name in NAMES[: rng.choice((0, 1, 4, 4, 4))]:
            self.put(name, rng.choice((1, 2, 3, 3, 6)))

    def step(self) -> None:
        name, _ = self.rng.choices(STEP_WEIGHTS, [weight for _, weight in STEP_WEIGHTS])[0]
        getattr(self, name)()

    def put(self, name: str, partitions: int) -> None:
        self.topics[name] = partitions
        self.twins.put_topic(name, partitions, self.rng)

    # Topics

    def create_missing(self) -> None:
        for topic in self.twins.missing.values():
            if topic.name not in self.topics and self.rng.random() < 0.9:
                self.put(topic.name, topic.partitions + self.rng.choice((0,) * 12 + (1,)))

    def change_topics(self) -> None:
        name = self.rng.choice((*NAMES, *self.topics))
        known = self.topics.get(name)
        if known is None:
            self.put(name, self.rng.choice((1, 2, 3)))
        elif self.rng.random() < 0.6:
            del self.topics[name]
            self.twins.drop_topic(name)
        elif known < 9:
            self.put(name, known + 1)

    # Members

    def client(self) -> Client:
        if not self.clients or self.rng.random() < 0.02:
            return Client(self.rng.choice(("nobody", "m1")), "p", None)
        return self.rng.choice(self.clients)

    def beat(self, client: Client, **fields: Any) -> None:
        message = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=fields.pop("member_epoch", client.epoch),
            endpoint_information_epoch=client.endpoint_epoch,
            instance_id=client.instance_id if self.rng.random() < 0.95 else self.rng.choice((None, "i", "?")),
            shutdown_application=self.rng.random() < 0.01,
            task_offsets=self.offsets(),
            task_end_offsets=self.offsets(),
            **fields,
        )
        version = self.rng.choice((0, 1))
        client.take(self.twins.request(api.STREAMS_GROUP_HEARTBEAT, version, message).response)

    def offsets(self) -> list[TaskOffset] | None:
        """The offsets that a member reports: most of the time of tasks that exist, seldom of one twice."""
        if self.rng.random() < 0.7:
            return None
        tasks = [(self.rng.choice("01"), index) for index in self.rng.sample(range(4), self.rng.randrange(4))]
        tasks += self.rng.choices(tasks, k=1) if tasks and self.rng.random() < 0.02 else []
        return [
            TaskOffset(subtopology_id=name, partition=index, offset=self.rng.randrange(50)) for name, index in tasks
        ]

    def join(self, client: Client) -> None:
        client.forget()
        chosen = self.rng.random()
        topology = self.topology
        if chosen < 0.05:
            topology = self.rng.choice((*GOOD, *BAD))
        elif chosen < 0.1:
            topology = Topology(epoch=self.rng.choice((-1, 1)), subtopologies=topology.subtopologies)
        endpoint = client.endpoint
        self.beat(
            client,
            rack_id=self.rng.choice((None, "a")),
            rebalance_timeout_ms=self.rng.randrange(5_000, 60_000),
            topology=topology,
            process_id=client.process_id,
            user_endpoint=endpoint and StreamsGroupHeartbeatRequestEndpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[KeyValue(key=key, value="x") for key in self.rng.choice(((), ("zone", "cluster")))],
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )

    def join_new(self) -> None:
        self.made += 1
        process = self.rng.choice("pqrs")
        endpoint = self.rng.choice((None, (f"host-{process}", 9_000)))
        client = Client(f"member-{self.made}", process, endpoint)
        if self.rng.random() < 0.4:
            client.instance_id = self.rng.choice("ijk")
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
        epoch = client.epoch if self.rng.random() < 0.95 else client.epoch + self.rng.choice((-2, -1, 1))
        if epoch > 0:
            self.beat(client, member_epoch=epoch, **(client.listed() if self.rng.random() < 0.6 else {}))

    def heartbeat_all(self) -> None:
        for client in list(self.clients):
            self.adopt(client)
            if client.epoch:
                self.beat(client, **client.listed())

    def adopt(self, client: Client) -> None:
        """The client gives up what it has to, and takes what it may."""
        if client.given is not None and self.rng.random() < 0.8:
            client.owned, client.given = client.given, None

    def repeat(self) -> None:
        """The answer was lost: the client is at the epoch before."""
        client = self.client()
        if client.epoch > 1:
            self.beat(client, member_epoch=client.epoch - 1, **client.listed())

    def change(self) -> None:
        client = self.client()
        if not client.epoch:
            return
        field, value = self.rng.choice(
            (
                ("rack_id", "b"),
                ("process_id", self.rng.choice("pqrs")),
                ("user_endpoint", StreamsGroupHeartbeatRequestEndpoint(host="other", port=1)),
                ("client_tags", [KeyValue(key="zone", value="y")]),
                ("rebalance_timeout_ms", 7_000),
            )
        )
        self.beat(client, **{field: value})

    def claim(self) -> None:
        """A member says that it has tasks which it never got, or which do not exist."""
        client = self.client()
        if client.epoch:
            tasks = {self.rng.choice(("0", "1", "nothing")): [self.rng.choice((-1, 0, 1, 99))]}
            self.beat(client, active_tasks=_written(tasks), standby_tasks=[], warmup_tasks=[])

    def leave(self) -> None:
        client = self.client()
        self.beat(client, member_epoch=-1)
        if client in self.clients:
            self.clients.remove(client)

    def leave_for_a_while(self) -> None:
        """A static member leaves, and mostly one with another member id takes its place."""
        client = self.client()
        self.beat(client, member_epoch=-2)
        if client.instance_id is None:
            return
        client.forget()
        if self.rng.random() < 0.7:
            self.made += 1
            client.member_id = f"member-{self.made}"
            self.join(client)

    def leave_all(self) -> None:
        for client in list(self.clients):
            self.beat(client, member_epoch=-1)
        self.clients.clear()

    def reconfigure(self) -> None:
        replicas = self.rng.randrange(3)
        self.twins.steps.append(f"standby replicas {replicas}")
        self.twins.kafka.ask("group", "streams.num.standby.replicas", replicas)
        overrides = {"streams_num_standby_replicas": replicas}
        self.twins.ours.settings = self.twins.ours.settings._replace(overrides_of=lambda _: overrides)

    def reconfigure_tags(self) -> None:
        tags = self.rng.choice(((), ("zone",), ("zone", "row")))
        self.twins.steps.append(f"tags {tags}")
        self.twins.kafka.ask("group", "streams.rack.aware.assignment.tags", ",".join(tags))
        overrides = {"streams_rack_aware_assignment_tags": tags}
        self.twins.ours.settings = self.twins.ours.settings._replace(overrides_of=lambda _: overrides)

    # Offsets

    def names(self) -> list[str]:
        return self.rng.sample((*NAMES, "a-repartition", "b-repartition"), 2)

    def commit(self) -> None:
        client, version = self.client(), self.rng.choice((8, 9, 9, 9))
        member_id, epoch = client.member_id, client.epoch + self.rng.choice((0, 0, 0, -1, -2, 1))
        if self.rng.random() < 0.2:
            member_id, epoch = "", -1
        message = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=self.rng.randrange(100), committed_metadata=""
                        )
                        for index in self.rng.sample(range(4), self.rng.randrange(1, 3))
                    ],
                )
                for name in self.names()[: self.rng.randrange(1, 3)]
            ],
        )
        self.twins.with_ids(message.topics)
        self.twins.request(api.OFFSET_COMMIT, version, message)

    def commit_in_transaction(self) -> None:
        client = self.client()
        member_id, epoch = client.member_id, client.epoch + self.rng.choice((0, 0, -1, 1))
        if self.rng.random() < 0.3:
            member_id, epoch = "", -1
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.rng.randrange(100), committed_metadata=None
        )
        message = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=self.names()[0], partitions=[partition])],
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
            for name in self.names()
        ]
        self.twins.request(api.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=GROUP, topics=topics))

    # What administrators do

    def describe(self) -> None:
        request = StreamsGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
        self.twins.request(api.STREAMS_GROUP_DESCRIBE, self.rng.choice((0, 1)), request, DescribeStreamsGroup(GROUP))

    def list_groups(self) -> None:
        states = self.rng.choice(([], ["stable"], ["EMPTY", "Dead"], ["not_ready"], ["NotReady"], ["assigning"]))
        types = self.rng.choice(([], ["classic"], ["STREAMS"]))
        message = ListGroupsRequest(states_filter=states, types_filter=types)
        self.twins.request(api.LIST_GROUPS, 5, message, ListGroups(states, types))

    def delete(self) -> None:
        self.twins.request(api.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroup(GROUP))

    def classic_member(self) -> None:
        """A classic member comes and goes: it is refused, or the group is of its kind for a while."""
        message = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        response = self.twins.request(api.JOIN_GROUP, 3, message)
        if response is not None and response.error_code == 0:
            leaving = MemberIdentity(member_id=response.member_id)
            self.twins.request(api.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=[leaving]))

    # Time

    def wait(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.randrange(1, 2_500))

    def wait_longer(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + self.rng.randrange(5_000, 30_000))

    def wait_for_timer(self) -> None:
        deadline = self.twins.kafka.ask("next")
        if deadline:
            self.twins.advance(int(deadline))

    def wait_long(self) -> None:
        self.twins.advance(self.twins.ours.now_ms + 8 * 24 * 3_600_000)

    def expire(self) -> None:
        self.twins.event(ExpireOffsets(self.twins.ours.now_ms), "expire")

    def restart(self) -> None:
        self.twins.restart()


STEP_WEIGHTS: Sequence[tuple[str, int]] = (
    ("join_new", 10),
    ("join_again", 3),
    ("heartbeat", 20),
    ("heartbeat_all", 20),
    ("repeat", 3),
    ("change", 4),
    ("claim", 2),
    ("leave", 4),
    ("leave_all", 1),
    ("reconfigure", 2),
    ("create_missing", 12),
    ("change_topics", 2),
    ("commit", 6),
    ("commit_in_transaction", 2),
    ("end_transaction", 2),
    ("fetch", 3),
    ("delete_offsets", 1),
    ("describe", 6),
    ("list_groups", 2),
    ("delete", 2),
    ("classic_member", 1),
    ("wait", 12),
    ("wait_longer", 3),
    ("wait_for_timer", 2),
    ("leave_for_a_while", 3),
    ("reconfigure_tags", 1),
    ("wait_long", 1),
    ("expire", 1),
    ("restart", 2),
)


@pytest.mark.java
@pytest.mark.seeds(0, HISTORIES)
def test_every_answer_and_record_is_that_of_kafka(kafka: KafkaShard, seed: int) -> None:
    live(kafka, seed)


@pytest.mark.parametrize("seed", range(RECORDED))
def test_every_answer_and_record_is_the_one_that_kafka_gave(recorded: Play, seed: int) -> None:
    live(KafkaShard(recorded(started)), seed)


def live(kafka: KafkaShard, seed: int) -> None:
    rng = Random(seed)
    twins = StreamsTwins(
        kafka,
        streams_max_size=rng.choice((2, 100, 100, 100)),
        streams_num_standby_replicas=rng.choice((0, 1, 2)),
        streams_initial_rebalance_delay_ms=rng.choice((0, 3_000)),
        streams_assignment_interval_ms=rng.choice((0, 1_000)),
    )
    history = History(twins, rng)
    for _ in range(STEPS):
        history.step()


@pytest.mark.java
@pytest.mark.parametrize("seed", range(4))
def test_random_topologies_are_configured_as_by_kafka(kafka: KafkaShard, seed: int) -> None:
    configure(kafka, seed, 60)


def test_random_topologies_are_configured_as_they_were_by_kafka(recorded: Play) -> None:
    configure(KafkaShard(recorded(started)), 0, 30)


def configure(kafka: KafkaShard, seed: int, topologies: int) -> None:
    """One member joins a new group with each; what is missing is created, and the member comes again."""
    rng = Random(seed)
    for _ in range(topologies):
        twins = StreamsTwins(kafka, streams_initial_rebalance_delay_ms=0)
        history = History(twins, rng)
        history.topology = random_topology(rng)
        history.join_new()
        for _ in range(3):
            history.create_missing()
            history.heartbeat_all()
            history.describe()
