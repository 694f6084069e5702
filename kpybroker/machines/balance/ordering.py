"""The order of a plan's moves, and the reason of each in words.

Invariant: after every prefix of the moves, and while the next one copies, no disk is above its limit because of the
plan: a move waits until there is room for it. A partition keeps its old replicas until the new ones are in sync
(KIP-455), so no move lowers the number of replicas in sync.
"""

from typing import Final, NamedTuple

from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.goals import MoveReason, Resource
from kpybroker.machines.balance.model import BalanceModel
from kpybroker.machines.balance.move_log import LoggedMove, Reasons
from kpybroker.machines.balance.words import size_words

Loads = list[list[float]]


class PlannedMove(NamedTuple):
    """The change of a partition: other replicas, or another order of them. Nodes are ids."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    reason: MoveReason
    text: str

    @property
    def added(self) -> list[int]:
        """The nodes that get a replica."""
        return [each for each in self.after if each not in self.before]

    @property
    def copied_bytes(self) -> int:
        """The bytes that have to be copied."""
        return self.size_bytes * len(self.added)


def in_order(now: Arrangement, reasons: Reasons, loads_before: Loads) -> tuple[list[PlannedMove], list[PlannedMove]]:
    """The moves to an arrangement in their order, and those for which there never is room."""
    model = now.model
    load = [list(each) for each in loads_before]
    waiting = sorted(now.changed(), key=lambda each: _rank(now, each, reasons))
    moves = []
    while True:
        left = []
        for partition in waiting:
            added = now.added(partition)
            if all(load[Resource.DISK][n] + model.size[partition] <= now.room[n] for n in added):
                moves.append(_carried_out(now, load, partition, reasons))
            else:
                left.append(partition)
        if not left or len(left) == len(waiting):
            break
        waiting = left
    deferred = []
    for partition in left:
        after = [list(each) for each in load]
        deferred.append(_carried_out(now, after, partition, reasons))  # what it brings once there is room
        now.put_back(partition)
    return moves, deferred


def _rank(now: Arrangement, partition: int, reasons: Reasons) -> tuple[int, int, int, int]:
    """The place in the order. Repairs come first, then the partitions with the fewest replicas in sync, then the small
    ones; leaders come last."""
    added = now.added(partition)
    reason = _cause(now, partition, reasons).reason
    size = now.model.size[partition] * len(added)
    return (int(reason) if added else len(MoveReason), len(now.model.in_sync_of(partition)), size, partition)


def _cause(now: Arrangement, partition: int, reasons: Reasons) -> LoggedMove:
    """The most important change that is left of a partition's: the search may have changed it again."""
    before, after = now.model.replicas_of(partition), now.of(partition)
    gone = [each for each in before if each not in after]
    for each in reasons.get(partition, ()):
        if each.source in gone if gone else each.reason in (MoveReason.OUT, MoveReason.LEADERS):
            return each
    return LoggedMove(MoveReason.ROOM if gone else MoveReason.LEADERS, partition, before[0], after[0])


def _carried_out(now: Arrangement, load: Loads, partition: int, reasons: Reasons) -> PlannedMove:
    before = [list(each) for each in load]
    first = now.model.first[partition]
    for sign, replicas in ((-1, now.model.replicas_of(partition)), (1, now.of(partition))):
        for place, node in enumerate(replicas, first):
            for resource, part in enumerate(now.all_taken(partition, leads=place == first)):
                load[resource][node] += sign * part
    return _planned(now, before, partition, reasons, load)


def _planned(now: Arrangement, before: Loads, partition: int, reasons: Reasons, after: Loads) -> PlannedMove:
    model = now.model
    move = _cause(now, partition, reasons)
    old, new = model.ids(model.replicas_of(partition)), model.ids(now.of(partition))
    topic = model.topics[model.topic[partition]]
    text = f"{_what(model, partition, old, new)}: {_why(now, move, before, after)}"
    return PlannedMove(topic, model.number[partition], old, new, model.size[partition], move.reason, text)


def _what(model: BalanceModel, partition: int, old: tuple[int, ...], new: tuple[int, ...]) -> str:
    """``orders-17: broker 4 → 9, 3.1 GB``."""
    gone, added = [each for each in old if each not in new], [each for each in new if each not in old]
    if not added:
        return f"{model.name(partition)}: leader {old[0]} → {new[0]}, no bytes"
    arrows = ", ".join(f"{one} → {two}" for one, two in zip(gone, added, strict=False))
    return f"{model.name(partition)}: broker {arrows}, {size_words(model.size[partition] * len(added))}"


def _why(now: Arrangement, move: LoggedMove, before: Loads, after: Loads) -> str:
    nodes, source = now.model.nodes, move.source
    name = nodes[source].id
    if move.reason is MoveReason.GONE:
        return f"broker {name} is gone"
    if move.reason is MoveReason.LEAVING:
        left = int(after[Resource.REPLICAS][source])
        return f"broker {name} is to be empty, and then has {left or 'no'} replica{'s' * (left > 1)}"
    if move.reason is MoveReason.RACK:
        return f"two replicas are in rack {nodes[source].rack or '-'}"
    if move.reason is MoveReason.JOINING:
        return f"broker {nodes[move.target].id} is new, and has {_share_words(now, move.target, after)} then"
    if move.reason is MoveReason.ROOM:
        return "it makes room for a larger replica"
    if move.reason in (MoveReason.FULL, MoveReason.DISK):
        return _disk_words(now, source, before, after)
    resource = next(each for each in Resource if each.name == move.reason.name)
    was, becomes = before[resource][source], after[resource][source]
    shown = _rate_words if resource in (Resource.IN, Resource.OUT) else _count_words
    share = f"{now.shares[resource][source]:.1f}" if shown is _count_words else shown(now.shares[resource][source])
    falls = _falls(shown(was), shown(becomes), shown(was - becomes))
    return f"{_NAMES[resource]} of {name}: {falls}; its share is {share}"


_NAMES: Final = {
    Resource.DISK: "bytes",
    Resource.IN: "incoming traffic",
    Resource.OUT: "outgoing traffic",
    Resource.LEADERS: "leaders",
    Resource.REPLICAS: "replicas",
}


def _falls(was: str, becomes: str, by: str) -> str:
    """``91 %, falls to 83 %``; by how much, if the difference is too small for that."""
    return f"{was}, falls to {becomes}" if was != becomes else f"{was}, falls by {by}"


def _rate_words(rate: float) -> str:
    return f"{size_words(round(rate))}/s"


def _count_words(count: float) -> str:
    return str(round(count))


def _disk_words(now: Arrangement, source: int, before: Loads, after: Loads) -> str:
    node = now.model.nodes[source]
    was, becomes = before[Resource.DISK][source], after[Resource.DISK][source]
    by = size_words(round(was - becomes))
    if node.disk_bytes <= 0:
        share = size_words(round(now.shares[Resource.DISK][source]))
        falls = _falls(size_words(round(was)), size_words(round(becomes)), by)
        return f"bytes of {node.id}: {falls}; its share is {share}"
    others = now.goals.disk_limit * node.disk_bytes - now.room[source]
    full, fuller = (f"{100 * (each + others) / node.disk_bytes:.0f} %" for each in (becomes, was))
    return f"disk of {node.id} at {_falls(fuller, full, by)}"


def _share_words(now: Arrangement, node: int, after: Loads) -> str:
    resource = Resource.DISK if now.shares[Resource.DISK][node] else Resource.REPLICAS
    return f"{100 * after[resource][node] / (now.shares[resource][node] or 1):.0f} % of its share"
