"""The mirrored partitions that this broker leads: how far each is shown, and where a failover cuts it.

A partition without a place (`kpybroker.machines.mirror.wholeness`) is shown as it comes, until it has caught up with
its source for the first time; then its leader begins to hold COMMIT markers back. Reports say which it holds.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import MIRRORING, SOURCE, STATE, STOPPING
from kpybroker.machines.mirror import progress
from kpybroker.machines.mirror.cuts import LeaderReport, Place
from kpybroker.machines.mirror.held_markers import HeldMarkers
from kpybroker.machines.mirror.progress import CutPart, PartReport, Progress
from kpybroker.machines.partition.leader import PartitionLeader
from kpystorage.errors import DiskFailure, StorageError
from kpywire.errors import Malformed

log = logging.getLogger("kpybroker.mirror")

PIECE_BYTES: Final = 1 << 20
NOT_REPORTED: Final = -1
AT_ONCE: Final = 25
"""The partitions of one piece of work."""
OF_A_RECORD: Final = 50
"""The most partitions of a report."""


class HeldFigures(NamedTuple):
    """The markers that are held back on this broker, and the partitions without a place."""

    markers: int
    partitions_without_place: int


class _Led:
    """A partition that this broker leads, with what its leader holds back."""

    def __init__(self, replica: Replica, leader: PartitionLeader) -> None:
        self.replica = replica
        self.leader = leader
        self.held: HeldMarkers | None = None
        self.is_reading = False
        self.token = ""
        """The finder that has its reports."""
        self.leader_epoch = leader.epoch
        self.reported_to = NOT_REPORTED
        self.replicated = 0
        self.cut_records: int | None = None
        """The offsets that a failover cut off here; None before that."""
        self.cut_at_ms = 0.0
        self.is_done = False

    @property
    def place(self) -> Place:
        return self.replica.topic.id, self.replica.index

    @property
    def is_holding(self) -> bool:
        """Whether a marker is held back or not reported yet, or a cut is not done."""
        if self.cut_records is not None:
            return not self.is_done
        return self.held is not None and (self.held.count > 0 or self.reported_to == NOT_REPORTED)


class PassOverPartitions(NamedTuple):
    """The results of one pass over the partitions."""

    records: list[bytes]
    reported: dict[str, list[PartReport]]
    present: dict[Place, _Led]
    reports: bool


class HeldBackPartitions:
    """All mirrored partitions that this broker leads."""

    def __init__(self, parts: MirrorParts, holds: Callable[[], object]) -> None:
        """``holds`` is called when a marker is held back."""
        self._parts = parts
        self._holds = holds
        self._led: dict[Place, _Led] = {}
        self._caught_up: dict[Place, PartitionLeader | None] = {}
        """The leaders whose partitions have had all that their source had."""
        self.figures = HeldFigures(0, 0)
        """The numbers of the last look."""

    # What the feeds report

    def appended(self, replica: Replica, records: bytes | memoryview, before: int) -> None:
        """Read the batches that were appended to a log that ended at ``before``."""
        led = self._led.get((replica.topic.id, replica.index))
        if led is None or led.held is None or led.leader is not replica.leader:
            return
        held, end = led.held, led.leader.log.end.offset
        if before < held.listed_to:
            held.cut(before)
        if before == held.listed_to:
            held.read(records, end)
            self._show(led)
            if held.limit < end:
                self._holds()

    def caught_up(self, replica: Replica) -> None:
        """Note that a partition has all that its source has."""
        self._caught_up[replica.topic.id, replica.index] = replica.leader

    # Following the progress

    def follow(
        self, known: Progress, write: Callable[[list[bytes]], object], *, reports: bool, is_whole: bool
    ) -> Iterator[None]:
        """Show what may be shown, and cut what a failover cuts, some partitions at a time: all of them if the pass
        ``is_whole``, else those with held markers. ``write`` gets the records to write, ``reports`` among them."""
        passed = PassOverPartitions([], {}, {}, reports=reports)
        replicas = self._mirrored() if is_whole else iter([led.replica for led in self._led.values() if led.is_holding])
        for number, replica in enumerate(replicas):
            if number % AT_ONCE == AT_ONCE - 1:
                yield
            self._visit(replica, known, passed)
        if is_whole:
            self._end_whole(passed.present, known)
        yield
        for mirror, parts in passed.reported.items():
            token = known.finders[mirror].token
            for start in range(0, len(parts), OF_A_RECORD):
                passed.records.append(progress.report(mirror, token, parts[start : start + OF_A_RECORD]))
                yield
        write(passed.records)

    def _visit(self, replica: Replica, known: Progress, passed: PassOverPartitions) -> None:
        led = self._take_up(replica) if replica.is_led_here and replica.topic.config.is_mirror else None
        if led is None:
            return
        passed.present[led.place] = self._led[led.place] = led
        try:
            passed.records.extend(self._follow(led, known))
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
            return
        mirror = replica.topic.config.overrides[SOURCE]
        found = self._report(led, mirror, known) if passed.reports else None
        if found is not None:
            passed.reported.setdefault(mirror, []).append(PartReport(led.place, found))

    def _end_whole(self, present: dict[Place, _Led], known: Progress) -> None:
        counts = [led.held.count for led in present.values() if led.held is not None]
        self.figures = HeldFigures(sum(counts), len(present) - len(known.places.keys() & present.keys()))
        if len(present) < len(self._led):
            for place, led in self._led.items():
                if place not in present and led.leader is led.replica.leader:
                    self._let_go(led)
            self._led = present
            self._caught_up = {place: leader for place, leader in self._caught_up.items() if place in present}

    def _mirrored(self) -> Iterator[Replica]:
        for topic in list(self._parts.replicas.topics.values()):
            if topic.config.is_mirror:
                for replica in list(topic.replicas.values()):
                    if replica.is_led_here:
                        yield replica

    def _take_up(self, replica: Replica) -> _Led | None:
        led = self._led.get((replica.topic.id, replica.index))
        if led is not None and led.leader is replica.leader:
            return led
        try:
            return _Led(replica, replica.led())
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
        except (KafkaError, StorageError) as error:
            log.debug("%s is not held: %s", replica, error)
        return None

    def _follow(self, led: _Led, known: Progress) -> list[bytes]:
        state = led.replica.topic.config.overrides.get(STATE, MIRRORING)
        place = known.places.get(led.place)
        mirror = led.replica.topic.config.overrides[SOURCE]
        finder = known.finders.get(mirror)
        may_hold = self._caught_up.get(led.place) is led.leader or led.place in known.reported.get(mirror, ())
        holds = place is not None or (finder is not None and finder.holds and may_hold)
        if state not in (MIRRORING, STOPPING) or led.place in known.done or led.cut_records is not None:
            holds = False
        if not holds:
            self._let_go(led)
        else:
            if led.held is None:
                led.held = HeldMarkers(led.leader.high_watermark.offset if place is None else place)
            if place is not None:
                led.held.release(place)
            if led.held.listed_to > led.leader.log.end.offset > led.held.released_to:
                led.held.cut(led.leader.log.end.offset)
            self._read(led)
            self._show(led)
        if state == STOPPING and led.replica.topic.id in known.cut and led.place not in known.done:
            return self._cut(led, has_place=place is not None)
        return []

    def _let_go(self, led: _Led) -> None:
        led.held = None
        if led.leader.show_up_to():
            led.replica.changed()

    def _show(self, led: _Led) -> None:
        if led.held is not None and led.leader.show_up_to(led.held.limit):
            led.replica.changed()

    def _read(self, led: _Led) -> None:
        """Read the part of the log that no feed has shown: of a new leader, or after what was full."""
        held = led.held
        is_behind = held is not None and held.listed_to < led.leader.log.end.offset and not held.is_full
        if is_behind and not led.is_reading:
            led.is_reading = True
            self._parts.scheduler.in_pieces(self._read_in_pieces(led))

    def _read_in_pieces(self, led: _Led) -> Iterator[None]:
        try:
            while led.held is not None and led.leader is led.replica.leader and not led.held.is_full:
                held, found = led.held, led.leader.log
                start = max(held.listed_to, found.log_start_offset)
                if start >= found.end.offset:
                    break
                piece = found.read(start, PIECE_BYTES, found.end, min_one_batch=True)
                if piece is None:
                    break
                held.read(piece.read(), found.end.offset)
                if held.listed_to <= start:
                    break
                self._show(led)
                yield
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
        except (KafkaError, StorageError, Malformed) as error:
            log.warning("%s cannot be read for markers: %s", led.replica, error)
        finally:
            led.is_reading = False

    # Reports

    def _report(self, led: _Led, mirror: str, known: Progress) -> LeaderReport | None:
        held, finder = led.held, known.finders.get(mirror)
        if held is None or finder is None or led.replica.topic.id in known.cut:
            return None
        leader = led.leader
        if led.token != finder.token or led.leader_epoch != leader.epoch:
            led.token, led.leader_epoch, led.reported_to = finder.token, leader.epoch, NOT_REPORTED
        is_first = led.reported_to == NOT_REPORTED
        first = held.released_to if is_first else max(led.reported_to, held.released_to)
        replicated = max(leader.replicated_to(), first)
        listed_to = max(min(held.listed_to, replicated), first)
        markers = tuple(held.between(first, listed_to))
        has_moved = known.wanted.get(mirror, False) and (listed_to > led.reported_to or replicated > led.replicated)
        if not (is_first or markers or has_moved):
            return None
        led.reported_to, led.replicated = listed_to, replicated
        return LeaderReport(leader.epoch, first, listed_to, replicated, markers)

    # A failover

    def _cut(self, led: _Led, *, has_place: bool) -> list[bytes]:
        held, leader = led.held, led.leader
        if led.cut_records is None:
            end = cut_at = leader.log.end.offset
            if held is not None and has_place:
                if held.listed_to < end and held.limit == held.listed_to:
                    return []  # its markers are being read
                cut_at = min(held.limit, end)
            led.cut_records = end - cut_at
            if cut_at < end:
                log.info("%s is cut from offset %d to %d, so that no transaction is torn", led.replica, end, cut_at)
            leader.cut_at(cut_at, self._parts.scheduler.now_ms())
            led.cut_at_ms = self._parts.scheduler.monotonic_ms()
            self._let_go(led)
            led.replica.changed()
        if led.is_done or not self._is_cut_everywhere(led):
            return []
        led.is_done = True
        return [progress.done(led.place, CutPart(leader.log.end.offset, led.cut_records))]

    def _is_cut_everywhere(self, led: _Led) -> bool:
        """Whether no follower in sync has more than the leader: each was at its end, and has sent a request since the
        cut, which would have named the partition if an answer from before had brought more of it."""
        followers, fetches = led.leader.followers_at_end(), self._parts.replicas.follower_fetches
        return followers is not None and all(
            each in fetches and fetches[each].at_ms > led.cut_at_ms for each in followers
        )
