"""The rules that must hold at every moment, read from inside the nodes and compared with everything seen before.

One leader in an epoch, of a partition and of the quorum; high watermarks that never go back; what was committed once is
committed everywhere with the same bytes, and every later leader has it; in-sync sets that the controller granted; one
metadata image at one offset.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from kpybroker.hosts.coordinators.placement import partition_for
from kpystorage.errors import CorruptRecord, DiskFailure
from kpywire.batch import batch_headers
from kpywire.errors import Malformed

from .layout import COORDINATOR_PARTITIONS
from .sequences import Sequences
from .synced import is_synced

if TYPE_CHECKING:
    from .listing import Listing
    from .machine import Machine
    from .world import World

READ_BYTES = 1 << 20

Place = tuple[str, bytes, int]
"""Topic, its id, partition."""


class Committed:
    """The batches of a partition that were committed, as far as any leader's high watermark has come."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.epoch = -1
        """The newest in which somebody led."""
        self.batches: dict[int, tuple[int, int, int]] = {}
        """By base offset: last offset, epoch, checksum."""
        self.sequences = Sequences()


class Known:
    """A replica as it was when it was last checked. (A partition may leave a node and come back: another replica.)"""

    __slots__ = ("high_watermark", "read_to", "state")

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()
        """All on which depends what has to hold of it."""
        self.high_watermark = 0
        self.read_to = 0


class Granted(NamedTuple):
    """The newest that is known of a partition: who has all that is committed."""

    partition_epoch: int
    members: frozenset[int]


class Invariants:
    """Looks at the node that did something, after each event, and there at the replicas that are not as they were."""

    def __init__(self, world: "World", machines: "list[Machine]", listing: "Listing") -> None:
        self.world = world
        self.listing = listing
        self.machines = machines
        self._by_host = {machine.host: machine for machine in machines}
        self.reckless: set[str] = set()
        """Topics of which leaders may be elected that lack what was committed: only leaders and in-sync sets count."""
        self.alone: set[str] = set()
        """Topics with one replica, which may be lost."""
        self.rewritten: set[str] = set()
        """Topics that are compacted: replicas differ in their batches, and names of files change before they are synced
        (a start knows the ones before, too)."""
        self.committed: dict[Place, Committed] = {}
        self._partition_leaders: dict[tuple[Place, int], int] = {}
        self._reachable: set[tuple[Place, int]] = set()
        """The epochs in which a leader was seen that others can reach."""
        self._quorum_leaders: dict[int, int] = {}
        self._elections: dict[int, Any] = {}
        """By node: what its quorum-state says."""
        self._granted: dict[tuple[Place, int], frozenset[int]] = {}
        self._newest: dict[Place, Granted] = {}
        self._images: dict[int, int] = {}
        self._image_ends: dict[tuple[int, int], int] = {}
        self._known: dict[Any, Known] = {}
        """By replica."""
        self._changed: dict[Place, None] = {}
        """Partitions of which something is not as it was: all their replicas have to be checked together."""

    def look(self) -> None:
        """After an event."""
        world = self.world
        if world.acted is not None:
            machine = self._by_host.get(world.acted)
            world.acted = None
            if machine is not None:
                self._look_at(machine)
        if self._changed:
            changed, self._changed = self._changed, {}
            for place in changed:
                self._look_at_all_of(place)

    def _look_at(self, machine: "Machine") -> None:
        """Check the rules of one node."""
        node = machine.node
        if node is None or node.quorum is None:
            return
        self._look_at_quorum(machine, node.quorum)
        if node.broker is not None:
            self._look_at_replicas(machine, node.broker.replicas)

    def _look_at_all_of(self, place: Place) -> None:
        """Check the rules of all replicas of a partition together."""
        committed = self.committed.get(place)
        if committed is None:
            return
        for machine in self.machines:
            broker = machine.node.broker if machine.node is not None else None
            topic = broker.replicas.topics.get(place[0]) if broker is not None and hasattr(broker, "replicas") else None
            replica = topic.replicas.get(place[2]) if topic is not None and topic.id == place[1] else None
            role = replica.role if replica is not None and replica.is_here else None
            if role is None or not role.log.is_open:
                continue
            self._look_at_member(machine, role, place, committed.end_offset)
            if role is replica.leader and machine.lives == 1:
                self._look_at_stable(machine, role, committed.sequences)

    def _look_at_member(self, machine: "Machine", role: Any, place: Place, end_offset: int) -> None:
        """A replica that is in sync, or may be elected without that (KIP-966), has all that is committed."""
        granted = self._newest.get(place)
        if granted is None or machine.node_id not in granted.members or not machine.is_up or machine.is_suspect:
            return
        if role.log.log_end_offset < end_offset:
            self.world.violated(
                f"{machine} counts for {place[0]}-{place[2]} (epoch {granted.partition_epoch}: "
                f"{sorted(granted.members)}) and ends at {role.log.log_end_offset} of {end_offset} committed"
            )

    def may_lose(self, machine: "Machine") -> bool:
        """Whether nothing that was promised would be lost with what only this machine's memory, or disk, holds: of each
        partition another node in sync has it all, which has not lost anything itself since it was let in."""
        hosts = [each.node.quorum for each in self.machines if each.node is not None and each.node.quorum]
        newest = max(self._quorum_leaders, default=0)
        reigns = [host._reign for host in hosts if host._reign is not None and host._quorum.epoch == newest]
        if not reigns:
            return False  # who leads now knows of what nobody else does yet
        images = [max((host.image for host in hosts), key=lambda image: image.next_offset)]
        images += [reign.state.image for reign in reigns]
        others = {each.node_id for each in self.machines if each.is_up and not each.is_suspect and each is not machine}
        for image in images:
            for topic in image.topics.values():
                for index, partition in topic.partitions.items() if topic.name not in self.alone else ():
                    having = set(partition.isr) or {*partition.elr, *partition.last_known_elr}
                    damaged = self._damaged(f"{topic.name}-{index}")
                    is_in_need = machine.node_id in having or bool(having & damaged)
                    if is_in_need and machine.node_id in partition.replicas and not (having & others) - damaged:
                        return False
        return True

    def _damaged(self, name: str) -> set[int]:
        """The nodes whose replica of a partition is damaged."""
        return {each.node_id for each in self.machines if name in each.damaged}

    def newest_epochs(self, coordinators: str, key: str) -> dict[bytes, int]:
        """By the id of the topic ``coordinators``: the newest epoch in which somebody has led the partition of a group
        or of a transactional id."""
        index = partition_for(key, COORDINATOR_PARTITIONS)
        return {place[1]: each.epoch for place, each in self.committed.items() if place[::2] == (coordinators, index)}

    def coordinates_no_more(
        self, node_id: int, coordinators: str, key: str, newest_epochs: Mapping[bytes, int]
    ) -> bool:
        """Whether a node takes itself for the coordinator of a group or of a transactional id in an older epoch than
        the newest, even if it has not needed its log yet. What it answers from memory until it learns of that may be
        old: reads ask nobody, in Kafka (``scheduleReadOperation``) and here."""
        node = self.machines[node_id - 1].node
        broker = node.broker if node is not None else None
        topic: Any = broker.replicas.topics.get(coordinators) if broker is not None else None
        replica = topic.replicas.get(partition_for(key, COORDINATOR_PARTITIONS)) if topic is not None else None
        if replica is None or not replica.is_led_here:
            return False
        return bool(replica.partition.leader_epoch < newest_epochs.get(topic.id, -1))

    # The metadata

    def _look_at_quorum(self, machine: "Machine", host: Any) -> None:
        quorum = host._quorum
        if quorum.is_leader:
            known = self._quorum_leaders.setdefault(quorum.epoch, machine.node_id)
            if known != machine.node_id:
                self.world.violated(f"n{known} and {machine} led the quorum in epoch {quorum.epoch}")
        self._look_at_election(machine, quorum)
        image = host.image
        key = (machine.node_id, machine.lives)
        before = self._image_ends.get(key, 0)
        if image.next_offset == before:
            return
        if image.next_offset < before:
            self.world.violated(f"the metadata of {machine} went back from {before} to {image.next_offset}")
        self._image_ends[key] = image.next_offset
        self.listing.metadata_changed(image)
        digest = self._digest(image)
        known_digest = self._images.setdefault(image.next_offset, digest)
        if known_digest != digest:
            self.world.violated(f"the metadata at offset {image.next_offset} are not the same on {machine}")

    def _look_at_election(self, machine: "Machine", quorum: Any) -> None:
        """No epoch and no vote that somebody may know of is forgotten, whatever happens to the node."""
        if machine.is_empty:
            self._elections.pop(machine.node_id, None)
        election, known = quorum.role.election, self._elections.get(machine.node_id)
        if election is known or quorum._is_saving:
            return
        if known is not None:
            is_another = known.voted_id >= 0 and election.voted_id != known.voted_id
            if election.epoch < known.epoch or (election.epoch == known.epoch and is_another):
                self.world.violated(f"{machine} knew {known}, and now {election}")
        self._elections[machine.node_id] = election

    def _digest(self, image: Any) -> int:
        parts: list[Any] = [sorted(image.features.items()), image.next_producer_id]
        parts += [(each.id, each.epoch, each.fenced, each.incarnation_id) for each in image.brokers.values()]
        for topic in image.topics.values():
            parts.append((topic.name, topic.id))
            for index, each in topic.partitions.items():
                place = (topic.name, topic.id, index)
                granted = frozenset(each.isr)
                known = self._granted.setdefault((place, each.partition_epoch), granted)
                if known != granted:
                    self.world.violated(
                        f"{topic.name}-{index} has two in-sync sets in its epoch {each.partition_epoch}"
                    )
                self._note_members(place, each.partition_epoch, {*each.isr, *each.elr})
                self._look_at_in_sync(image, f"{topic.name}-{index}", each)
                parts.append(
                    (index, each.leader, each.leader_epoch, each.partition_epoch, *each.isr, *each.elr, *each.replicas)
                )
        parts.append(sorted((str(key), sorted(each.items())) for key, each in image.configs.items()))
        return crc32(repr(parts).encode())

    def _note_members(self, place: Place, partition_epoch: int, members: set[int]) -> None:
        known = self._newest.get(place)
        if known is None or known.partition_epoch < partition_epoch:
            self._newest[place] = Granted(partition_epoch, frozenset(members))
            self._changed[place] = None

    def _look_at_in_sync(self, image: Any, name: str, partition: Any) -> None:
        """Check that the leader is in sync and alive; a dead replica stays in sync only where nobody else is."""
        fenced = [each for each in partition.isr if each not in image.brokers or image.brokers[each].fenced]
        if fenced and len(partition.isr) > 1:
            self.world.violated(f"{fenced} are fenced and in sync of {name}: {list(partition.isr)}")
        if partition.leader >= 0 and partition.leader not in partition.isr:
            self.world.violated(f"n{partition.leader} leads {name} and is not in sync: {list(partition.isr)}")

    # Partitions

    def _look_at_replicas(self, machine: "Machine", replicas: Any) -> None:
        known_of, is_sound = self._known, machine.is_up and not machine.is_suspect
        for topic in replicas.topics.values():
            for replica in topic.replicas.values():
                leader = replica.leader
                role = leader or replica.follower
                if role is None or replica.gone or replica.offline or not role.log.segments:
                    continue
                log = role.log
                state: tuple[Any, ...] = (role, role.high_watermark, log.end, is_sound)
                if leader is not None:
                    in_sync = leader.in_sync
                    unstable = log.producers.first_unstable
                    state = (*state, leader.epoch, in_sync.partition_epoch, in_sync.isr, unstable)
                known = known_of.get(replica)
                if known is None:
                    known = known_of[replica] = Known()
                if known.state != state:
                    known.state = state
                    self._look_at_replica(machine, replica, role, known)

    def _look_at_replica(self, machine: "Machine", replica: Any, role: Any, known: Known) -> None:
        """One that is not as it was."""
        place = _place_of(replica)
        if replica.topic.name in self.reckless:
            if role is replica.leader:
                self._look_at_epoch(machine, replica, place)
            return
        if role is replica.leader:
            self._look_at_leader(machine, replica, place)
        high_watermark = role.high_watermark.offset
        if high_watermark < known.high_watermark:
            self.world.violated(f"the high watermark of {replica} on {machine} went back to {high_watermark}")
        known.high_watermark = high_watermark
        if high_watermark > role.log.log_end_offset:
            self.world.violated(f"the high watermark of {replica} on {machine} is above its log")
        if high_watermark > known.read_to:
            self._compare(machine, replica, role, known.read_to)
            self._look_at_disk(machine, role)
            known.read_to = high_watermark
        self._changed[place] = None

    def _look_at_disk(self, machine: "Machine", role: Any) -> None:
        """Check that, where every message is flushed, nothing counts as committed that this disk would lose with the
        power."""
        if role.log.topic in self.rewritten or (role.log.config.is_tiered and not role.log.size):
            return  # an empty log of which a store has the records may be empty again: it begins behind the store
        if machine.flushes_every_message and not is_synced(machine.disk, role.log, role.high_watermark.offset):
            self.world.violated(f"{role.name} on {machine} is not synced up to {role.high_watermark.offset}")

    def _look_at_stable(self, machine: "Machine", role: Any, sequences: Sequences) -> None:
        """Nothing is stable of a transaction whose marker is not committed. (Of a log that was loaded from a snapshot
        of its producers nobody knows that, neither in Kafka nor here.)"""
        if sequences.end_offset != role.high_watermark.offset:
            return
        first_offset = sequences.first_open_offset
        if first_offset is not None:
            first_offset = max(first_offset, role.log.log_start_offset)  # whose records were deleted
        if first_offset is not None and role.last_stable_offset().offset > first_offset:
            self.world.violated(
                f"{role.name} on {machine} is stable up to {role.last_stable_offset().offset}, "
                f"and a transaction is open since {first_offset}"
            )

    def _look_at_leader(self, machine: "Machine", replica: Any, place: Place) -> None:
        leader = replica.leader
        committed = self.committed.setdefault(place, Committed())
        if (place, leader.epoch) not in self._reachable and machine.is_up:  # nobody reaches it before
            self._reachable.add((place, leader.epoch))
            is_late = leader.epoch < committed.epoch  # it stood still when it was elected, and learns of it now
            committed.epoch = max(committed.epoch, leader.epoch)
            if leader.log.log_end_offset < committed.end_offset and not is_late:
                self.world.violated(
                    f"{machine} leads {replica} in epoch {leader.epoch} up to {leader.log.log_end_offset}, "
                    f"and {committed.end_offset} was committed"
                )
        self._look_at_epoch(machine, replica, place)
        self._note_members(place, leader.partition_epoch, {*leader.isr})
        committed.end_offset = max(committed.end_offset, leader.high_watermark.offset)

    def _look_at_epoch(self, machine: "Machine", replica: Any, place: Place) -> None:
        """One leader in an epoch, and the in-sync set that was granted."""
        leader = replica.leader
        known = self._partition_leaders.setdefault((place, leader.epoch), machine.node_id)
        if known != machine.node_id:
            self.world.violated(f"n{known} and {machine} lead {replica} in epoch {leader.epoch}")
        isr = frozenset(leader.isr)
        granted = self._granted.setdefault((place, leader.partition_epoch), isr)  # images are published a little later
        if granted != isr:
            self.world.violated(f"{machine} has {sorted(leader.isr)} in sync of {replica}, granted {sorted(granted)}")

    def _compare(self, machine: "Machine", replica: Any, role: Any, read_to: int) -> None:
        """Check that newly committed records here are those that were committed elsewhere. (Damaged ones are not
        checked.)"""
        if str(replica) in machine.damaged or replica.topic.name in self.rewritten:
            return
        place = _place_of(replica)
        committed = self.committed.setdefault(place, Committed())
        offset = max(read_to, role.log.local_log_start_offset)
        while offset < role.high_watermark.offset:
            try:
                part = role.log.read(offset, READ_BYTES, role.high_watermark, min_one_batch=True)
                if part is None:
                    return
                headers = [header for _, header in batch_headers(part.read())]
            except DiskFailure:
                return  # its directory went offline in this event
            except (Malformed, CorruptRecord) as error:
                self.world.violated(f"{replica} on {machine} has no batch where one was committed: {error}")
                return
            for header in headers:
                found = (header.last_offset, header.partition_leader_epoch, header.crc)
                known = committed.batches.setdefault(header.base_offset, found)
                if known != found:
                    self.world.violated(
                        f"{replica} on {machine} has at {header.base_offset} (last offset, epoch, checksum) {found}, "
                        f"and {known} was committed"
                    )
                    return
                wrong = committed.sequences.take(header)
                if wrong:
                    self.world.violated(f"{replica} on {machine} has at {header.base_offset} a batch of {wrong}")
                offset = header.next_offset


def _place_of(replica: Any) -> Place:
    return replica.topic.name, replica.topic.id, replica.index
