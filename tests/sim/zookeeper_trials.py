"""One trouble at a time, in a cluster with ZooKeeper that is at rest: nothing that happens later hides what it does.

Each world plays a few of them, drawn from its seed. After each the znodes, the controller and the brokers have to say
the same again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kpybroker.machines.zookeeper.controller.context import PartitionState
from kpybroker.machines.zookeeper.tree import paths
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
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
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

from .client import Client, NoAnswer
from .tuning import SET, TOPIC
from .zookeeper_machine import ZooKeeperMachine

if TYPE_CHECKING:
    from .ensemble import Server
    from .zookeeper_world import ZooKeeperWorld

MOST = 3
MOVING_NODES = 3
SHARES = {"moving": 0.25, "zombies": 0.5, "blocks": 0.25, "joining": 0.25, "topics": 0.25, "leaving": 0.25}
"""How often each of the others follows."""
MOST_AT_WORK_MS = 12.0
NAME = "doomed"
DELETION = DeleteTopicsRequest(topics=[DeleteTopicState(name=NAME)], timeout_ms=1)
SOON_MS = 5_000.0
BRIEFLY_MS = 50.0
LATE_MS = 400.0
ASKED_MS = 2_000.0


class Trials:
    """The troubles of a world whose nodes are all up."""

    def __init__(self, world: "ZooKeeperWorld") -> None:
        self.zookeeper = world
        self.world, self.ensemble, self.rules = world.world, world.ensemble, world.rules
        self.network = world.simulation.network
        self.machines = world.machines
        self.rng = self.world.stream("trials")

    def play(self) -> None:
        """Play some, and let the cluster come to rest after each. Raises Violation."""
        trials = self.rng.sample(self._all(), MOST)
        trials += [
            trial
            for stream, nodes, trial in (
                ("moving", MOVING_NODES, self._a_partition_moves),
                ("zombies", 2, self._a_controller_goes_on),
                ("blocks", 1, self._a_block_is_not_heard),
                ("joining", 2, self._a_broker_that_left_is_to_join),
                ("topics", 1, self._topics_follow_each_other),
                ("leaving", MOVING_NODES, self._a_partition_moves_slowly),
            )
            if len(self.machines) >= nodes and self.world.stream(stream).random() < SHARES[stream]
        ]
        for trial in trials:
            self.world.tell(f"a trial: {trial.__name__.replace('_', ' ').strip()}")
            trial()
            self._undo()
            self.zookeeper.come_to_rest()
        self.world.run(ASKED_MS)  # a broker may still write what it was asked for before it lost its connection
        self.zookeeper.come_to_rest()

    def _all(self) -> list[Callable[[], None]]:
        alone = [
            self._an_election_is_not_heard,
            self._a_registration_is_not_heard,
            self._all_sessions_expire,
            self._connections_break_before_a_change,
            self._connections_break_during_a_change,
            self._configs_change_while_answers_are_lost,
        ]
        if len(self.machines) == 1:
            return alone
        return [
            *alone,
            self._a_broker_comes_back_unseen,
            self._a_state_is_not_heard,
            self._orders_do_not_arrive,
            self._an_election_is_overtaken,
            self._the_last_in_sync_leaves,
            self._a_deletion_changes_hands,
            self._a_deletion_waits_for_a_broker,
        ]

    def _undo(self) -> None:
        self.network.heal()
        self.ensemble.lost_reads, self.ensemble.unheard = 0.0, ""
        for server in self.ensemble.servers:
            server.lag_ms = 1.0
        for machine in self.machines:
            machine.start()
        self._until(lambda: all(each.is_up for each in self.machines))

    # Troubles

    def _an_election_is_not_heard(self) -> None:
        """The broker that is elected does not get the answer."""
        self.ensemble.unheard = paths.CONTROLLER_EPOCH
        self.zookeeper.depose()
        self._until(lambda: not self.ensemble.unheard)

    def _a_registration_is_not_heard(self) -> None:
        """A broker registers in another session, and does not get the answer."""
        machine = self.rng.choice(self.machines)
        self.ensemble.unheard = paths.broker(machine.node_id)
        self._register_again(machine)
        self._until(lambda: not self.ensemble.unheard)

    def _a_state_is_not_heard(self) -> None:
        """The controller takes a broker out of in-sync sets, and does not get the first answer."""
        _, other = self._controller_and_another()
        self.ensemble.unheard = "/state"
        self._take_away(other)

    def _all_sessions_expire(self) -> None:
        for machine in self.machines:
            self.ensemble.end_session(self._session_id(machine))
        self.world.run(BRIEFLY_MS)

    def _connections_break_before_a_change(self) -> None:
        """Sessions go on with new connections, and something changes after that."""
        self._break_connections(self.machines)
        self._until(lambda: all(self._is_connected(each) for each in self.machines))
        self.world.run(BRIEFLY_MS)
        self._change()

    def _connections_break_during_a_change(self) -> None:
        """A broker has no connection while something changes."""
        machine = self.rng.choice(self.machines)
        self._part_from_servers(machine)
        self._break_connections([machine])
        self._change()
        self.world.run(BRIEFLY_MS)

    def _configs_change_while_answers_are_lost(self) -> None:
        self.ensemble.lost_reads = self.rng.choice((0.0, 0.3))
        for _ in range(3):
            self._change_config()
            self.world.run(BRIEFLY_MS)

    def _a_broker_comes_back_unseen(self) -> None:
        """The controller stands still while another broker loses its session and begins the next one."""
        controller, other = self._controller_and_another()
        assert controller.loop is not None
        controller.loop.pause(self._session_ms(controller) / 2)
        self._register_again(other)

    def _orders_do_not_arrive(self) -> None:
        """The controller does not reach a broker while there is something to say to it."""
        controller, other = self._controller_and_another()
        self._part(controller, other)
        self._register_again(self.rng.choice([each for each in self.machines if each is not other]))
        self.world.run(ASKED_MS * 4)  # more than one request goes astray

    def _an_election_is_overtaken(self) -> None:
        """A broker's attempt to be elected is long on its way, and another one's reign begins and ends meanwhile."""
        found = self._at_a_follower_of_its_own()
        if found is None:
            return
        slow, server = found
        quick = [each for each in self.machines if each is not slow]
        self._pause(quick, BRIEFLY_MS)
        self.zookeeper.depose()
        self._until(lambda: server.tree.nodes.get(self.zookeeper.controller_path) is None)
        server.lag_ms = LATE_MS
        epoch = self.rules.epoch
        self._until(lambda: self.rules.epoch > epoch)
        self._pause(quick, LATE_MS)
        self.zookeeper.depose()
        self.world.run(LATE_MS)

    def _the_last_in_sync_leaves(self) -> None:
        """Nobody follows the controller's replicas any more, and then it loses its session and stands still."""
        controller, _ = self._controller_and_another()
        client = self._client()
        self._make_topic(client)
        for other in self.machines:
            if other is not controller:
                self._part(controller, other)
        self._write(client, controller)
        self.world.run(ASKED_MS)
        assert controller.loop is not None
        self.ensemble.end_session(self._session_id(controller))
        controller.loop.pause(ASKED_MS)
        self.world.run(ASKED_MS)

    def _a_deletion_changes_hands(self) -> None:
        """A topic is deleted, one broker does not hear of it, and another controller goes on."""
        controller, other = self._controller_and_another()
        client = self._client()
        self._make_topic(client)
        self._part(controller, other)
        self._delete_topic(client)
        epoch = self.rules.epoch
        self.zookeeper.depose()
        self._until(lambda: self.rules.epoch > epoch)

    def _a_deletion_waits_for_a_broker(self) -> None:
        """A topic is deleted while a broker is away."""
        _, other = self._controller_and_another()
        client = self._client()
        self._make_topic(client)
        self._take_away(other)
        self._delete_topic(client)
        self.world.run(BRIEFLY_MS)

    def _a_controller_goes_on(self) -> None:
        """A controller stands still in the middle of a deletion, and goes on when another one reigns."""
        controller, _ = self._controller_and_another()
        client = self._client()
        self._make_topic(client)
        client.run(self._asked(client, controller.node_id, DELETION))
        self._until(lambda: self.rules.tree.node(paths.delete_topic(NAME)) is not None)
        self.world.run(self.rng.random() * MOST_AT_WORK_MS)
        epoch = self.rules.epoch
        self._pause([controller], LATE_MS)
        self.zookeeper.depose()
        self._until(lambda: self.rules.epoch > epoch)
        self.world.run(LATE_MS)

    def _a_partition_moves(self) -> None:
        """A partition moves to a broker that reaches no other broker."""
        client = self._client()
        self._make_topic(client)
        stays, leaves, comes = self.rng.sample(self.machines, MOVING_NODES)
        self._move(client, [stays, leaves])
        self.zookeeper.come_to_rest()
        for other in self.machines:
            if other is not comes:
                self._part(comes, other)
        self._move(client, [stays, comes])
        self.world.run(ASKED_MS)

    def _a_partition_moves_slowly(self) -> None:
        """A partition leaves a broker while the servers of ZooKeeper are slow, and records are written meanwhile."""
        client = self._client()
        self._make_topic(client)
        stays, leaves, comes = self.rng.sample(self.machines, MOVING_NODES)
        self._move(client, [stays, leaves])
        self.zookeeper.come_to_rest()
        for server in self.ensemble.servers:
            server.lag_ms = LATE_MS
        leaves.may_keep_moved = True  # its session may expire, and a controller orders nothing of who is not there
        self._move(client, [stays, comes])
        writer, end_ms = self._client(), self.world.now_ms + SOON_MS
        while self._is_moving() and self.world.now_ms < end_ms:
            for machine in self.machines:
                self._write(writer, machine)
            self.world.run(BRIEFLY_MS)

    def _is_moving(self) -> bool:
        topic = self.rules.tree.topic(NAME)
        return topic is not None and bool(topic.removing)

    def _move(self, client: Client, machines: list[ZooKeeperMachine]) -> None:
        moved = ReassignablePartition(partition_index=0, replicas=[each.node_id for each in machines])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=NAME, partitions=[moved])])
        self._ask(client, client.controller_or_any(), request)

    def _take_away(self, machine: ZooKeeperMachine) -> None:
        """A broker dies, and the controller does what follows from that."""
        session_id = self._session_id(machine)
        machine.kill()
        self.ensemble.end_session(session_id)
        self._until(lambda: self._knows_without(machine))

    def _knows_without(self, gone: ZooKeeperMachine) -> bool:
        """Whether the controller has done all that follows from the end of a broker."""
        for machine in self.machines:
            reign = None if not machine.is_controller else machine.controller.reign
            if reign is None or machine.is_at_work or gone.node_id in reign.context.brokers:
                continue
            for partition, (state, _) in reign.context.leadership.items():
                if gone.node_id in state.isr and len(state.isr) > 1:
                    self.world.violated(f"{gone} has left, and {partition} has {list(state.isr)} in sync")
                known = reign.context.partition_states[partition]
                if known is not PartitionState.ONLINE and set(state.isr) & set(reign.context.live_ids):
                    self.world.violated(f"{gone} has left, and {partition} is {known.value}, with {list(state.isr)}")
            return True
        return False

    def _a_block_is_not_heard(self) -> None:
        """The controller gives producer ids away, and does not get the answer of ZooKeeper."""
        machine = self.rng.choice(self.machines)
        client = self._client()
        epoch = self.rules.tree.node(paths.broker(machine.node_id)).czxid
        self.ensemble.unheard = paths.PRODUCER_IDS
        request = AllocateProducerIdsRequest(broker_id=machine.node_id, broker_epoch=epoch)
        self._ask(client, client.controller_or_any(), request)

    def _a_broker_that_left_is_to_join(self) -> None:
        """A leader proposes an in-sync set with a broker of whose end it has not heard."""
        controller, other = self._controller_and_another()
        self._take_away(other)
        tree, client = self.rules.tree, self._client()
        for index, replicas in tree.topic("one").replicas.items():
            state = tree.state("one", index)
            if other.node_id not in replicas or other.node_id in state.isr or state.leader < 0:
                continue
            partition = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=state.leader_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=each) for each in (*state.isr, other.node_id)],
                partition_epoch=tree.node(paths.partition_state("one", index)).version,
            )
            topic = AlterPartitionRequestTopicData(topic_id=tree.topic("one").topic_id, partitions=[partition])
            epoch = tree.node(paths.broker(state.leader)).czxid
            request = AlterPartitionRequest(broker_id=state.leader, broker_epoch=epoch, topics=[topic])
            self._ask(client, controller.node_id, request)

    def _topics_follow_each_other(self) -> None:
        """A topic is made, deleted and made again while one controller reigns."""
        client = self._client()
        self._make_topic(client)
        self._delete_topic(client)
        self._until(lambda: self.rules.tree.node(paths.topic(NAME)) is None)
        self.zookeeper.come_to_rest()
        self._make_topic(client)

    # Changes

    def _change(self) -> None:
        self.rng.choice((self._depose, self._expire_one, self._change_config))()

    def _depose(self) -> None:
        epoch = self.rules.epoch
        self.zookeeper.depose()
        self._until(lambda: self.rules.epoch > epoch or self.rules.tree.node(paths.CONTROLLER) is None)

    def _expire_one(self) -> None:
        self.ensemble.end_session(self._session_id(self.rng.choice(self.machines)))
        self.world.run(BRIEFLY_MS)

    def _register_again(self, machine: ZooKeeperMachine) -> None:
        """A session of a broker ends, and the broker registers in the next one."""
        path = paths.broker(machine.node_id)
        before = self.rules.tree.node(path)
        self.ensemble.end_session(self._session_id(machine))

        def is_there() -> bool:
            node = self.rules.tree.node(path)
            return node is not None and node.czxid != before.czxid

        self._until(is_there)

    def _change_config(self) -> None:
        value = str(100_000 + self.rng.randrange(1_000))
        config = AlterableConfig(name="delete.retention.ms", config_operation=SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="one", configs=[config])
        client = self._client()
        self._ask(client, client.any_node(), IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    def _make_topic(self, client: Client) -> None:
        topic = CreatableTopic(
            name=NAME, num_partitions=2, replication_factor=len(self.machines), assignments=[], configs=[]
        )
        self._ask(client, client.controller_or_any(), CreateTopicsRequest(topics=[topic]))
        self.world.run(SOON_MS, lambda: self.rules.tree.state(NAME, 1) is not None)
        self.world.run(BRIEFLY_MS)

    def _delete_topic(self, client: Client) -> None:
        self._ask(client, client.controller_or_any(), DELETION)
        self.world.run(SOON_MS, lambda: self.rules.tree.node(paths.delete_topic(NAME)) is not None)

    def _write(self, client: Client, leader: ZooKeeperMachine) -> None:
        """Write a record to each partition of the topic that a broker leads, which its followers have not yet."""
        topic = self.rules.tree.topic(NAME)
        for index in () if topic is None else topic.replicas:
            state = self.rules.tree.state(NAME, index)
            if state is not None and state.leader == leader.node_id:
                batch = build_batch([Record(timestamp=client.host.now_ms(), value=b"a trial")])
                data = TopicProduceData(
                    name=NAME,
                    topic_id=topic.topic_id or bytes(16),
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
                request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1_000, topic_data=[data])
                self._ask(client, leader.node_id, request)

    def _client(self) -> Client:
        return self.zookeeper.simulation.client_with(f"operator {self.world.events}", ASKED_MS)

    def _ask(self, client: Client, node_id: int, request: Any) -> None:
        """Ask, and wait until that is over."""
        client.run(self._asked(client, node_id, request))
        self._until(lambda: not client.tasks)

    async def _asked(self, client: Client, node_id: int, request: Any) -> None:
        try:
            await client.ask(node_id, request)
        except NoAnswer as lost:
            self.world.tell(f"{client.name}: {lost}")

    # The means

    def _until(self, holds: Callable[[], bool]) -> None:
        if not self.world.run(SOON_MS * 2, holds):
            self.world.tell("it does not come to that")

    def _controller_and_another(self) -> tuple[ZooKeeperMachine, ZooKeeperMachine]:
        controller = next(each for each in self.machines if each.is_controller)
        return controller, self.rng.choice([each for each in self.machines if each is not controller])

    def _session_id(self, machine: ZooKeeperMachine) -> int:
        session_id: int = machine.node.source.client.session.session_id
        return session_id

    def _session_ms(self, machine: ZooKeeperMachine) -> float:
        return float(machine.node.source.client.session.timeout_ms)

    def _servers_of(self, machine: ZooKeeperMachine) -> "list[Server]":
        """The server that a broker's session is connected to; none while it is not."""
        session_id = self._session_id(machine)
        return [
            server
            for server in self.ensemble.servers
            for connection in server.tree.connections
            if connection.session is not None and connection.session.session_id == session_id
        ]

    def _is_connected(self, machine: ZooKeeperMachine) -> bool:
        return bool(self._servers_of(machine))

    def _at_a_follower_of_its_own(self) -> "tuple[ZooKeeperMachine, Server] | None":
        """A broker that shares its server with no other; the server does not lead."""
        for machine in self.machines:
            for server in self._servers_of(machine):
                others = [each for each in self.machines if each is not machine and server in self._servers_of(each)]
                if server is not self.ensemble.leader and not others:
                    return machine, server
        return None

    def _pause(self, machines: list[ZooKeeperMachine], duration_ms: float) -> None:
        for machine in machines:
            if machine.loop is not None:
                machine.loop.pause(duration_ms)

    def _part(self, one: ZooKeeperMachine, other: ZooKeeperMachine) -> None:
        self.network.isolate(one.host.name, other.host.name)
        self.network.isolate(other.host.name, one.host.name)

    def _part_from_servers(self, machine: ZooKeeperMachine) -> None:
        for server in self.ensemble.servers:
            self.network.isolate(machine.host.name, server.host.name)
            self.network.isolate(server.host.name, machine.host.name)

    def _break_connections(self, machines: list[ZooKeeperMachine]) -> None:
        sessions = {self._session_id(each) for each in machines}
        for server in self.ensemble.servers:
            for connection in [*server.tree.connections]:
                if connection.session is not None and connection.session.session_id in sessions:
                    connection.end()
