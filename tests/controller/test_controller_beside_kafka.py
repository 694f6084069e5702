"""The same requests to a controller and to Kafka's own: brokers come and go, partitions move, are called off, lose and
find leaders. The same answers, and the same cluster after each."""

import base64
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

import pytest
from controller_world import CLUSTER_ID, ControllerWorld, directory_of, topic_request

from kpybroker.machines.controller.controller import ElectPreferredLeaders, ElectUncleanLeaders
from kpybroker.machines.metadata.image import ELR_VERSION
from kpybroker.machines.metadata.image_records import record_version
from kpybroker.machines.metadata.topic import RECOVERED, RECOVERING, Partition
from kpywire import api, codec, uuid
from kpywire.messages import assign_replicas_to_dirs as to_dirs
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.metadata_records import encode_record
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

LIVES: Final = 60
RECORDED: Final = 8
STEPS: Final = 80
IDS: Final = (1, 2, 3, 4, 5)
UNKNOWN_ID: Final = 9
SESSION_MS: Final = 9_000
LEVELS: Final = (33, 33, 30, 17, 9)
"""The levels of ``metadata.version``: the last one, that of Kafka 4.3, with log directories, without them."""


def started() -> AskedOracle:
    return AskedOracle("ControllerOracle.java", "org.apache.kafka.controller.ControllerOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


class Twins:
    """A controller here and Kafka's. The test is brokers, leaders and operators."""

    def __init__(self, kafka: Asked, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.events: list[str] = []
        self.with_elr = rng.random() < 0.4
        level = rng.choice((30, 33)) if self.with_elr else rng.choice(LEVELS)
        self.world = ControllerWorld(level, {ELR_VERSION: 1} if self.with_elr else None)
        kafka.ask_for_line("begin", CLUSTER_ID)
        self.replay(0, f"level {level}{' with ELR' * self.with_elr}")

    # Both.

    def notified(self, answer: str, reported: str) -> None:
        theirs, ours = answer.split("; "), self.state()
        differing = [f"kafka {one}\nhere  {other}" for one, other in zip(theirs, ours, strict=True) if one != other]
        assert not differing, "\n".join([*self.events, reported, *differing])
        self.events.append(reported)

    def replay(self, start: int, reported: str) -> None:
        """Give Kafka the records that were written here."""
        level = self.world.image.level
        records = [encode_record(each, record_version(each, level)) for each in self.world.log[start:]]
        if records:
            line = self.kafka.ask_for_line("records", ",".join(base64.b64encode(each).decode() for each in records))
            self.notified(line.split("\t")[1], reported)

    def ask(self, request: Any) -> Any:
        """The answer here, which is that of Kafka."""
        version = type(request).VERSIONS[-1]
        body = base64.b64encode(codec.encode(request, version)).decode()
        offset = len(self.world.log)
        reported = f"{offset}: {request}"
        answer = self.world.send(request)
        theirs, state = self.kafka.ask_for_line("ask", type(request).KEY, version, offset, body).split("\t")
        if theirs.startswith("error "):
            assert theirs == f"error {answer.error_code}", "\n".join([*self.events, reported])
        else:
            decoded = codec.decode(api.response_class(type(request).KEY), version, base64.b64decode(theirs), 0)
            assert plain(answer) == plain(decoded), "\n".join(
                [*self.events, reported, f"kafka {decoded}\nhere  {answer}"]
            )
        self.notified(state, f"{reported} -> {answer}")
        return answer

    def on_timer(self, word: str, event: Any) -> None:
        self.world.decide(event)
        self.notified(self.kafka.ask_for_line(word).split("\t")[1], word)

    def pass_time(self, passed_ms: int) -> None:
        self.world.now_ms += passed_ms
        self.kafka.ask_for_line("pass", passed_ms)

    # What is seen of it.

    def state(self) -> list[str]:
        image = self.world.image
        known = [
            f"broker {each.id} epoch={each.epoch} fenced={str(each.fenced).lower()} "
            f"leaving={str(each.in_controlled_shutdown).lower()} in={names(each.directories, in_order=True)}"
            for _, each in sorted(image.brokers.items())
        ]
        for name, topic in sorted(image.topics.items()):
            known += [f"{name}-{index} {described(each)}" for index, each in sorted(topic.partitions.items())]
        return known or [""]

    # Brokers.

    def directories(self, broker_id: int) -> list[bytes]:
        return [directory_of(broker_id, number) for number in range(1 if broker_id % 2 else 2)]

    def epoch(self, broker_id: int) -> int:
        broker = self.world.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def register(self) -> None:
        rng, broker_id = self.rng, self.rng.choice(IDS)
        self.pass_time(SESSION_MS + 1)
        clean = rng.random() < 0.5
        self.ask(
            self.world.registration(
                broker_id,
                incarnation_id=rng.randbytes(16) if rng.random() < 0.9 else bytes([broker_id]) * 16,
                log_dirs=self.directories(broker_id)[: rng.choice((1, 2, 2, 2))],
                previous_broker_epoch=self.epoch(broker_id) if clean else -1,
            )
        )

    def heartbeat(self, broker_id: int | None = None, **fields: Any) -> None:
        rng = self.rng
        broker_id = rng.choice(IDS) if broker_id is None else broker_id
        epoch = self.epoch(broker_id)
        if not fields:
            epoch = epoch if rng.random() < 0.95 else 77_777
            fields = {"want_fence": rng.random() < 0.2, "want_shut_down": rng.random() < 0.2}
            if rng.random() < 0.2 and self.world.image.level >= 17:
                fields["offline_log_dirs"] = rng.sample(self.directories(broker_id), 1)
            if self.world.state.heartbeats.is_shutting_down(broker_id):
                self.catch_up()
        current = len(self.world.log) - 1
        broker = self.world.image.brokers.get(broker_id)
        if broker is not None and broker.fenced and rng.random() < 0.1:
            current = 0
        self.ask(
            BrokerHeartbeatRequest(
                **{
                    "broker_id": broker_id,
                    "broker_epoch": epoch,
                    "current_metadata_offset": current,
                    "want_fence": False,
                    "want_shut_down": False,
                    **fields,
                }
            )
        )

    def catch_up(self) -> None:
        """All have read everything: who leaves waits for others here until they know that it leads nothing any more,
        in Kafka until they know of its last heartbeat."""
        for broker_id, broker in sorted(self.world.image.brokers.items()):
            if not broker.fenced and not self.world.state.heartbeats.is_shutting_down(broker_id):
                self.heartbeat(broker_id, want_fence=False)

    def unregister(self) -> None:
        if self.rng.random() < 0.3:
            self.ask(UnregisterBrokerRequest(broker_id=self.rng.choice((*IDS, UNKNOWN_ID))))

    def assign_directories(self) -> None:
        topic, index, _ = self.a_partition()
        broker_id = self.rng.choice(IDS)
        if self.epoch(broker_id) < 0:
            return
        directory = self.rng.choice(self.directories(broker_id))
        partition = to_dirs.AssignReplicasToDirsRequestPartitionData(partition_index=index)
        topic_id = self.world.image.topics[topic].id
        topics = [to_dirs.AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=[partition])]
        directories = [to_dirs.AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)]
        request = to_dirs.AssignReplicasToDirsRequest
        self.ask(request(broker_id=broker_id, broker_epoch=self.epoch(broker_id), directories=directories))

    # Partitions.

    def a_partition(self) -> tuple[str, int, Partition]:
        topics = self.world.image.topics
        name = self.rng.choice(sorted(topics))
        index = self.rng.choice(sorted(topics[name].partitions))
        return name, index, topics[name].partitions[index]

    def create(self) -> None:
        rng, topics = self.rng, self.world.image.topics
        if len(topics) >= 3 or not self.world.image.brokers:
            return
        assignments = {index: rng.sample(IDS, 3 if rng.random() < 0.5 else 2) for index in range(2)}
        assignments[1] = assignments[1][:2] if len(assignments[0]) == 2 else [*assignments[1], *IDS][:3]
        configs = {"unclean.leader.election.enable": rng.choice(("true", "false", "false"))}
        configs["min.insync.replicas"] = str(rng.randint(1, 3))
        start = len(self.world.log)
        request = topic_request(f"t{len(topics)}", assignments=assignments, configs=configs)
        self.world.create(request)
        self.replay(start, f"created {request}")

    def create_partitions(self) -> None:
        name, _, partition = self.a_partition()
        partitions = self.world.image.topics[name].partitions
        present = len(partitions)
        # Where they differ, Kafka compares with the partition that its hash table has first.
        if present < 4 and len({len(each.replicas) for each in partitions.values()}) == 1:
            assigned = CreatePartitionsAssignment(broker_ids=self.some_brokers(len(partition.replicas)))
            wanted = CreatePartitionsTopic(name=name, count=present + 1, assignments=[assigned])
            self.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1_000, validate_only=False))

    def alter_partition(self) -> None:
        rng = self.rng
        name, index, partition = self.a_partition()
        leader = partition.leader if partition.leader >= 0 and rng.random() < 0.95 else rng.choice(IDS)
        if self.epoch(leader) < 0:
            return
        others = [each for each in partition.replicas if each != leader]
        wanted = [leader, *(others if rng.random() < 0.5 else rng.sample(others, rng.randint(0, len(others))))]
        members = [
            BrokerState(broker_id=each, broker_epoch=self.epoch(each) if rng.random() < 0.95 else 77_777)
            for each in wanted
        ]
        data = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch - (rng.random() < 0.05),
            new_isr_with_epochs=members,
            leader_recovery_state=partition.leader_recovery_state
            if rng.random() < 0.7
            else rng.choice((RECOVERED, RECOVERING)),
            partition_epoch=partition.partition_epoch - (rng.random() < 0.05),
        )
        topic_id = self.world.image.topics[name].id
        topics = [AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[data])]
        self.ask(AlterPartitionRequest(broker_id=leader, broker_epoch=self.epoch(leader), topics=topics))

    def some_brokers(self, count: int) -> list[int]:
        found = self.rng.sample(IDS, count)
        if self.rng.random() < 0.1:
            found[0] = self.rng.choice((UNKNOWN_ID, found[-1]))
        return found

    def reassign(self) -> None:
        """Also one that is under way already, to brokers that are down, and back."""
        if self.with_elr:
            return  # here who has left with a reassignment is eligible no more
        rng = self.rng
        name, index, partition = self.a_partition()
        replicas: list[int] | None = self.some_brokers(rng.choice((1, 2, 2, 3, 3)))
        if rng.random() < (0.4 if partition.is_reassigning else 0.1):
            replicas = None
        elif not set(partition.adding_replicas) <= set(replicas or ()):
            # Kafka goes on to wait for a replica that nobody wants any more, unless others are wanted as well.
            replicas = [*partition.adding_replicas, *replicas] if replicas else None
        wanted = [ReassignablePartition(partition_index=index, replicas=replicas)]
        self.ask(
            AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name=name, partitions=wanted)],
                allow_replication_factor_change=rng.random() < 0.7,
            )
        )
        self.ask(ListPartitionReassignmentsRequest(topics=None))

    def elect(self) -> None:
        name, index, _ = self.a_partition()
        wanted = [TopicPartitions(topic=name, partitions=[index])] if self.rng.random() < 0.7 else None
        self.ask(ElectLeadersRequest(election_type=self.rng.choice((0, 1)), topic_partitions=wanted))

    def live(self, steps: int) -> None:
        while not self.world.image.topics:
            for _ in range(4):
                self.register()
            for broker_id in sorted(self.world.image.brokers):
                self.heartbeat(broker_id, want_fence=False)
            self.create()
        choices: Sequence[tuple[Callable[[], object], int]] = (
            (self.register, 2),
            (self.heartbeat, 6),
            (self.unregister, 1),
            (self.assign_directories, 1),
            (self.create, 1),
            (self.create_partitions, 1),
            (self.alter_partition, 8),
            (self.reassign, 5),
            (self.elect, 2),
            (lambda: self.on_timer("unclean", ElectUncleanLeaders()), 1),
            (lambda: self.on_timer("preferred", ElectPreferredLeaders()), 1),
        )
        actions, weights = zip(*choices, strict=True)
        for action in self.rng.choices(actions, weights, k=steps):
            action()


def names(directories: Sequence[bytes], *, in_order: bool = False) -> str:
    found = [uuid.to_string(each) for each in directories]
    return f"[{','.join(sorted(found) if in_order else found)}]"


def described(partition: Partition) -> str:
    return (
        f"replicas={list(partition.replicas)} in={names(partition.directories)} isr={list(partition.isr)} "
        f"removing={list(partition.removing_replicas)} adding={list(partition.adding_replicas)} "
        f"elr={list(partition.elr)} last={list(partition.last_known_elr)} leader={partition.leader} "
        f"recovery={partition.leader_recovery_state} epochs={partition.leader_epoch},{partition.partition_epoch}"
    )


def plain(message: Any) -> Any:
    """A response without the order of its lists, which are Kafka's hash tables."""
    if isinstance(message, list):
        return sorted((plain(each) for each in message), key=repr)
    fields = getattr(type(message), "__slots__", None)
    return message if fields is None else {name: plain(getattr(message, name)) for name in fields}


@pytest.mark.java
@pytest.mark.parametrize("seed", range(LIVES))
def test_both_decide_the_same(kafka: AskedOracle, seed: int) -> None:
    twins = Twins(kafka, Random(seed))
    twins.live(STEPS)
    assert len(twins.events) > STEPS / 2


@pytest.mark.parametrize("seed", range(RECORDED))
def test_decisions_are_those_that_kafka_made(recorded: Play, seed: int) -> None:
    Twins(recorded(started), Random(seed)).live(STEPS)
