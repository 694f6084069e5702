"""A cluster in a simulated ZooKeeper that migrates: one metadata log, and controllers whose steps are interleaved."""

import random
from collections.abc import Mapping
from typing import Any

from reigning import Asker, Cluster

from kpybroker.config.dynamic import is_password
from kpybroker.machines.config_def import Password
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, PRE_MIGRATION, TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER_CHANGE
from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Get, GetChildren, Multi, OperationFailed, ZnodeAcl
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest
from kpybroker.machines.zookeeper.controller.context import LiveBroker
from kpybroker.machines.zookeeper.controller.steps import Steps
from kpybroker.machines.zookeeper.migration import differences, reading, wanted
from kpybroker.machines.zookeeper.migration.broker_passwords import BrokerPasswords
from kpybroker.machines.zookeeper.migration.driver import Append, MigrationDriver, MigrationDriverState
from kpybroker.machines.zookeeper.migration.reading import Tree
from kpybroker.machines.zookeeper.migration.records import Copying
from kpybroker.machines.zookeeper.tree import controller, paths
from kpybroker.machines.zookeeper.tree.passwords import Encoding
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord

LEVEL = 21
VOTERS = (3000, 3001, 3002)
PASSWORDS = BrokerPasswords(is_password, Encoding(Password("secret"), iterations=1_024), random.Random(1).randbytes)


def open_acl(_path: str) -> tuple[ZnodeAcl, ...]:
    return OPEN_ACL


def encoded_beside(tree: Tree) -> wanted.Encoded:
    """Encrypts passwords, unless the znodes have them already."""

    def encoded(path: str, values: Mapping[str, str]) -> dict[str, str]:
        held = tree.get(path)
        return PASSWORDS.encoded(path, values, None if held is None else held.data)

    return encoded


class Driven:
    """One controller: its driver, its session, and the step that is under way."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.node_id = node_id
        self.session = Asker(world.cluster.server)
        self.sent: list[BrokerRequest] = []
        self._world = world
        self._steps: Any = None
        self._answer: Any = None
        self.driver = MigrationDriver(
            node_id,
            world.image,
            voters=lambda: VOTERS,
            send=self._send,
            log=world.log.append,
            acl_of=open_acl,
            copying=Copying(lambda: world.rng.randbytes(16), PASSWORDS),
        )

    def _send(self, _brokers: Mapping[int, LiveBroker], requests: list[BrokerRequest]) -> None:
        self.sent += requests

    def turn(self) -> None:
        """One piece of work: the operations that a step asks for. A write whose answer is lost is sent again."""
        if self._steps is None:
            self._steps, self._answer = self.driver.step(0), None
        try:
            asked = self._steps.send(self._answer)
        except StopIteration:
            self._steps = None
            return
        if isinstance(asked, Append):
            self._answer = self._world.append(self.node_id, asked.records)
            return
        self._answer = [self._ask(each) for each in asked]

    def _ask(self, operation: Any) -> Any:
        if isinstance(operation, Multi) and self._world.rng.random() < self._world.loss:
            self.session.ask(operation)
        return self.session.ask(operation)

    def interrupt(self) -> None:
        """The session ends in the middle of a step."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None
        self.session = Asker(self._world.cluster.server)
        self.driver.interrupted()

    def settle(self) -> None:
        for _ in range(3_000):
            if self._steps is None and self.driver.is_idle:
                return
            self.turn()
        raise AssertionError(f"{self.driver.phase}: {self.driver.obstacle}")


class World:
    """The cluster, the log and the controllers."""

    def __init__(self, seed: int, topics: int = 3) -> None:
        self.rng = random.Random(seed ^ 0x5EED)  # another one than that of the cluster
        self.log: list[str] = []
        self.loss = 0.0
        """How often the answer to a write is lost."""
        self.image = MetadataImage("cluster")
        self.cluster = Cluster((1, 2, 3), seed)
        self.offset = 0
        self.epoch = 0
        self.leader = -1
        candidate = self.cluster.candidate(1)
        for number in range(topics):
            self.cluster.create_topic(f"topic-{number}", [self.rng.sample([1, 2, 3], 2) for _ in range(2)])
        self.cluster.settle()
        assert candidate.controller.is_active
        self.controllers = {node_id: Driven(self, node_id) for node_id in VOTERS}

    # The log

    def append(self, node_id: int, records: list[Any]) -> int | None:
        """Commit records of the leader, and publish them."""
        if node_id != self.leader:
            return None
        delta = MetadataDelta(self.offset)
        for record in records:
            self.image.apply(record, self.offset, delta)
            self.offset += 1
        self.image.epoch = self.epoch
        delta.next_offset = self.offset
        if self.image.transaction_offset < 0:
            for each in self.controllers.values():
                each.driver.published(self.image, delta)
        return self.offset

    def elect(self, node_id: int) -> None:
        """Another controller leads the quorum; it aborts the transaction that the one before left open."""
        from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord

        self.epoch += 1
        former, self.leader = self.leader, node_id
        if former in self.controllers:
            self.controllers[former].driver.follow()
        if self.image.transaction_offset >= 0:
            self.append(node_id, [AbortTransactionRecord(reason="Controller failover")])
        if self.image.metadata_version is None:
            self.append(
                node_id,
                [
                    FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
                    ZkMigrationStateRecord(zk_migration_state=PRE_MIGRATION),
                    *(
                        RegisterControllerRecord(
                            controller_id=each,
                            incarnation_id=bytes(16),
                            zk_migration_ready=True,
                            end_points=[],
                            features=[],
                        )
                        for each in VOTERS
                    ),
                ],
            )
        self.controllers[node_id].driver.lead(self.epoch)

    def register(self, broker_id: int, *, is_migrating: bool = True) -> None:
        point = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092 + broker_id, security_protocol=0)
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            is_migrating_zk_broker=is_migrating,
            incarnation_id=bytes(16),
            broker_epoch=self.offset,
            end_points=[point],
            features=[],
            rack=None,
            fenced=False,
        )
        self.append(self.leader, [record])

    def change(self) -> None:
        """A random change of the metadata, once they are copied."""
        image, rng = self.image, self.rng
        topics = list(image.topics.values())
        kind = rng.randrange(9)
        records: list[Any] = []
        if kind == 0 or not topics:
            name, topic_id = f"new-{self.offset}", rng.randbytes(16)
            records.append(TopicRecord(name=name, topic_id=topic_id))
            records += [self._partition(topic_id, number) for number in range(rng.randint(1, 3))]
        elif kind == 1:
            records.append(RemoveTopicRecord(topic_id=rng.choice(topics).id))
        elif kind == 2:
            records.append(
                ConfigRecord(
                    resource_type=rng.choice([TOPIC_RESOURCE, BROKER_RESOURCE]),
                    resource_name="",
                    name="retention.ms",
                    value=rng.choice([None, "1", "2"]),
                )
            )
            if records[0].resource_type == TOPIC_RESOURCE:
                records[0].resource_name = rng.choice(topics).name
            else:
                records[0].name = rng.choice(["log.retention.ms", "ssl.key.password"])
        elif kind == 3:
            records.append(self._quota())
        elif kind == 4:
            records.append(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=self._next_block()))
        elif kind == 5:
            records.append(self._acl())
        elif kind == 6:
            records += [self._token(), self._user()]
        else:
            topic = rng.choice(topics)
            for number in topic.partitions:
                leader = rng.choice([1, 2, 3, -1, NO_LEADER_CHANGE])
                isr = rng.sample([1, 2, 3], rng.randint(1, 3))
                records.append(PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=leader, isr=isr))
        self.append(self.leader, [each for each in records if each is not None])

    def _partition(self, topic_id: bytes, number: int) -> PartitionRecord:
        replicas = self.rng.sample([1, 2, 3], 2)
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            adding_replicas=[],
            removing_replicas=[],
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
        )

    def _next_block(self) -> int:
        return max(self.image.next_producer_id, 0) + 1_000

    def _quota(self) -> ClientQuotaRecord:
        entity = self.rng.choice(
            [[("user", "al ice")], [("user", None)], [("client-id", "c 1")], [("client-id", "c/1"), ("user", "al ice")]]
        )
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        return ClientQuotaRecord(entity=parts, key="producer_byte_rate", value=1024.0, remove=self.rng.random() < 0.4)

    def _acl(self) -> Any:
        known = list(self.image.acls)
        if known and self.rng.random() < 0.4:
            return RemoveAccessControlEntryRecord(id=self.rng.choice(known))
        return AccessControlEntryRecord(
            id=self.rng.randbytes(16),
            resource_type=2,
            resource_name=self.rng.choice(["orders", "o"]),
            pattern_type=self.rng.choice([3, 4]),
            principal=f"User:{self.offset}",
            host="*",
            operation=3,
            permission_type=3,
        )

    def _token(self) -> DelegationTokenRecord:
        return DelegationTokenRecord(
            owner="User:alice",
            requester="User:bob",
            renewers=["User:carol"],
            issue_timestamp=1,
            max_timestamp=9,
            expiration_timestamp=self.offset,
            token_id="token",
        )

    def _user(self) -> UserScramCredentialRecord:
        return UserScramCredentialRecord(
            name="al ice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        )

    # The outcome

    def read(self, steps: Steps[Any]) -> Any:
        """The result of steps that only read."""
        try:
            operations = next(steps)
            while True:
                operations = steps.send([self.cluster.admin.ask(each) for each in operations])
        except StopIteration as end:
            return end.value

    def check(self) -> None:
        """ZooKeeper has what the metadata say, and a controller in ZooKeeper mode could go on with it."""
        leader = self.controllers[self.leader].driver
        assert leader.phase is MigrationDriverState.DUAL_WRITE, (leader.phase, leader.obstacle)
        epoch = controller.decode_epoch(self.cluster.admin.ask(Get(paths.CONTROLLER_EPOCH)).data)
        metadata = self.read(reading.read_metadata())
        goal = differences.everything(metadata.tree, wanted.of_image(self.image, epoch, encoded_beside(metadata.tree)))
        left = differences.difference(metadata.tree, goal, open_acl)
        assert not left, left
        for topic in self.image.topics.values():
            for number, partition in topic.partitions.items():
                path = paths.partition_state(topic.name, number)
                held = metadata.tree[path]
                state = LeaderIsrAndControllerEpoch.decode(path, held.data)
                assert (state.leader, state.leader_epoch, state.isr) == (
                    partition.leader,
                    partition.leader_epoch,
                    partition.isr,
                )
                assert held.version == partition.partition_epoch
                assert state.controller_epoch <= epoch
        names = self.cluster.admin.ask(GetChildren(paths.TOPICS)).names
        assert sorted(names) == sorted(self.image.topics)
        assert not isinstance(self.cluster.admin.ask(Get(paths.MIGRATION)), OperationFailed)
