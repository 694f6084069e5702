"""Elections: which replica leads a partition next (Kafka's ``Election`` and ``PartitionLeaderElectionAlgorithms``).

Every election gives the next leader epoch. None as the state says that nobody may lead.
"""

from typing import NamedTuple

from kpybroker.machines.metadata.topic import RECOVERING
from kpybroker.machines.zookeeper.controller.assignment import BrokerIds
from kpybroker.machines.zookeeper.controller.context import ControllerContext
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch


class Elected(NamedTuple):
    """The next state of a partition, and the brokers that learn of it."""

    state: LeaderIsrAndControllerEpoch | None
    recipients: BrokerIds


def elect_offline(
    context: ControllerContext, partition: TopicPartition, state: LeaderIsrAndControllerEpoch, *, unclean: bool
) -> Elected:
    """The leader of a partition without one: the first live replica of the ISR; if unclean is allowed, of any."""
    live = _online(context, partition, context.replicas(partition))
    for leader in live:
        if leader in state.isr:
            return Elected(_next(context, state, leader, _online(context, partition, state.isr)), live)
    if unclean and live:
        return Elected(_next(context, state, live[0], live[:1], recovery=RECOVERING), live)
    return Elected(None, live)


def elect_reassigned(
    context: ControllerContext, partition: TopicPartition, state: LeaderIsrAndControllerEpoch
) -> Elected:
    """The leader among the replicas that stay: the first that lives and is in the ISR."""
    target = context.assignment(partition).target
    leaders = [each for each in _online(context, partition, target) if each in state.isr]
    return Elected(_next(context, state, leaders[0], state.isr) if leaders else None, target)


def elect_preferred(
    context: ControllerContext, partition: TopicPartition, state: LeaderIsrAndControllerEpoch
) -> Elected:
    """The first replica of the assignment, if it lives and is in the ISR."""
    replicas = context.replicas(partition)
    leaders = [each for each in _online(context, partition, replicas[:1]) if each in state.isr]
    return Elected(_next(context, state, leaders[0], state.isr) if leaders else None, replicas)


def elect_for_shutdown(
    context: ControllerContext, partition: TopicPartition, state: LeaderIsrAndControllerEpoch
) -> Elected:
    """The first replica of the ISR that lives and is not shutting down. Those that are leave the ISR."""
    replicas = context.replicas(partition)
    present = tuple(each for each in replicas if context.is_online(each, partition, or_shutting_down=True))
    stays = [each for each in present if each in state.isr and each not in context.shutting_down]
    isr = tuple(each for each in state.isr if each not in context.shutting_down)
    return Elected(_next(context, state, stays[0], isr) if stays else None, present)


def _online(context: ControllerContext, partition: TopicPartition, replicas: BrokerIds) -> BrokerIds:
    return tuple(each for each in replicas if context.is_online(each, partition))


def _next(
    context: ControllerContext,
    state: LeaderIsrAndControllerEpoch,
    leader: int,
    isr: BrokerIds,
    recovery: int | None = None,
) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr,
        controller_epoch=context.epoch,
        recovery=state.recovery if recovery is None else recovery,
    )
