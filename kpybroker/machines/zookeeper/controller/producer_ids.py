"""AllocateProducerIds: blocks of a thousand producer ids for brokers (KIP-730; Kafka's ``ZkProducerIdManager``)."""

from typing import Final

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Get, OperationFailed, Set
from kpybroker.machines.zookeeper.controller.steps import Steps, UnexpectedAnswer, expected, failed_with, read
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.cluster import ProducerIdBlock

BLOCK_SIZE: Final = 1_000
MOST_ID: Final = 2**63 - 1


class ProducerIdsExhausted(Exception):
    """All producer ids were given away."""


def next_block(broker_id: int) -> Steps[ProducerIdBlock]:
    """The next block, which belongs to the broker from now on. Concurrent writers take other blocks."""
    while True:
        (znode,) = yield from read([Get(paths.PRODUCER_IDS)])
        if znode is None:
            raise UnexpectedAnswer(OperationFailed(error_codes.NO_NODE), paths.PRODUCER_IDS)
        last = ProducerIdBlock.decode(znode.data)
        start = 0 if last is None else last.end
        if start > MOST_ID - BLOCK_SIZE:
            raise ProducerIdsExhausted(f"the last block of producer ids ends at {start}")
        block = ProducerIdBlock(broker_id, start, start + BLOCK_SIZE)
        (result,) = yield [Set(paths.PRODUCER_IDS, block.encode(), znode.stat.version)]
        if not failed_with(result, error_codes.BAD_VERSION):
            expected(result, paths.PRODUCER_IDS)
            return block
