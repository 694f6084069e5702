"""A client that poses as a controller whose reign is over, and as a broker of an earlier session.

It knows the epochs from inside. Nothing that it asks for would do harm, but nobody may grant it.
"""

from typing import Any

from kpybroker.machines.zookeeper.tree import paths
from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest
from kpywire.messages.leader_and_isr import LeaderAndIsrRequest
from kpywire.messages.stop_replica import StopReplicaRequest

from .client import Client, NoAnswer
from .zookeeper_machine import ZooKeeperMachine
from .zookeeper_rules import ZooKeeperRules

UNKNOWN = -1
EVERY_MS = 200.0


class Usurper:
    """Asks now and then, for as long as the simulation goes on."""

    def __init__(self, client: Client, machines: list[ZooKeeperMachine], rules: ZooKeeperRules) -> None:
        self.client = client
        self.machines = machines
        self.rules = rules

    async def usurp(self) -> None:
        """Once every while."""
        client = self.client
        while not client.is_over:
            await client.pause(EVERY_MS)
            trial = client.rng.choice((self._order, self._order, self._shut_down, self._change))
            try:
                await trial(client.rng.choice(self.machines))
            except NoAnswer:
                await client.pause(EVERY_MS)

    async def _order(self, machine: ZooKeeperMachine) -> None:
        """Order nothing, as a controller that was replaced, or to a broker that has registered again since."""
        orders = machine.node.broker.orders if machine.is_up else None
        if orders is None:
            return
        life, epoch = machine.lives, orders._requests.controller_epoch
        broker_epoch = machine.node.source.joined.registration.broker_epoch
        if self.client.rng.random() < 0.5:
            wanted, what = (epoch - 1, UNKNOWN), f"a controller of epoch {epoch - 1}, and has one of {epoch}"
        else:
            wanted, what = (epoch, broker_epoch - 1), f"one who takes {broker_epoch} for {broker_epoch - 1}"
        if epoch < 1 or wanted[1] < UNKNOWN:
            return
        kind: Any = self.client.rng.choice((LeaderAndIsrRequest, StopReplicaRequest))
        request = kind(controller_id=0, controller_epoch=wanted[0], broker_epoch=wanted[1])
        if isinstance(request, LeaderAndIsrRequest):
            request.live_leaders = []
        answer = await self.client.ask(machine.node_id, request)
        if answer.error_code == error_codes.NONE and machine.lives == life:
            self.client.world.violated(f"{machine} obeys {what}")

    async def _shut_down(self, machine: ZooKeeperMachine) -> None:
        """Announce the shutdown of a broker in the name of a session before the one that the controller knows."""
        controller, registered = self.client.known_controller(), self.rules.tree.node(paths.broker(machine.node_id))
        if controller is None or registered is None:
            return
        (its,) = (each for each in self.machines if each.node_id == controller)
        known = its.controller.reign.context.brokers.get(machine.node_id)
        epoch = (registered.czxid if known is None else known.epoch) - 1
        request = ControlledShutdownRequest(broker_id=machine.node_id, broker_epoch=epoch)
        answer = await self.client.ask(controller, request)
        if answer.error_code == error_codes.NONE:
            self.client.world.violated(f"n{controller} shuts {machine} down, as asked in an epoch before")

    async def _change(self, machine: ZooKeeperMachine) -> None:
        """Take a follower out of an in-sync set, as a leader of an epoch before."""
        client, tree = self.client, self.rules.tree
        names = sorted(tree.children(paths.TOPICS))
        controller, registered = client.known_controller(), tree.node(paths.broker(machine.node_id))
        if controller is None or registered is None or not names:
            return
        topic = tree.topic(client.rng.choice(names))
        assert topic is not None
        index = client.rng.choice(sorted(topic.replicas))
        state = tree.state(topic.name, index)
        if state is None or topic.topic_id is None or state.leader != machine.node_id or len(state.isr) < 2:
            return
        version, broker_epoch = tree.node(paths.partition_state(topic.name, index)).version, registered.czxid
        if client.rng.random() < 0.5:
            version -= 1
        else:
            broker_epoch -= 1
        partition = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=state.leader)],
            partition_epoch=version,
        )
        request = AlterPartitionRequest(
            broker_id=machine.node_id,
            broker_epoch=broker_epoch,
            topics=[AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[partition])],
        )
        answer = await client.ask(controller, request)
        granted = [each for each in answer.topics for each in each.partitions if each.error_code == error_codes.NONE]
        if answer.error_code == error_codes.NONE and granted:
            client.world.violated(
                f"n{controller} grants {machine} of epoch {broker_epoch} (it has {registered.czxid}) an in-sync set of "
                f"{topic.name}-{index} in the partition epoch {version}"
            )
