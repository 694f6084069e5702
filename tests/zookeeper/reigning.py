"""A cluster of brokers that only register and answer, and controllers over it, on a simulated ZooKeeper."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from simulated import SimulatedZooKeeper

from kpybroker.machines.zookeeper.client.frames import Greeting, WatchedEvent, request
from kpybroker.machines.zookeeper.client.jute import JuteReader
from kpybroker.machines.zookeeper.client.operations import (
    Create,
    Delete,
    Get,
    GetChildren,
    Operation,
    OperationFailed,
    Set,
)
from kpybroker.machines.zookeeper.controller import events
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest, LeaderAndIsr, StopReplica
from kpybroker.machines.zookeeper.controller.controller import KafkaController
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.machines.zookeeper.controller.steps import ControllerMoved, Steps
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from kpywire import error_codes

EVENT_XID = -1


class Asker:
    """A session whose requests are answered at once."""

    def __init__(self, server: SimulatedZooKeeper) -> None:
        self.events: list[WatchedEvent] = []
        self._answers: list[bytes] = []
        self._connection = server.accept(self._taken, lambda: None)
        self._connection.received(Greeting(0, 10_000, 0, bytes(16)).frame())
        self._answers.clear()
        assert self._connection.session is not None
        self.session_id = self._connection.session.session_id

    def _taken(self, frame: bytes) -> None:
        source = JuteReader(frame)
        if source.int32() == EVENT_XID:
            source.int64()
            source.int32()
            event = WatchedEvent.read(source)
            if event is not None:
                self.events.append(event)
        else:
            self._answers.append(frame)

    def ask(self, operation: Operation) -> Any:
        """The result of an operation, or ``OperationFailed``."""
        out = request(1, operation.code)
        operation.write(out, "")
        self._connection.received(out.frame())
        source = JuteReader(self._answers.pop())
        source.int32()
        source.int64()
        code = source.int32()
        return operation.read(source, "") if code == 0 else OperationFailed(code)


class Broker:
    """A registered broker. It answers what the controller sends; ``failed`` are replicas in a failed directory."""

    def __init__(self, cluster: "Cluster", broker_id: int) -> None:
        self.id = broker_id
        self.failed: set[TopicPartition] = set()
        self.requests: list[BrokerRequest] = []
        self._server = cluster.server
        self._session = Asker(cluster.server)
        self.register()

    def register(self) -> None:
        endpoint = ZkEndpoint("PLAINTEXT", "127.0.0.1", 9092 + self.id)
        registration = Registration(self.id, (endpoint,), {"PLAINTEXT": "PLAINTEXT"})
        made = Create(registration.path, registration.encode(), is_ephemeral=True)
        created = self._session.ask(made)
        assert not isinstance(created, OperationFailed)

    @property
    def epoch(self) -> int:
        epoch: int = self._session.ask(Get(paths.broker(self.id))).stat.czxid
        return epoch

    def die(self) -> None:
        self._server.expire(self._session.session_id)

    def answer(self, sent: BrokerRequest) -> events.Event | None:
        self.requests.append(sent)
        if isinstance(sent, LeaderAndIsr):
            errors = {each: self._error(each) for each in sent.partitions}
            return events.LeaderAndIsrResponseReceived(self.id, error_codes.NONE, errors)
        if isinstance(sent, StopReplica):
            deleted = [each for each, stop in sent.partitions.items() if stop.deletes]
            errors = {each: self._error(each) for each in deleted}
            return events.TopicDeletionStopReplicaResponseReceived(self.id, error_codes.NONE, errors)
        return None

    def _error(self, partition: TopicPartition) -> int:
        return error_codes.KAFKA_STORAGE_ERROR if partition in self.failed else error_codes.NONE


class Candidate:
    """A controller with its session, its events that wait, and the requests that it sent."""

    def __init__(self, cluster: "Cluster", broker_id: int, settings: ControllerSettings) -> None:
        self.cluster = cluster
        self.log: list[str] = []
        self.sent: list[BrokerRequest] = []
        self.waiting: list[events.Event] = []
        self.session = Asker(cluster.server)
        self.controller = KafkaController(
            broker_id,
            settings,
            send=self._send,
            log=self.log.append,
            random_bytes=cluster.rng.randbytes,
        )
        self.on_step: Callable[[], object] = lambda: None
        """Called before each operations of an event are done."""

    def _send(self, requests: list[BrokerRequest]) -> None:
        self.sent += requests

    def run(self, steps: Steps[Any]) -> Any:
        """Do an event to its end. A controller that was replaced abdicates."""
        try:
            operations = next(steps)
            while True:
                self.on_step()
                operations = steps.send([self.session.ask(each) for each in operations])
        except StopIteration as stop:
            return stop.value
        except ControllerMoved:
            self.controller.abdicate()
            return None

    def stand(self) -> None:
        self.run(self.controller.controller_changed(0))

    def catch_up(self) -> bool:
        """Handle what has come: watches, and the answers of brokers. Whether anything had."""
        for event in self.session.events:
            caused = events.event_of(event.path)
            if caused is not None:
                self.waiting.append(caused)
        self.session.events.clear()
        busy = bool(self.waiting or self.sent)
        sent, self.sent = self.sent, []
        for each in sent:
            broker = self.cluster.brokers.get(each.receiver)
            answer = None if broker is None else broker.answer(each)
            if answer is not None:
                self.waiting.append(answer)
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if isinstance(each, events.ControllerChange):
                self.run(self.controller.controller_changed(0))
            else:
                self.run(self.controller.handle(each))
        return busy


class Cluster:
    """Brokers and candidates around one tree."""

    def __init__(self, broker_ids: Sequence[int] = (1, 2, 3), seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.server = SimulatedZooKeeper(self.rng)
        self.admin = Asker(self.server)
        made: set[str] = set()
        for path in (*paths.PERSISTENT, paths.CLUSTER_ID):
            parts = path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                parent = "/" + "/".join(parts[:depth])
                if parent not in made:
                    self.admin.ask(Create(parent, None))
                    made.add(parent)
        self.brokers: dict[int, Broker] = {}
        self.candidates: list[Candidate] = []
        for broker_id in broker_ids:
            self.start(broker_id)

    def start(self, broker_id: int) -> Broker:
        self.brokers[broker_id] = Broker(self, broker_id)
        return self.brokers[broker_id]

    def kill(self, broker_id: int) -> None:
        self.brokers.pop(broker_id).die()

    def candidate(self, broker_id: int = 1, settings: ControllerSettings | None = None) -> Candidate:
        candidate = Candidate(self, broker_id, settings or ControllerSettings())
        self.candidates.append(candidate)
        candidate.stand()
        return candidate

    def settle(self) -> None:
        """Until nothing happens any more."""
        for _ in range(500):
            busy = [each.catch_up() for each in self.candidates]
            if not any(busy):
                return
        raise AssertionError("the cluster does not settle")

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
        self.admin.ask(Create(f"/config/topics/{name}", configs.encode_configs(config)))
        assigned = {index: tuple(each) for index, each in enumerate(replicas)}
        topic_id = self.rng.randbytes(16)
        created = self.admin.ask(Create(paths.topic(name), TopicAssignment(name, assigned, topic_id).encode()))
        assert not isinstance(created, OperationFailed)

    def assign(self, assignment: TopicAssignment) -> None:
        self.admin.ask(Set(paths.topic(assignment.name), assignment.encode()))

    def delete_topic(self, name: str) -> None:
        self.admin.ask(Create(paths.delete_topic(name), None))

    def state(self, name: str, partition: int = 0) -> LeaderIsrAndControllerEpoch:
        path = paths.partition_state(name, partition)
        return LeaderIsrAndControllerEpoch.decode(path, self.admin.ask(Get(path)).data)

    def state_epoch(self, name: str, partition: int = 0) -> int:
        version: int = self.admin.ask(Get(paths.partition_state(name, partition))).stat.version
        return version

    def assignment(self, name: str) -> TopicAssignment:
        return TopicAssignment.decode(name, self.admin.ask(Get(paths.topic(name))).data)

    def children(self, path: str) -> list[str]:
        found = self.admin.ask(GetChildren(path))
        return [] if isinstance(found, OperationFailed) else sorted(found.names)

    def is_there(self, path: str) -> bool:
        return not isinstance(self.admin.ask(Get(path)), OperationFailed)

    def write(self, path: str, content: bytes, *, is_sequential: bool = False) -> None:
        self.admin.ask(Create(path, content, is_sequential=is_sequential))

    def remove(self, path: str) -> None:
        self.admin.ask(Delete(path))
