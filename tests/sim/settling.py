"""The state of rest once nothing goes wrong any more and nobody writes: every replica is in sync and has the same
bytes, no reassignment is under way, and of deleted topics nothing is left on any disk.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kpystorage.memory_disk import Folder
from kpywire.batch import ATTRIBUTES_POSITION, batch_headers
from kpywire.crc import crc32c

from .layout import DIRECTORIES

if TYPE_CHECKING:
    from .machine import Machine

READ_BYTES = 1 << 20
METADATA = "__cluster_metadata-0"
STRAY = "-stray"
"""The suffix of a log that a node finds at its start and has no partition for; as with Kafka only its operator removes
it."""


def newest_image(machines: "list[Machine]") -> Any:
    """The metadata of who knows most; None if nobody knows any."""
    return max(_images(machines), key=lambda image: image.next_offset, default=None)


def know_the_same(machines: "list[Machine]") -> bool:
    """Whether the metadata of all nodes are as new."""
    return len({image.next_offset for image in _images(machines)}) == 1


def _images(machines: "list[Machine]") -> list[Any]:
    return [image for image in (each.image for each in machines) if image is not None]


def unsettled(machines: "list[Machine]") -> str:
    """The first thing that is not yet at rest; nothing once all is."""
    image = newest_image(machines)
    if image is None:
        return "nobody knows the metadata"
    by_id = {machine.node_id: machine for machine in machines}
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            name = f"{topic.name}-{index}"
            if partition.adding_replicas or partition.removing_replicas:
                return f"{name} is being reassigned"
            if set(partition.isr) != set(partition.replicas):
                return f"{name} has {list(partition.isr)} of {list(partition.replicas)} in sync"
            if len(partition.replicas) == 1:
                continue  # nobody may have asked for it yet
            roles = [_role(by_id[node_id], topic, index) for node_id in partition.replicas]
            ends = {(role.log.log_end_offset, role.high_watermark.offset) for role in roles if role is not None}
            if None in roles or len(ends) > 1 or any(end != high_watermark for end, high_watermark in ends):
                return f"{name} ends at {sorted(ends)} (end, high watermark) on {list(partition.replicas)}"
    return next(_left_over(machines, image), "")


def differing(machines: "list[Machine]") -> str:
    """Which replicas do not have the same bytes, or have damaged ones; nothing if all is well."""
    image = newest_image(machines)
    by_id = {machine.node_id: machine for machine in machines}
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            roles = [_role(by_id[node_id], topic, index) for node_id in partition.replicas]
            if None in roles:
                continue
            start = max(role.log.log_start_offset for role in roles)
            found = [_batches(role, start) for role in roles]
            for node_id, batches in zip(partition.replicas, found, strict=True):
                wrong = next((at for at, (checksum, whole) in batches.items() if checksum != whole), None)
                if wrong is not None:
                    return f"{topic.name}-{index} on n{node_id} is damaged at {wrong}"
                if not topic.name.startswith("__") and batches != found[0]:
                    at = min(set(batches.items()) ^ set(found[0].items()))[0]
                    return f"{topic.name}-{index} is not the same on n{node_id} and n{partition.replicas[0]} at {at}"
    return ""


def _role(machine: "Machine", topic: Any, index: int) -> Any:
    """The replica of a partition on a machine, as a leader or follower; None if there is none yet."""
    broker = machine.node.broker if machine.node is not None else None
    held = broker.replicas.topics.get(topic.name) if broker is not None else None
    replica = held.replicas.get(index) if held is not None and held.id == topic.id else None
    role = replica.role if replica is not None and replica.is_here else None
    return role if role is not None and role.log.is_open else None


def _batches(role: Any, start: int) -> dict[int, tuple[int, int]]:
    """By base offset: the checksum that a batch has, and the one it says."""
    found: dict[int, tuple[int, int]] = {}
    offset = start
    while offset < role.log.log_end_offset:
        part = role.log.read(offset, READ_BYTES, role.log.end, min_one_batch=True)
        data = part.read() if part is not None else b""
        before = offset
        for position, header in batch_headers(data):
            batch = data[position : position + header.size]
            found[header.base_offset] = crc32c(batch[ATTRIBUTES_POSITION:]), header.crc
            offset = header.next_offset
        if offset == before:
            break
    return found


def _left_over(machines: "list[Machine]", image: Any) -> Iterator[str]:
    """Directories of partitions that a disk has and the machine should not."""
    for machine in machines:
        if machine.may_keep_moved:
            continue
        top: Any = machine.disk.root
        roots = [top.entries[each.strip("/")] for each in DIRECTORIES if each.strip("/") in top.entries]
        wanted = {
            f"{topic.name}-{index}"
            for topic in image.topics.values()
            for index, partition in topic.partitions.items()
            if machine.node_id in partition.replicas
        }
        for name, node in [entry for root in roots for entry in root.entries.items()]:
            is_lasting = name == METADATA or name.endswith(STRAY)
            if isinstance(node, Folder) and not is_lasting and name not in wanted:
                yield f"{machine} has {name} still"
