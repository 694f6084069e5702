"""A plan for a large cluster after skew: its time on one core, and the bytes that it copies beside the fewest possible.

Every tenth partition lies on a tenth of the nodes, so these have twice their share. No plan can copy fewer bytes than
those by which nodes are above what they may have on their disks; this one also balances traffic, leaders and replicas.
"""

import random
from collections.abc import Iterator
from functools import partial

from benchmarks.micro.clock import Operation
from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.goals import BalanceGoals, Resource
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.planner import plan
from kpybroker.machines.balance.rolling import ControllersState, roll_plan

SIZES = ((30, 20_000), (300, 200_000))
RACKS = 3
PARTITIONS_OF_TOPIC = 50
DISK_BYTES = 10**13
SKEWED = 0.1


def operations() -> Iterator[Operation]:
    for nodes, partitions in SIZES:
        model = skewed(nodes, partitions)
        goals = BalanceGoals()
        start = Arrangement(model, goals)
        fewest = sum(start.excess(Resource.DISK, each) for each in start.usable)
        found = plan(model, goals)
        name = f"plan, {nodes} nodes, {partitions} partitions: {found.moved_bytes / fewest:.2f} × the fewest bytes"
        yield Operation(name, partial(plan, model, goals), partitions, "partition")
        sets = len(roll_plan(model, ControllersState()).sets)
        name = f"roll-plan, {nodes} nodes: {sets} sets"
        yield Operation(name, partial(roll_plan, model, ControllersState()), partitions, "partition")


def skewed(nodes: int, partitions: int) -> BalanceModel:
    """A cluster with three racks and three replicas of each partition."""
    rng = random.Random(1)
    model = BalanceModel(BalanceNode(each, f"r{each % RACKS}", disk_bytes=DISK_BYTES) for each in range(nodes))
    racks = [[each for each in range(nodes) if each % RACKS == rack] for rack in range(RACKS)]
    crowded = [each[: max(1, len(each) // 10)] for each in racks]
    topic = 0
    for number in range(partitions):
        if number % PARTITIONS_OF_TOPIC == 0:
            topic = model.add_topic(f"topic-{number // PARTITIONS_OF_TOPIC}", min_in_sync=2)
        pool = crowded if rng.random() < SKEWED else racks
        replicas = [rng.choice(each) for each in rng.sample(pool, RACKS)]
        rate = rng.lognormvariate(9, 1)
        load = PartitionLoad(int(rng.lognormvariate(21, 1)), rate, 2 * rate)
        model.add_partition(topic, number % PARTITIONS_OF_TOPIC, replicas, load=load)
    return model
