"""The same events for our controller and for Apache Kafka 3.9's, or for a recording of what that one did.

Both send the same requests to each broker, in the same order, and write the same tree in ZooKeeper, with the same
versions.
"""

import json
import random
from copy import copy
from typing import Any, Final

from kafkas_controller import CONTROLLER_ID, KafkasSide
from reigning import Cluster

from kpybroker.machines.zookeeper.client.operations import Get
from kpybroker.machines.zookeeper.controller.context import Leadership
from kpybroker.machines.zookeeper.controller.leader_elections import ElectionType
from kpybroker.machines.zookeeper.controller.messages import message_of
from kpybroker.machines.zookeeper.tree import configs, paths, requests
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire import api, codec, error_codes, uuid
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
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.leader_and_isr import LeaderAndIsrRequest
from kpywire.messages.stop_replica import StopReplicaRequest
from kpywire.messages.update_metadata import UpdateMetadataRequest
from oracle.recorded import Asked

BROKERS: Final = (1, 2, 3, 4)
TOPICS: Final = ("a", "b", "c")
STEPS: Final = 60
HAPPENINGS: Final = (
    *("create", "create", "delete", "grow", "kill", "start", "start", "reassign", "cancel", "znode", "elect"),
    *("isr", "isr", "isr", "stale", "shutdown", "directory", "depose"),
)
UNCLEAN: Final = {"unclean.leader.election.enable": "true"}


class AskedKafka:
    """Apache Kafka 3.9 as the controller, asked by words. What it sent and wrote are lines of text."""

    def __init__(self) -> None:
        self._side = KafkasSide()
        self._epochs: dict[int, list[int]] = {}

    def close(self) -> None:
        """End Kafka and ZooKeeper."""
        self._side.__exit__(None, None, None)

    def ask_for_line(self, *words: Any) -> str:
        """Do what the first word says. Return the answer, if there is one."""
        side, (word, *rest) = self._side, words
        match word:
            case "start":
                side.start(rest[0])
                self._epochs.setdefault(rest[0], []).append(side.brokers[rest[0]].epoch)
            case "kill":
                side.kill(rest[0])
            case "create":
                side.admin.create(rest[0], rest[1], sequence=rest[2])
            case "set":
                side.admin.set(*rest)
            case "delete":
                side.admin.delete(*rest)
            case "fail":
                side.brokers[rest[0]].failed = {rest[1]}
            case "settle":
                side.wait_for(rest[0])
            case "exists":
                return str(side.admin.exists(rest[0]) is not None)
            case "call":
                return self._called(*rest)
            case "tree":
                return plain_tree(side.tree())
            case "requests":
                broker = side.brokers[rest[0]]
                plain = [repr(plain_request(each, self._epochs[rest[0]])) for each in broker.requests]
                broker.requests.clear()
                return json.dumps(plain)
        return ""

    def _called(self, request: Any, version: int) -> str:
        if hasattr(request, "broker_epoch"):
            request = copy(request)
            request.broker_epoch = self._side.brokers[request.broker_id].epoch
        return bytes(codec.encode(self._side.client.call(request, version), version)).hex()


class Kafka:
    """Kafka's side as the twins use it; it may be a recording."""

    def __init__(self, asked: Asked) -> None:
        self.brokers: set[int] = set()
        self._ask = asked.ask_for_line

    def start(self, broker_id: int) -> None:
        self._ask("start", broker_id)
        self.brokers.add(broker_id)

    def kill(self, broker_id: int) -> None:
        self._ask("kill", broker_id)
        self.brokers.remove(broker_id)

    def create(self, path: str, content: bytes | None, *, sequence: bool = False) -> None:
        self._ask("create", path, content, sequence)

    def set(self, path: str, content: bytes) -> None:
        self._ask("set", path, content)

    def delete(self, path: str) -> None:
        self._ask("delete", path)

    def exists(self, path: str) -> bool:
        return self._ask("exists", path) == "True"

    def fail(self, broker_id: int, partition: TopicPartition) -> None:
        self._ask("fail", broker_id, partition)

    def settle(self, counts: dict[int, int]) -> None:
        self._ask("settle", counts)

    def call(self, request: Any, version: int) -> Any:
        """The response to a request. The epoch of the broker that asks is filled in."""
        answer = bytes.fromhex(self._ask("call", request, version))
        return codec.decode(api.response_class(request.KEY), version, answer, 0)

    def requests_to(self, broker_id: int) -> list[str]:
        found: list[str] = json.loads(self._ask("requests", broker_id))
        return found

    def tree(self) -> str:
        return self._ask("tree")


class Twins:
    """Both controllers, and what happens to them."""

    def __init__(self, kafka: Kafka, rng: random.Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.ours = Cluster((CONTROLLER_ID,), seed=rng.randrange(2**32))
        self.candidate = self.ours.candidate(CONTROLLER_ID)
        self.settle()
        self.epochs: dict[int, list[int]] = {}
        self.any_order = False
        """Whether requests are compared without their order: which of several reassignments goes on first depends on
        the order of a hash table in Kafka."""
        for broker_id in BROKERS:
            self.start(broker_id)

    # What happens.

    def start(self, broker_id: int) -> None:
        self.any_order |= len(self.candidate.controller.list_reassignments()) > 1
        self.kafka.start(broker_id)
        self.ours.start(broker_id)
        self.settle()
        self.epochs.setdefault(broker_id, []).append(self.ours.brokers[broker_id].epoch)

    def kill(self, broker_id: int) -> None:
        self.kafka.kill(broker_id)
        self.ours.kill(broker_id)
        self.settle()

    def create(self, name: str, replicas: list[tuple[int, ...]], settings: dict[str, str]) -> None:
        self.ours.create_topic(name, replicas, **settings)
        content = self.ours.admin.ask(Get(paths.topic(name))).data
        self.kafka.create(f"/config/topics/{name}", configs.encode_configs(settings))
        self.kafka.create(paths.topic(name), content)
        self.settle()

    def delete(self, name: str) -> None:
        self.ours.delete_topic(name)
        if not self.kafka.exists(paths.delete_topic(name)):
            self.kafka.create(paths.delete_topic(name), None)
        self.settle()

    def grow(self, name: str, replicas: tuple[int, ...]) -> None:
        known = self.ours.assignment(name)
        longer = known.replicas | {len(known.replicas): replicas}
        assigned = TopicAssignment(name, longer, known.topic_id, known.adding, known.removing)
        self.ours.assign(assigned)
        self.kafka.set(paths.topic(name), assigned.encode())
        self.settle()

    def reassign(self, partition: TopicPartition, target: tuple[int, ...] | None) -> None:
        ours = self.candidate.run(self.candidate.controller.alter_reassignments({partition: target}))
        wanted = ReassignablePartition(
            partition_index=partition.partition, replicas=None if target is None else [*target]
        )
        topic = ReassignableTopic(name=partition.topic, partitions=[wanted])
        request = AlterPartitionReassignmentsRequest(timeout_ms=20_000, topics=[topic])
        answer = self.kafka.call(request, 0)
        assert answer.error_code == 0
        assert answer.responses[0].partitions[0].error_code == ours[partition]
        self.settle()

    def reassign_by_znode(self, targets: dict[TopicPartition, tuple[int, ...]]) -> None:
        content = requests.encode_reassignments(targets)
        if self.kafka.exists(paths.REASSIGN_PARTITIONS):
            return
        self.kafka.create(paths.REASSIGN_PARTITIONS, content)
        self.ours.write(paths.REASSIGN_PARTITIONS, content)
        self.settle()

    def elect(self, partitions: list[TopicPartition], election: ElectionType) -> None:
        ours = self.candidate.run(self.candidate.controller.elect_leaders(partitions, election))
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        asked = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
        request = ElectLeadersRequest(election_type=election.value, topic_partitions=asked, timeout_ms=1_000)
        answer = self.kafka.call(request, 2)
        theirs = {
            TopicPartition(each.topic, found.partition_id): found.error_code
            for each in answer.replica_election_results
            for found in each.partition_result
        }
        # the broker waits until its own metadata name the leader, which a broker that only answers may never do
        known = {each: code for each, code in theirs.items() if code != error_codes.REQUEST_TIMED_OUT}
        assert known == {each: ours[each] for each in known}
        self.settle()

    def alter_isr(self, partition: TopicPartition, isr: tuple[int, ...], *, stale: int = 0) -> None:
        state = self.ours.state(*partition)
        epoch = self.ours.state_epoch(*partition) - stale
        leader = self.ours.brokers[state.leader]
        wanted = LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, isr, state.controller_epoch)
        controller = self.candidate.controller
        ours = self.candidate.run(
            controller.alter_partition(state.leader, leader.epoch, {partition: Leadership(wanted, epoch)})
        )
        assigned = self.ours.assignment(partition.topic)
        change = AlterPartitionRequestPartitionData(
            partition_index=partition.partition,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=each, broker_epoch=-1) for each in isr],
            leader_recovery_state=0,
            partition_epoch=epoch,
        )
        topic = AlterPartitionRequestTopicData(topic_id=assigned.topic_id or uuid.ZERO_UUID, partitions=[change])
        request = AlterPartitionRequest(broker_id=state.leader, broker_epoch=-1, topics=[topic])
        answer = self.kafka.call(request, 3)
        assert answer.error_code == 0
        (theirs,) = answer.topics[0].partitions
        outcome = ours[partition]
        if isinstance(outcome, Leadership):
            assert (theirs.error_code, theirs.isr, theirs.partition_epoch, theirs.leader_id, theirs.leader_epoch) == (
                0,
                list(outcome.state.isr),
                outcome.partition_epoch,
                outcome.state.leader,
                outcome.state.leader_epoch,
            )
        else:
            assert theirs.error_code == outcome
        self.candidate.run(controller.complete_reassignments(ours))
        self.settle()

    def shut_down(self, broker_id: int) -> None:
        epoch = self.ours.brokers[broker_id].epoch
        ours = self.candidate.run(self.candidate.controller.controlled_shutdown(broker_id, epoch))
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=-1)
        answer = self.kafka.call(request, 3)
        theirs = {TopicPartition(each.topic_name, each.partition_index) for each in answer.remaining_partitions}
        assert (answer.error_code, theirs) == (0, set(ours))
        self.settle()

    def fail_directory(self, broker_id: int, partition: TopicPartition) -> None:
        self.kafka.fail(broker_id, partition)
        self.ours.brokers[broker_id].failed = {partition}
        content = requests.encode_log_dir_failure(broker_id)
        self.kafka.create(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", content, sequence=True)
        self.ours.write(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", content, is_sequential=True)
        self.settle()

    def depose(self) -> None:
        self.any_order = True
        self.kafka.delete(paths.CONTROLLER)
        self.ours.remove(paths.CONTROLLER)
        self.settle()

    # What is compared.

    def settle(self) -> None:
        self.ours.settle()
        self.kafka.settle({each: len(self.ours.brokers[each].requests) for each in sorted(self.kafka.brokers)})

    def compare(self) -> None:
        for broker_id in sorted(self.kafka.brokers):
            theirs = self.kafka.requests_to(broker_id)
            sent = self.ours.brokers[broker_id].requests
            messages = [message_of(each, CONTROLLER_ID, "PLAINTEXT") for each in sent]
            ours = [repr(plain_request(each, self.epochs[broker_id])) for each in messages]
            if self.any_order:
                ours, theirs = sorted(ours), sorted(theirs)
            assert ours == theirs, f"the requests to broker {broker_id} differ"
            sent.clear()
        self.any_order = False
        assert self._our_tree() == self.kafka.tree()

    def _our_tree(self) -> str:
        nodes = self.ours.server.nodes
        kept = {path: (node.data, node.version) for path, node in nodes.items() if not path.startswith("/zookeeper")}
        return plain_tree(kept)


def plain_request(message: Any, epochs: list[int]) -> Any:
    """A request without ports, and with the ordinal of the broker's registration as the epoch."""
    start = (
        type(message).__name__,
        message.controller_id,
        message.controller_epoch,
        message.is_kraft_controller,
        epochs.index(message.broker_epoch),
    )
    topics = {each.topic_name: each for each in message.topic_states}
    partitions = {
        (name, each.partition_index): each for name, topic in sorted(topics.items()) for each in _sorted(topic)
    }
    if isinstance(message, StopReplicaRequest):
        return (*start, partitions)
    ids = {name: topic.topic_id for name, topic in sorted(topics.items())}
    if isinstance(message, LeaderAndIsrRequest):
        return (*start, message.type, ids, partitions, sorted(each.broker_id for each in message.live_leaders))
    assert isinstance(message, UpdateMetadataRequest)
    brokers = sorted((each.id, each.rack, [end.listener for end in each.endpoints]) for each in message.live_brokers)
    return (*start, message.type, ids, partitions, brokers)


def _sorted(topic: Any) -> list[Any]:
    return sorted(topic.partition_states, key=lambda each: each.partition_index)


def plain_tree(tree: dict[str, tuple[bytes | None, int]]) -> str:
    """The znodes that the controller writes, without times, as one text."""
    written = (paths.TOPICS, "/admin", "/config/topics", paths.LOG_DIR_EVENTS, paths.ISR_CHANGES, "/controller")
    plain = {}
    for path, (content, version) in tree.items():
        if not path.startswith(written):
            continue
        value = json.loads(content) if content and path != paths.CONTROLLER else None
        plain[path] = (value, version if path.endswith("/state") or path.count("/") == 3 else None)
    return json.dumps(plain, sort_keys=True)


def one_step(twins: Twins) -> None:
    """Something that may happen now. Partitions without a state are left alone: Kafka answers
    nothing to elections of them, and fails in the middle of their reassignment."""
    rng, ours = twins.rng, twins.ours
    topics = ours.children(paths.TOPICS)
    alive, absent = sorted(twins.kafka.brokers), sorted(set(BROKERS) - twins.kafka.brokers)

    def replicas() -> tuple[int, ...]:
        return tuple(rng.sample(BROKERS, rng.randint(1, 3)))

    def partition() -> TopicPartition:
        name = rng.choice(topics)
        return TopicPartition(name, rng.randrange(len(ours.assignment(name).replicas)))

    happening = rng.choice(HAPPENINGS)
    if happening == "create" and len(topics) < len(TOPICS):
        name = rng.choice([each for each in TOPICS if each not in topics])
        chosen = [replicas() for _ in range(rng.randint(1, 3))]
        twins.create(name, chosen, rng.choice([{}, UNCLEAN]))
    elif happening == "kill" and len(alive) > 1:
        twins.kill(rng.choice(alive))
    elif happening == "start" and absent:
        twins.start(rng.choice(absent))
    elif happening == "shutdown" and alive:
        twins.shut_down(rng.choice(alive))
    elif happening == "depose":
        twins.depose()
    elif topics:
        one_step_with_topics(twins, happening, partition(), replicas())


def one_step_with_topics(twins: Twins, happening: str, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
    rng, alive = twins.rng, sorted(twins.kafka.brokers)
    has_state = twins.ours.is_there(paths.partition_state(*partition))
    match happening:
        case "delete":
            twins.delete(partition.topic)
        case "grow":
            twins.grow(partition.topic, replicas)
        case "reassign" if has_state:
            twins.reassign(partition, replicas)
        case "cancel" if has_state:
            twins.reassign(partition, None)
        case "znode" if has_state:
            twins.reassign_by_znode({partition: replicas})
        case "elect" if has_state:
            twins.elect([partition], rng.choice(list(ElectionType)))
        case "directory":
            twins.fail_directory(rng.choice(alive), partition)
        case "isr" | "stale" if has_state:
            state = twins.ours.state(*partition)
            if state.leader in twins.kafka.brokers:
                assigned = twins.ours.assignment(partition.topic).replicas[partition.partition]
                isr = tuple(each for each in assigned if each == state.leader or rng.random() < 0.8)
                twins.alter_isr(partition, isr, stale=happening == "stale")


def played(asked: Asked, seed: int) -> None:
    """Let the same things happen to both, and compare after each."""
    twins = Twins(Kafka(asked), random.Random(seed))
    twins.compare()
    for _ in range(STEPS):
        one_step(twins)
        twins.compare()
