"""A client that poses as the leader of a partition, and asks the controller for what no leader may have. Now and then
it has leaders elected, as an operator does, so that they change while all are alive.

It knows the metadata from inside. It asks for the in-sync set that there is, so that nothing would change.
"""

from typing import TYPE_CHECKING, Any

from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.elect_leaders import ElectLeadersRequest

from .client import Client, NoAnswer
from .layout import CONTROLLER_PORT

if TYPE_CHECKING:
    from .machine import Machine

PREFERRED = 0
BEHIND = 2
"""The number of epochs; a controller that is deposed and does not know it may be one behind, and not answer more."""


class Poser:
    """Asks now and then, for as long as the simulation goes on."""

    def __init__(self, client: Client, machines: "list[Machine]") -> None:
        self.client = client
        self.machines = machines

    async def pose(self) -> None:
        """Once every while."""
        while not self.client.is_over:
            await self.client.pause(300)
            hosts = [each.node.quorum for each in self.machines if each.node is not None and each.node.quorum]
            if self.client.rng.random() < 0.2:
                await self._elect()
            elif hosts:
                await self._ask(max((host.image for host in hosts), key=lambda image: image.next_offset))

    async def _ask(self, image: Any) -> None:
        rng = self.client.rng
        led = [
            (topic, index, each)
            for topic in image.topics.values()
            for index, each in topic.partitions.items()
            if each.leader in image.brokers
        ]
        if not led:
            return
        topic, index, partition = rng.choice(led)
        members = [BrokerState(broker_id=each, broker_epoch=image.brokers[each].epoch) for each in partition.isr]
        partition_epoch, leader_epoch = partition.partition_epoch, partition.leader_epoch
        if rng.random() < 0.5:
            rng.choice(members).broker_epoch -= 1
            what = f"with an epoch that no life of a broker had: {members}"
        else:
            partition_epoch -= BEHIND
            leader_epoch -= rng.choice((0, 1))
            what = f"in its epoch {partition_epoch} (leader epoch {leader_epoch})"
            if partition_epoch < 0 or leader_epoch < 0:
                return
        wanted = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=leader_epoch,
            new_isr_with_epochs=members,
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=image.brokers[partition.leader].epoch,
            topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[wanted])],
        )
        answered = await self._answer(request)
        if answered is not None and answered.error_code == error_codes.NONE:
            reported = answered.partition_epoch
            if partition_epoch == partition.partition_epoch or reported >= partition_epoch + BEHIND:
                self.client.world.violated(f"{topic.name}-{index} has its in-sync set granted {what}, now {reported}")

    async def _elect(self) -> None:
        request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=1_000)
        try:
            await self.client.ask(self.client.controller_or_any(), request)
        except NoAnswer:
            return

    async def _answer(self, request: AlterPartitionRequest) -> Any:
        """The answer of a controller about the partition; nothing where it has nothing to say."""
        active = [each.node_id for each in self.machines if each.is_controller]
        if not active:
            return None
        try:
            answer = await self.client.ask(active[0], request, port=CONTROLLER_PORT)
        except NoAnswer:
            return None
        return answer.topics[0].partitions[0] if answer.error_code == error_codes.NONE else None
