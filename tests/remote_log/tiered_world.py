"""A partition with two replicas, a store and its metadata, played with a random order of events and failures.

`TieredWorld.check` compares what a reader gets with what was committed. Nothing runs by itself: every effect of the
machines waits in a queue and may be late, fail or be lost with its node. A former leader may go on for a while.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from remote_log_histories import TOPIC_ID

from kpybroker.machines.remote_log import copying, deleting, empty_leader, follower, sweep
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.expiry import UnfinishedCopies, local_expiry, remote_expiry
from kpybroker.machines.remote_log.lineage import agrees_until, at_once, copied_without_gap, log_start, segment_for
from kpybroker.machines.remote_log.local_log import LocalLog, LocalSegment, TierSettings
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata
from kpybroker.machines.remote_log.segments import (
    DELETED,
    FINISHED,
    STARTED,
    Record,
    RemoteLogSegment,
    RemotePartitionDelete,
)

DEADLINE_MS = 50
WAIT_MS = 200
"""No copy lasts as long, on any node."""
WALL_MS = 1_000_000


class Written(NamedTuple):
    """A record of the partition."""

    epoch: int
    number: int
    at_ms: int


Objects = tuple[RemoteLogSegment, tuple[Written, ...], tuple[tuple[int, int], ...]]
"""The segment, its records, and its LEADER_EPOCH."""


class LateObjects(NamedTuple):
    """Objects that appear after their copy was reported as failed."""

    segment_id: bytes
    objects: Objects


class Reign(NamedTuple):
    """The machines of one leader."""

    copies: copying.SegmentCopies
    deletions: deleting.Deletions
    epoch: int


class Replica:
    """The log of one replica. ``bases`` are those of its segments, ``history`` has every record it ever knew."""

    def __init__(self) -> None:
        self.log_start = 0
        self.local_start = 0
        self.bases = [0]
        self.records: list[Written] = []
        self.epochs: list[tuple[int, int]] = []
        self.history: list[Written] = []

    @property
    def end(self) -> int:
        return self.local_start + len(self.records)

    def append(self, record: Written) -> None:
        if not self.epochs or self.epochs[-1][0] < record.epoch:
            while self.epochs and self.epochs[-1][1] >= self.end:  # none of its records are left
                self.epochs.pop()
            self.epochs.append((record.epoch, self.end))
        self.records.append(record)
        self.history.append(record)

    def roll(self) -> None:
        if self.bases[-1] < self.end:
            self.bases.append(self.end)

    def cut(self, end: int) -> None:
        del self.records[max(0, end - self.local_start) :], self.history[end:]
        self.bases = [each for each in self.bases if each < end] or [self.local_start]
        self.epochs = [each for each in self.epochs if each[1] < end]

    def move_start(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        later = [at for at, (_, start) in enumerate(self.epochs) if start <= self.log_start]
        if later:
            self.epochs = self.epochs[later[-1] :]
            self.epochs[0] = (self.epochs[0][0], max(self.epochs[0][1], self.log_start))

    def leave_disk(self, offset: int) -> None:
        del self.records[: max(0, offset - self.local_start)]
        self.local_start = max(self.local_start, offset)
        self.bases = [each for each in self.bases if each >= self.local_start]

    def start_at(
        self, offset: int, log_start_offset: int, epochs: list[tuple[int, int]], history: list[Written]
    ) -> None:
        self.history = history[:offset]
        self.log_start, self.local_start = log_start_offset, offset
        self.bases, self.records, self.epochs = [offset], [], epochs

    def seen(self, committed: int) -> LocalLog:
        ends = [*self.bases[1:], self.end]
        segments = []
        for base, end in zip(self.bases, ends, strict=True):
            held = self.records[base - self.local_start : end - self.local_start]
            segments.append(LocalSegment(base, 10 * len(held), max((each.at_ms for each in held), default=WALL_MS)))
        local = max(self.local_start, self.log_start)
        return LocalLog(segments, self.log_start, local, self.end, committed, committed, self.epochs)


class TieredWorld:
    """The partition and its surroundings."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now_ms = 0
        self.replicas = (Replica(), Replica())
        self.leading, self.epoch = 0, 1
        self.committed = 0
        self.store: dict[bytes, Objects] = {}
        self.metadata = RemoteLogMetadata()
        self.queue: list[tuple[object, Reign]] = []
        self.ids = 0
        self.is_calm = False
        self.settings = TierSettings(
            retention_ms=rng.choice((-1, 100, 400)),
            retention_bytes=rng.choice((-1, 100, 400)),
            local_retention_ms=rng.choice((0, 20, 60)),
            local_retention_bytes=rng.choice((-2, 0, 50)),
            copy_lag_ms=rng.choice((0, 0, 30)),
            copy_lag_bytes=rng.choice((-1, 40)),
        )
        self.sweep = sweep.ObjectSweep(WAIT_MS)
        self.counted: dict[str, int] = {}
        self.written: dict[tuple[int, int], Written] = {}
        """Every record that was ever written, by epoch and offset."""
        self._lead()

    # Parts

    @property
    def leader(self) -> Replica:
        return self.replicas[self.leading]

    @property
    def truth(self) -> list[Written]:
        """The records that a reader may get, if they are committed."""
        return self.leader.history

    @property
    def remote(self) -> RemoteSegments:
        return self.metadata.segments_of(TOPIC_ID, 0) or RemoteSegments(TOPIC_ID, "t", 0)

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def note(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def _lead(self) -> None:
        """Begin with the leader's role: only what is in the metadata and on the disk is known."""
        replica = self.leader
        limits = copying.CopySettings(self.leading, DEADLINE_MS, retry_ms=5, max_retry_ms=40)
        self.copies = copying.SegmentCopies(TOPIC_ID, "t", 0, limits)
        self.deletions = deleting.Deletions(self.leading, at_once=3)
        self.reign = Reign(self.copies, self.deletions, self.epoch)
        self.unfinished = UnfinishedCopies(WAIT_MS)
        if not replica.records:
            self._begins_behind_store(replica)
        start = at_once(log_start(self.remote, replica.end, replica.epochs, replica.log_start, replica.local_start))
        replica.move_start(min(start, replica.end))
        self.copies.copied = at_once(
            copied_without_gap(self.remote, replica.end, replica.epochs, replica.log_start, replica.local_start)
        )

    def _begins_behind_store(self, replica: Replica) -> None:
        """The leader has no record on its disk."""
        machine = empty_leader.EmptyLeader(self.epoch, replica.log_start, replica.end)
        step = machine.found(self.remote)
        if isinstance(step, follower.FetchIndexes):
            step = machine.fetched(self.store[step.segment.id.segment_id][2], b"")
        assert not isinstance(step, follower.TryLater), step.reason
        if isinstance(step, follower.StartAt):
            self.note("behind the store")
            replica.start_at(step.offset, step.log_start_offset, list(step.epochs), self._stored(step))
            self.committed = replica.end
        copied = self.remote.copied_epochs()
        assert not copied or replica.end > self.remote.highest_offset(copied[-1]), "an offset is written again"

    def _stored(self, start: follower.StartAt) -> list[Written]:
        """The records that the store has, by offset."""
        found, offset = [Written(0, 0, 0)] * start.offset, start.log_start_offset
        while offset < start.offset:
            segment = segment_for(self.remote, start.epochs, offset)
            assert segment is not None, f"{offset} is not in the store"
            until = agrees_until(segment, start.epochs, offset)
            held = self.store[segment.id.segment_id][1]
            for each in range(offset, until):
                found[each] = held[each - segment.start_offset]
                assert found[each] == self.written[found[each].epoch, each]
            offset = until
        return found

    # Events of the partition

    def appends(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            written = Written(self.epoch, self.rng.getrandbits(60), self.wall_ms)
            self.written[self.epoch, self.leader.end] = written
            self.leader.append(written)
        if self.rng.random() < 0.7:
            self.leader.roll()
        self.commits()

    def commits(self) -> None:
        ends = [each.end for each in self.replicas]
        self.committed = max(self.committed, min(ends) if self.rng.random() < 0.8 else self.leader.end)

    def replicates(self) -> None:
        mine, other = self.replicas[1 - self.leading], self.leader
        if mine.local_start > other.end or mine.log_start > mine.end:
            self.loses_its_disk()
            return
        shared = min(mine.end, other.end)
        first = max(mine.local_start, other.local_start)
        same = first
        while same < shared and mine.records[same - mine.local_start] == other.records[same - other.local_start]:
            same += 1
        if mine.end < other.local_start or same < mine.local_start:
            self._builds_state(mine, other)
            return
        if same < mine.end:
            mine.cut(same)
        for each in other.records[mine.end - other.local_start :][: self.rng.choice((1, 3, 100))]:
            mine.append(each)
            if self.rng.random() < 0.3:
                mine.roll()
        if mine.end < other.log_start:
            mine.start_at(other.log_start, other.log_start, [], other.history)
        mine.move_start(other.log_start)
        self.commits()

    def _builds_state(self, mine: Replica, other: Replica) -> None:
        """The leader has the beginning only in the store."""
        fetch_last_tiered = self.rng.random() < 0.5
        state = follower.AuxiliaryState(
            log_end_offset=mine.end, is_compacted=False, fetch_last_tiered=fetch_last_tiered
        )
        step = state.begin()
        while True:
            if isinstance(step, follower.AskOffset):
                step = state.offset(*self._list_offsets(other, step.timestamp))
            elif isinstance(step, follower.AskEpochEnd):
                step = state.epoch_end(*self._epoch_end(other, step.epoch))
            elif isinstance(step, follower.FindSegment):
                step = state.found(self.remote if self.rng.random() < 0.9 else None)
            elif isinstance(step, follower.FetchIndexes):
                if self.rng.random() < 0.1:
                    return
                step = state.fetched(self.store[step.segment.id.segment_id][2], b"")
            elif isinstance(step, follower.TryLater):
                self.note("later")
                return
            else:
                mine.start_at(step.offset, step.log_start_offset, list(step.epochs), other.history)
                self.note("built")
                return

    def _list_offsets(self, of: Replica, timestamp: int) -> tuple[int, int]:
        copied = self.copies.copied.offset
        offset = {
            follower.LATEST: of.end,
            follower.EARLIEST: of.log_start,
            follower.EARLIEST_LOCAL: max(of.local_start, of.log_start),
            follower.LATEST_TIERED: copied,
            follower.EARLIEST_PENDING_UPLOAD: -1 if copied < 0 else max(copied + 1, of.log_start),
        }[timestamp]
        return offset, max((epoch for epoch, start in of.epochs if start <= offset), default=-1)

    def _epoch_end(self, of: Replica, epoch: int) -> tuple[int, int]:
        known = [each for each in of.epochs if each[0] <= epoch]
        if not known:
            return epoch, of.epochs[0][1] if of.epochs else -1
        later = [start for each, start in of.epochs if each > epoch]
        return known[-1][0], later[0] if later else of.end

    def loses_its_disk(self) -> None:
        """The follower is a new, empty one."""
        pair = list(self.replicas)
        pair[1 - self.leading] = Replica()
        self.replicas = (pair[0], pair[1])

    def another_leads(self) -> None:
        """An election, clean if the other replica has everything that is committed. The former leader may not know."""
        other = self.replicas[1 - self.leading]
        if other.log_start > other.end:
            return
        is_clean = other.history[: self.committed] == self.truth[: self.committed]
        is_short = other.history == self.truth[: other.end]
        if not is_clean and (not is_short or self.rng.random() < 0.7):
            return
        if self.rng.random() < 0.5:
            self._queue(self.reign, self.copies.stop())
        if self.rng.random() < 0.3:
            self.queue.clear()
        self.leading, self.epoch = 1 - self.leading, self.epoch + self.rng.randint(1, 2)
        self.committed = min(self.committed, other.end)
        self.note("clean" if is_clean else "unclean")
        self._lead()
        self.commits()

    def time_passes(self) -> None:
        self.now_ms += self.rng.choice((1, 5, 20, 60))

    def records_are_deleted(self) -> None:
        if self.rng.random() < 0.2:
            self.leader.move_start(self.rng.randint(self.leader.log_start, max(self.leader.log_start, self.committed)))

    # Events of the store

    def leaves_the_disk(self) -> None:
        replica = self.rng.choice(self.replicas)
        found = local_expiry(replica.seen(min(self.committed, replica.end)), self.remote, self.settings, self.wall_ms)
        if found.segments:
            replica.leave_disk(replica.bases[len(found.segments)])
            self.note("left the disk")
        if found.rolls_active:
            replica.roll()

    def copies_begin(self) -> None:
        self.ids += 1
        effects = self.copies.begin(
            self.leader.seen(self.committed),
            self.settings,
            segment_id=self.ids.to_bytes(16, "big"),
            now_ms=self.now_ms,
            wall_ms=self.wall_ms,
        )
        self._queue(self.reign, effects)
        self._queue(self.reign, self.copies.due(self.now_ms, self.wall_ms))

    def expires(self) -> None:
        remote, now = self.remote, self.copies.in_progress
        name = None if now is None else now.id.segment_id
        overdue = self.unfinished.overdue(remote, name, self.now_ms)
        expiry = at_once(
            remote_expiry(
                self.leader.seen(self.committed),
                remote,
                self.settings,
                copied_offset=self.copies.copied.offset,
                now_ms=self.wall_ms,
                in_progress=name,
                overdue=overdue,
            )
        )
        effects = self.deletions.begin(expiry, self.leader.log_start, self.now_ms, self.wall_ms)
        self._queue(self.reign, effects)

    def sweeps(self) -> None:
        listing = [
            sweep.ListedObject(name.hex(), TOPIC_ID, 0, name, 10)
            for name in self.store
            if self.is_calm or self.rng.random() < 0.9
        ]
        for each, belonging in self.sweep.judge(listing, self.metadata.segments_of, self.now_ms):
            if belonging is sweep.Belonging.ORPHAN:
                self.note("swept")
                self._delete_objects(each.segment_id)

    def _queue(self, reign: Reign, effects: Iterable[object]) -> None:
        self.queue += [(each, reign) for each in effects]

    def works(self) -> None:
        """Carry out a queued effect; most often the oldest."""
        if not self.queue:
            return
        at = 0 if self.is_calm or self.rng.random() < 0.7 else self.rng.randrange(len(self.queue))
        effect, reign = self.queue.pop(at)
        fails = not self.is_calm and self.rng.random() < 0.15
        if isinstance(effect, deleting.MoveLogStart):
            if reign is self.reign:
                assert effect.offset <= self.committed, "the log start moves over records that are not committed"
                self.leader.move_start(effect.offset)
        elif isinstance(effect, copying.AppendRecord):
            self._append(effect.record, reign, fails=fails)
        elif isinstance(effect, LateObjects):
            self.store[effect.segment_id] = effect.objects
        elif isinstance(effect, copying.CopyObjects):
            self._copy(effect.segment, reign, fails=fails)
        elif isinstance(effect, deleting.DeleteObjects):
            name = effect.segment.id.segment_id
            if fails:
                reign.deletions.failed(name, "the store is away", self.now_ms)
            else:
                self._delete_objects(name)
                self._queue(reign, reign.deletions.objects_deleted(name, self.wall_ms))

    def is_fenced(self, reign: Reign) -> bool:
        """Whether a leader has no say any more. The records do not tell: brokers stop when they lead no longer."""
        return reign is not self.reign

    def _append(self, record: Record, reign: Reign, *, fails: bool) -> None:
        assert not isinstance(record, RemotePartitionDelete)
        name = record.id.segment_id
        if fails or self.is_fenced(reign) or self.metadata.refusal(record) is not None:
            reign.deletions.failed(name, "refused", self.now_ms)
            self._queue(reign, reign.copies.failed(name, "refused", self.now_ms, self.wall_ms))
            return
        self.metadata.apply(record)
        if record.state is DELETED:
            self.note("deleted")
        self._queue(reign, reign.copies.committed(record))
        if not isinstance(record, RemoteLogSegment):
            self._queue(reign, reign.deletions.committed(record))

    def _copy(self, segment: RemoteLogSegment, reign: Reign, *, fails: bool) -> None:
        name = segment.id.segment_id
        replica = self.replicas[segment.broker_id]
        held = replica.records[
            max(0, segment.start_offset - replica.local_start) : max(0, segment.next_offset - replica.local_start)
        ]
        is_whole = (
            segment.start_offset >= replica.local_start and len(held) == segment.next_offset - segment.start_offset
        )
        epochs = tuple(each for each in replica.epochs if each[1] < segment.next_offset)
        objects = (segment, tuple(held), epochs)
        if is_whole and not fails:
            self.store[name] = objects
        elif is_whole:
            self._queue(reign, [LateObjects(name, objects)])
        if fails or not is_whole:
            effects = reign.copies.failed(name, "the store is away", self.now_ms, self.wall_ms)
        else:
            effects = reign.copies.objects_written(name, None, self.now_ms, self.wall_ms)
            self.note("copied")
        self._queue(reign, effects)

    def _delete_objects(self, name: bytes) -> None:
        state = self.remote.state(name)
        assert state not in (STARTED, FINISHED), f"the objects of a segment in {state} are deleted"
        self.store.pop(name, None)

    # Invariants

    def check(self) -> None:
        """Every committed record from the log start on is read, as it was written."""
        leader, remote = self.leader, self.remote
        assert leader.log_start <= leader.end
        for offset in range(leader.log_start, min(self.committed, leader.local_start)):
            segment = segment_for(remote, leader.epochs, offset)
            assert segment is not None, f"{offset} is neither on the disk nor in the store"
            assert offset < agrees_until(segment, leader.epochs, offset), f"{offset} is of another lineage"
            assert segment.id.segment_id in self.store, f"the objects with {offset} are gone"
            held = self.store[segment.id.segment_id][1]
            assert held[offset - segment.start_offset] == self.truth[offset], f"{offset} is another record"
        for offset in range(max(leader.log_start, leader.local_start), self.committed):
            assert leader.records[offset - leader.local_start] == self.truth[offset]
        stored = [each for each in remote.all() if each.state is FINISHED and each.id.segment_id not in self.store]
        assert not stored, "a readable segment has no objects"

    def comes_to_rest(self) -> None:
        """Without failures everything is finished: no copy is open, and each object belongs to a readable segment."""
        self.is_calm = True
        steps = (self.replicates, self.copies_begin, self.expires, self.sweeps, self.time_passes)
        for _ in range(80):
            for step in steps:
                step()
            while self.queue:
                self.works()
        self.check()
        open_copies = [each for each in self.remote.all() if each.state is not FINISHED]
        assert not open_copies, "a copy or a deletion never ends"
        assert {each.id.segment_id for each in self.remote.all()} == self.store.keys(), "objects belong to nothing"


def events(world: TieredWorld) -> list[Callable[[], None]]:
    """The events of a world, as often as they come."""
    return [
        *[world.appends] * 4,
        *[world.replicates] * 4,
        *[world.time_passes] * 3,
        *[world.works] * 12,
        *[world.copies_begin] * 5,
        *[world.leaves_the_disk] * 2,
        *[world.expires] * 2,
        world.records_are_deleted,
        world.another_leads,
        world.loses_its_disk,
        world.sweeps,
    ]


def play(seed: int, steps: int = 300) -> TieredWorld:
    """Play one history and check it after each event."""
    world = TieredWorld(Random(seed))
    choices = events(world)
    for _ in range(steps):
        world.rng.choice(choices)()
        world.check()
    world.comes_to_rest()
    return world
