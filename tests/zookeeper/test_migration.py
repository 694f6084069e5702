"""The driver of the migration to KRaft, on a simulated ZooKeeper: what it copies, what it writes back, and who may."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from migrations import PASSWORDS, VOTERS, World, encoded_beside, open_acl

from kpybroker.config.dynamic import is_password
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import BROKER_RESOURCE, MIGRATION, POST_MIGRATION, PRE_MIGRATION, MetadataImage
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, GetChildren, OperationFailed, Set
from kpybroker.machines.zookeeper.controller.batch import (
    FULL,
    LeaderAndIsr,
    MetadataPartition,
    StopReplica,
    UpdateMetadata,
)
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.machines.zookeeper.migration import differences, entities, records, wanted
from kpybroker.machines.zookeeper.migration.broker_passwords import BrokerPasswords
from kpybroker.machines.zookeeper.migration.driver import MigrationDriverState
from kpybroker.machines.zookeeper.migration.reading import MigratedMetadata, StoredZnode
from kpybroker.machines.zookeeper.tree import configs, controller, paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.register_controller_record import RegisterControllerRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord


def migrated(seed: int = 1, topics: int = 3) -> World:
    world = World(seed, topics)
    world.elect(3000)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.controllers[3000].settle()
    return world


def test_a_migration_copies_takes_over_and_rules() -> None:
    world = World(1)
    world.elect(3000)
    leader = world.controllers[3000]
    for _ in range(50):
        leader.turn()
    assert leader.driver.phase is MigrationDriverState.WAIT_FOR_BROKERS
    assert "brokers 1, 2, 3" in leader.driver.obstacle
    assert world.image.zk_migration_state == PRE_MIGRATION
    before = {name: world.cluster.state(name) for name in ("topic-0", "topic-1", "topic-2")}
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    leader.settle()
    world.check()
    assert world.image.zk_migration_state == MIGRATION
    elected = controller.ElectedController.decode(world.cluster.admin.ask(Get(paths.CONTROLLER)).data)
    assert (elected.broker_id, elected.is_kraft) == (3000, True)
    assert {name: world.cluster.state(name) for name in before} == before, "nothing was written that did not change"
    kinds = [(type(each), each.receiver, each.kind) for each in leader.sent if not isinstance(each, StopReplica)]
    for broker_id in (1, 2, 3):
        own = [(kind, full) for kind, receiver, full in kinds if receiver == broker_id]
        assert own == [(UpdateMetadata, 0), (LeaderAndIsr, FULL), (UpdateMetadata, FULL)]
    assert all(each.is_of_kraft for each in leader.sent)


def test_the_controller_in_zookeeper_that_was_replaced_writes_nothing_more() -> None:
    world = migrated()
    candidate = world.cluster.candidates[0]
    tree = world.cluster.admin.ask(Get(paths.topic("topic-0"))).data
    world.cluster.kill(3)
    candidate.catch_up()
    assert not candidate.controller.is_active
    assert world.cluster.admin.ask(Get(paths.topic("topic-0"))).data == tree


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), actions=st.lists(st.integers(0, 9), min_size=20, max_size=150))
def test_zookeeper_ends_up_with_the_metadata_despite_failures(seed: int, actions: list[int]) -> None:
    """Controllers change, sessions end, and answers are lost in every phase, while the metadata change."""
    world = World(seed, topics=2)
    world.loss = 0.2
    world.elect(VOTERS[0])
    rng = random.Random(seed)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    for action in actions:
        if action == 0:
            world.elect(rng.choice(VOTERS))
        elif action == 1:
            world.controllers[rng.choice(VOTERS)].interrupt()
        elif action in (2, 3) and world.image.zk_migration_state == MIGRATION:
            world.change()
        else:
            world.controllers[rng.choice([world.leader, rng.choice(VOTERS)])].turn()
    for each in world.controllers.values():
        each.settle()
    world.check()


def test_a_controller_in_zookeeper_mode_goes_on_after_the_way_back() -> None:
    """KAFKA-20488: the epoch of the quorum is far ahead of ZooKeeper's, and the states can be changed all the same."""
    world = World(2)
    world.epoch = 50
    world.elect(3000)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.controllers[3000].settle()
    for _ in range(30):
        world.change()
        world.controllers[3000].settle()
    world.check()
    world.controllers[3000].driver.follow()
    for path in (paths.CONTROLLER, paths.MIGRATION):
        assert not isinstance(world.cluster.admin.ask(Delete(path)), OperationFailed)
    candidate = world.cluster.candidate(2, ControllerSettings())
    world.cluster.settle()
    assert candidate.controller.is_active
    topics = [name for name, topic in world.image.topics.items() if topic.partitions]
    assert topics
    before = {name: world.cluster.state(name) for name in topics}
    world.cluster.kill(1)
    world.cluster.settle()
    for name in topics:
        state = world.cluster.state(name)
        assert 1 not in state.isr or state.isr == (1,)
        assert state.leader != 1 or before[name].leader != 1
    assert not [line for line in candidate.log if "epoch" in line.lower()], candidate.log


def test_a_controller_in_zookeeper_mode_outranks_the_states_that_apache_kafka_left() -> None:
    world = World(5, topics=0)
    world.cluster.create_topic("ours", [[1, 2]])
    world.cluster.settle()
    path = paths.partition_state("ours", 0)
    left = LeaderIsrAndControllerEpoch(1, 7, (1, 2), controller_epoch=90)
    world.cluster.admin.ask(Set(path, left.encode()))
    world.cluster.admin.ask(Delete(paths.CONTROLLER))
    world.cluster.settle()
    world.cluster.kill(1)
    world.cluster.settle()
    assert world.cluster.state("ours").leader != 1
    epoch = controller.decode_epoch(world.cluster.admin.ask(Get(paths.CONTROLLER_EPOCH)).data)
    assert world.cluster.state("ours").controller_epoch == epoch > 90


def test_states_that_a_later_epoch_wrote_are_written_again() -> None:
    path = paths.partition_state("t", 0)
    old = LeaderIsrAndControllerEpoch(1, 4, (1,), controller_epoch=90)
    held = {path: StoredZnode(old.encode(), 7)}
    goal = {path: wanted.WantedZnode(LeaderIsrAndControllerEpoch(1, 4, (1,), controller_epoch=12).encode(), 7)}
    (change,) = differences.difference(held, goal, open_acl)
    assert change.after == StoredZnode(goal[path].data, 7)


def test_a_migration_that_somebody_undid_is_not_taken_up_again() -> None:
    world = migrated()
    for path in (paths.CONTROLLER, paths.MIGRATION):
        world.cluster.admin.ask(Delete(path))
    world.cluster.candidate(2)
    world.cluster.settle()
    world.cluster.create_topic("later", [[1, 2]])
    world.cluster.settle()
    world.elect(3001)
    other = world.controllers[3001]
    for _ in range(50):
        other.turn()
    assert other.driver.phase is MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM
    assert "went back to ZooKeeper" in other.driver.obstacle
    assert world.cluster.is_there(paths.topic("later"))


def test_a_broker_that_becomes_controller_stops_the_dual_write() -> None:
    world = migrated()
    for path in (paths.CONTROLLER, paths.MIGRATION):
        world.cluster.admin.ask(Delete(path))
    world.cluster.candidate(2)
    world.cluster.settle()
    before = world.cluster.children(paths.TOPICS)
    leader = world.controllers[3000]
    for _ in range(5):
        world.change()
    for _ in range(50):
        leader.turn()
    assert leader.driver.phase is not MigrationDriverState.DUAL_WRITE
    assert world.cluster.children(paths.TOPICS) == before


def test_topics_that_are_being_deleted_are_not_copied_and_go() -> None:
    world = World(3)
    world.cluster.candidates[0].controller.abdicate()
    world.cluster.delete_topic("topic-1")
    world.elect(3000)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.controllers[3000].settle()
    assert sorted(world.image.topics) == ["topic-0", "topic-2"]
    for path in (paths.topic("topic-1"), "/config/topics/topic-1", paths.delete_topic("topic-1")):
        assert not world.cluster.is_there(path)
    world.check()


def test_brokers_in_zookeeper_mode_forget_a_topic_that_was_deleted() -> None:
    """Its partitions have no leader but -2 and no epochs, and its id is zero. Its replicas are stopped and deleted."""
    world = migrated()
    leader = world.controllers[3000]
    leader.sent.clear()
    topic = world.image.topics["topic-1"]
    replicas = {TopicPartition("topic-1", number): each.replicas for number, each in topic.partitions.items()}
    isr = {TopicPartition("topic-1", number): each.isr for number, each in topic.partitions.items()}
    world.append(3000, [RemoveTopicRecord(topic_id=topic.id)])
    leader.settle()
    gone = {
        place: MetadataPartition(world.epoch, -2, 0, isr[place], 0, replicas[place], offline_replicas=())
        for place in replicas
    }
    news = [each for each in leader.sent if isinstance(each, UpdateMetadata)]
    assert [each.receiver for each in news] == [1, 2, 3]
    for each in news:
        assert each.partitions == gone
        assert each.topic_ids == {"topic-1": bytes(16)}
    for each in leader.sent:
        if isinstance(each, StopReplica):
            assert set(each.partitions) == {place for place in replicas if each.receiver in replicas[place]}
            assert all(partition.deletes for partition in each.partitions.values())
    stopped = {each.receiver for each in leader.sent if isinstance(each, StopReplica)}
    assert stopped == {broker_id for some in replicas.values() for broker_id in some}
    world.check()


def test_the_log_names_the_phases_in_their_order() -> None:
    prefix = "The migration to KRaft: this controller "
    found = [line.removeprefix(prefix) for line in migrated().log if line.startswith(prefix)]
    assert found == [
        each.value
        for each in MigrationDriverState
        if each not in (MigrationDriverState.UNINITIALIZED, MigrationDriverState.INACTIVE)
    ]


def is_not_ready(world: World) -> None:
    record = RegisterControllerRecord(
        controller_id=3001, incarnation_id=bytes(16), zk_migration_ready=False, end_points=[], features=[]
    )
    world.append(3000, [record])


def without_brokers(world: World) -> None:
    for broker_id in (1, 2, 3):
        world.cluster.kill(broker_id)


def without_one_that_has_partitions(world: World) -> None:
    world.cluster.kill(3)
    for broker_id in (1, 2):
        world.register(broker_id)


def ended(state: int) -> Callable[[World], object]:
    return lambda world: world.append(3000, [ZkMigrationStateRecord(zk_migration_state=state)])


@pytest.mark.parametrize(
    ("happens", "phase", "obstacle"),
    [
        (is_not_ready, "WAIT_FOR_CONTROLLER_QUORUM", "the controllers 3001 have not registered"),
        (without_brokers, "WAIT_FOR_BROKERS", "no broker is registered in ZooKeeper"),
        (without_one_that_has_partitions, "WAIT_FOR_BROKERS", "the brokers 3 have not registered"),
        (ended(POST_MIGRATION), "INACTIVE", "the migration was finalised"),
        (ended(0), "INACTIVE", "this cluster was made without ZooKeeper"),
    ],
)
def test_a_migration_that_does_not_begin_says_why(
    happens: Callable[[World], object], phase: str, obstacle: str
) -> None:
    world = World(1)
    world.elect(3000)
    happens(world)
    leader = world.controllers[3000]
    for _ in range(50):
        leader.turn()
    assert leader.driver.phase is MigrationDriverState[phase]
    assert leader.driver.obstacle.startswith(obstacle)
    waiting = [line for line in world.log if line.startswith("The migration to KRaft waits: ")]
    assert len(waiting) == 1
    assert obstacle in waiting[0]


def test_a_migration_waits_for_the_first_records_of_the_metadata_log() -> None:
    world = World(1)
    driven = world.controllers[3000]
    driven.driver.lead(1)
    for _ in range(50):
        driven.turn()
    assert driven.driver.phase is MigrationDriverState.WAIT_FOR_CONTROLLER_QUORUM
    assert driven.driver.obstacle == "the metadata log is empty"


@pytest.mark.parametrize(
    ("path", "content", "fault"),
    [
        (
            "/config/brokers/1",
            b'{"version":1,"config":{"ssl.key.password":"encryptedPassword:AA"}}',
            "cannot be decoded",
        ),
        ("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt=%"}}', "SCRAM-SHA-256 credential"),
        ("/config/users/alice", b'{"version":1,"config":{"producer_byte_rate":"many"}}', "is not a number"),
        ("/brokers/topics/topic-0", b'{"version":3,"partitions":{"0":[1]}}', "has no topic_id"),
        ("/brokers/topics/topic-0", b"{", "is not JSON"),
    ],
)
def test_metadata_that_cannot_be_copied_stop_the_migration_with_one_line(path: str, content: bytes, fault: str) -> None:
    world = World(4, topics=1)
    if isinstance(world.cluster.admin.ask(Set(path, content)), OperationFailed):
        world.cluster.admin.ask(Create(path, content))
    world.elect(3000)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    for _ in range(100):
        world.controllers[3000].turn()
    driver = world.controllers[3000].driver
    assert driver.phase in (MigrationDriverState.WAIT_FOR_BROKERS, MigrationDriverState.ZK_MIGRATION)
    assert fault in driver.obstacle
    assert world.image.zk_migration_state == PRE_MIGRATION


PASSWORD_ZNODE = "/config/brokers/1"


def test_passwords_are_encrypted_in_zookeeper_and_readable_in_the_metadata() -> None:
    world = World(4, topics=1)
    texts = PASSWORDS.encoded(PASSWORD_ZNODE, {"ssl.key.password": "open sesame", "log.retention.ms": "5"}, None)
    assert "open sesame" not in texts["ssl.key.password"]
    world.cluster.admin.ask(Create(PASSWORD_ZNODE, configs.encode_configs(texts)))
    world.elect(3000)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
    world.controllers[3000].settle()
    found = {"ssl.key.password": "open sesame", "log.retention.ms": "5"}
    assert world.image.configs_of(BROKER_RESOURCE, "1") == found
    znode = world.cluster.admin.ask(Get(PASSWORD_ZNODE))
    assert (configs.decode_configs("", znode.data), znode.stat.version) == (texts, 0)  # nothing was written again
    another = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name="ssl.key.password", value="another")
    world.append(3000, [another])
    world.controllers[3000].settle()
    after = configs.decode_configs("", world.cluster.admin.ask(Get(PASSWORD_ZNODE)).data)
    assert "another" not in after["ssl.key.password"]
    assert PASSWORDS.decoded("", after) == {**found, "ssl.key.password": "another"}


def test_without_the_secret_no_password_is_copied_and_none_is_written() -> None:
    without = BrokerPasswords(is_password, None, random.Random(1).randbytes)
    texts = PASSWORDS.encoded("", {"ssl.key.password": "open sesame"}, None)
    with pytest.raises(InvalidZnode, match=r"/config/brokers/1 .*; set password\.encoder\.secret on all controllers"):
        without.decoded(PASSWORD_ZNODE, texts)
    assert without.encoded("", {"ssl.key.password": "open sesame", "log.retention.ms": "5"}, None) == {
        "log.retention.ms": "5"
    }


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("producer_byte_rate", "1024", 1024.0),
        ("producer_byte_rate", "1e3", 1000.0),
        ("producer_byte_rate", " 10.5d ", 10.5),
        ("request_percentage", "5.0E1", 50.0),
        ("unknown", "7", 7.0),
        ("producer_byte_rate", "1_000", None),
        ("request_percentage", "NaN", None),
        ("request_percentage", "inf", None),
    ],
)
def test_a_quota_is_copied_as_java_reads_a_double(key: str, text: str, value: float | None) -> None:
    owner = configs.ConfigEntity(configs.USERS, "alice")
    if value is not None:
        (record,) = entities.quota_records(owner, {key: text})
        assert (record.key, record.value) == (key, value)
        return
    with pytest.raises(InvalidZnode, match=f"its {key} .* is not a number"):
        entities.quota_records(owner, {key: text})


def test_brokers_learn_of_changes_by_orders_and_notices() -> None:
    world = migrated()
    leader = world.controllers[3000]
    leader.sent.clear()
    noticed = len(world.cluster.children(paths.CONFIG_CHANGES))
    world.rng.seed(0)
    while not any(isinstance(each, StopReplica) for each in leader.sent):
        world.change()
        leader.settle()
    assert {each.receiver for each in leader.sent} == {1, 2, 3}
    deleted = [each for each in leader.sent if isinstance(each, StopReplica)]
    assert all(stop.deletes and stop.leader_epoch == -2 for each in deleted for stop in each.partitions.values())
    forgotten = [
        state
        for each in leader.sent
        if isinstance(each, UpdateMetadata)
        for state in each.partitions.values()
        if state.leader == -2
    ]
    assert forgotten
    quota = ("user", "al ice")
    while (quota,) not in world.image.client_quotas:
        world.change()
        leader.settle()
    names = world.cluster.admin.ask(GetChildren(paths.CONFIG_CHANGES)).names
    assert len(names) > noticed
    notices = [
        configs.decode_change("", world.cluster.admin.ask(Get(f"{paths.CONFIG_CHANGES}/{each}")).data) for each in names
    ]
    assert "users/al%20ice" in {each.entity_path for each in notices}


def test_a_broker_that_restarts_as_a_kraft_broker_gets_no_more_orders() -> None:
    world = migrated()
    leader = world.controllers[3000]
    world.cluster.kill(2)
    world.register(2, is_migrating=False)
    leader.settle()
    leader.sent.clear()
    for _ in range(20):
        world.change()
        leader.settle()
    assert {each.receiver for each in leader.sent} == {1, 3}
    alive = [each for each in leader.sent if isinstance(each, UpdateMetadata)][-1].live_brokers
    assert {each.broker_id for each in alive} == {1, 2, 3}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 40))
def test_an_image_that_went_through_zookeeper_is_the_same(seed: int, changes: int) -> None:
    world = migrated(seed, topics=1)
    for _ in range(changes):
        world.change()
    tree = {
        path: StoredZnode(each.data, each.version or 0)
        for path, each in wanted.of_image(world.image, 5, encoded_beside({})).items()
        if each is not None
    }
    again = MetadataImage("cluster")
    ids = iter(range(1_000_000))
    copying = records.Copying(lambda: next(ids).to_bytes(16, "big"), PASSWORDS)
    for record in records.records_of(MigratedMetadata(tree, frozenset()), copying):
        again.apply(record, 0, MetadataDelta())
    for name in ("topics", "configs", "client_quotas", "scram_credentials", "delegation_tokens"):
        assert getattr(again, name) == getattr(world.image, name), name
    assert again.next_producer_id == world.image.next_producer_id

    def shown(image: MetadataImage) -> list[str]:
        return sorted(f"{each.resource_name} {each.pattern_type} {each.principal}" for each in image.acls.values())

    assert shown(again) == shown(world.image)


def test_a_quota_for_a_client_of_a_user_has_the_znodes_above_its_own() -> None:
    image = MetadataImage("cluster")
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in (("user", "al"), ("client-id", "c"))]
    image.apply(
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0, remove=False), 0, MetadataDelta(0)
    )
    found = wanted.of_image(image, 1, encoded_beside({}))
    contents = {path: each.data for path, each in found.items() if each and path.startswith("/config/users")}
    assert set(contents) == {"/config/users/al", "/config/users/al/clients", "/config/users/al/clients/c"}
    assert contents["/config/users/al/clients"] is None
    assert b"producer_byte_rate" not in (contents["/config/users/al"] or b"")
    assert b"producer_byte_rate" in (contents["/config/users/al/clients/c"] or b"")
