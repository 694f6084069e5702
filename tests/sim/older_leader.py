"""A client that poses as an older leader of a share partition, and writes its delivery state (KIP-932).

It knows from inside at which epoch the newest leader has read the state.

Rule: the share coordinator takes nothing from an older leader than the newest one that has read the state.
"""

from typing import TYPE_CHECKING

from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpywire import error_codes
from kpywire.messages.write_share_group_state import PartitionData, WriteShareGroupStateRequest, WriteStateData

from .client import Client, NoAnswer, Refused

if TYPE_CHECKING:
    from .deliveries import Deliveries
    from .machine import Machine

SHARE = 2
"""The type of the key of a share coordinator."""
UNCHANGED = -1
PAUSE_MS = 400


class OlderLeader:
    """Writes now and then, for as long as the simulation goes on."""

    def __init__(self, client: Client, deliveries: "Deliveries", machines: "list[Machine]") -> None:
        self.client = client
        self.deliveries = deliveries
        self.machines = machines

    async def write(self, group_id: str, topic: str) -> None:
        """Once every while."""
        client = self.client
        while not client.is_over:
            try:
                await client.look()
                found = client.topics.get(topic)
                if found is not None and found.leaders:
                    index = client.rng.choice(sorted(found.leaders))
                    await self._write(SharePartitionKey(group_id, found.id, index))
            except (NoAnswer, Refused):
                pass
            await client.pause(PAUSE_MS)

    async def _write(self, key: SharePartitionKey) -> None:
        """Write as the leader before the newest one. Raises as asking does."""
        led = [
            each.partition
            for machine in self.machines
            if (each := self.deliveries.led(machine.node_id, key.topic_id, key.partition)) is not None
            and each.is_loaded
        ]
        newest = max(led, key=lambda each: each.leader_epoch, default=None)
        if newest is None or newest.leader_epoch == 0:
            return
        part = PartitionData(
            partition=key.partition,
            state_epoch=newest.state_epoch,
            leader_epoch=newest.leader_epoch - 1,
            start_offset=UNCHANGED,
            delivery_complete_count=UNCHANGED,
            state_batches=[],
        )
        topic = WriteStateData(topic_id=key.topic_id, partitions=[part])
        request = WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        answer = await self.client.ask(await self.client.coordinator(str(key), SHARE), request)
        (result,) = answer.results[0].partitions
        if result.error_code == error_codes.NONE:
            what = f"the state of {key}, which the leader of epoch {newest.leader_epoch} has read"
            self.client.world.violated(f"a leader of epoch {part.leader_epoch} writes {what}")
