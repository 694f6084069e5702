"""Programs that borrow segments and read their files, while the node compacts, deletes, crashes, and leads no more.

Expected are the rows that a consumer would have got in the moment of the lease: the records that the leader's log had
then, below the same bounds, without those of aborted transactions. Which transactions were aborted, the committed logs
say themselves, read from inside as they grow. A reader may fail only where its lease is over.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.leases.leases import TooManyLeases
from kpybroker.hosts.leases.lender import Lender
from kpybroker.machines.lease_manifest import LeaseRequest, Manifest, PartitionManifest, from_json, to_json
from kpybroker.machines.scan.errors import ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.borrowing import Borrowed
from kpybroker.pipeline.scan.files import FileTransport
from kpybroker.pipeline.scan.reading import rows
from kpystorage.lending import LentSegment
from kpystorage.names import is_lent_file
from kpystorage.sim_disk import SimulatedCrash
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopicConfig
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

from .client import Client, NoAnswer, Refused
from .committed_rows import CommittedRows, Row, rows_of
from .layout import CLUSTER_ID, DIRECTORY
from .producing import Producer
from .records import Records
from .world import Violation

if TYPE_CHECKING:
    from .machine import Machine
    from .simulation import Simulation

SWEPT, SHORT, CUT = "swept", "short", "cut"
"""Topics that are compacted, that have a short retention, and of which people delete records."""
TOPICS = {SWEPT: 1, SHORT: 1, CUT: 2}
CONFIGS = {
    SWEPT: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "segment.ms": "100",
        "delete.retention.ms": "100",
    },
    SHORT: {"retention.bytes": "2500"},
    CUT: {},
}
SMALL = {"internal.segment.bytes": "600", "index.interval.bytes": "100"}
READERS = 3
PIECE_BYTES = 400
WANTED = ("offset", "value")
TIMEOUT_MS = 1_000.0
HEAL_MS = 60_000.0
ENDED_MS = 12_000.0
"""Twice the longest lease, and a little more."""
REMOVED_MS = 500.0
"""So long after the last lease its names are removed."""


class Snapshot(NamedTuple):
    """A partition in the moment in which it was lent."""

    rows: list[Row]
    bounds: tuple[int, int, int]
    """Log start, last stable offset, high watermark."""


class Loan:
    """A lease as its borrower knows it."""

    def __init__(self, machine: "Machine", manifest: Manifest, requested: list[LeaseRequest]) -> None:
        self.machine = machine
        self.starts = {
            (lease_request.topic, lease_request.partition): lease_request.start_offset for lease_request in requested
        }
        self.manifest = from_json(to_json(manifest))
        self.disk = machine.disk
        self.life = machine.lives
        self.until_ms = machine.host.monotonic_ms() + manifest.expires_in_ms
        self.is_over = False

    @property
    def is_good(self) -> bool:
        """Whether the files have to be there: the same process runs, and has lost nothing, and there is time left."""
        machine = self.machine
        is_same = machine.is_alive and machine.lives == self.life and not machine.is_stopping
        return is_same and not machine.is_suspect and machine.host.monotonic_ms() < self.until_ms and not self.is_over


class SimulatedFiles(FileTransport):
    """Reads the files of a simulated disk."""

    def __init__(self, loan: Loan, borrowed: Borrowed) -> None:
        super().__init__(borrowed.manifests, PIECE_BYTES)
        self._disk: Any = loan.disk

    def _may_read(self, segment: LentSegment) -> bool:  # noqa: ARG002
        return True


class Lending:
    """All of it."""

    topics = TOPICS
    rewritten = frozenset({SWEPT})

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.committed = CommittedRows(self.world, simulation.machines, TOPICS)
        self.done = 0
        """The tasks that read all that they wanted."""
        self._lenders: dict[tuple[int, int], Lender] = {}
        """By node and life."""
        self._snapshots: dict[tuple[str, str, int], Snapshot] = {}
        """By lease, topic and partition."""
        self._clients: list[Client] = []
        self._rows = self._failed = 0

    @staticmethod
    def configs(topic: str) -> list[CreatableTopicConfig]:
        """The configuration of a topic that is lent."""
        found = {**SMALL, **CONFIGS[topic]} if topic in CONFIGS else {}
        return [CreatableTopicConfig(name=name, value=value) for name, value in found.items()]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take a snapshot of every partition that is lent, in the same moment."""
        lend = Lender._lend

        def lent(lender: Any, lease_id: int, lease_request: LeaseRequest, may_read: Any) -> PartitionManifest:
            part = lend(lender, lease_id, lease_request, may_read)
            leader = lender._replicas.topics[part.topic].replica(part.partition).led()
            start, end = leader.log.log_start_offset, leader.high_watermark
            bounds = start, leader.last_stable_offset().offset, end.offset
            found = Snapshot(list(rows_of(leader.log, max(start, lease_request.start_offset), end)), bounds)
            self._snapshots[f"{lease_id:032x}", part.topic, part.partition] = found
            return part

        Lender._lend = lent  # type: ignore[method-assign]
        try:
            yield
        finally:
            Lender._lend = lend  # type: ignore[method-assign]

    def begin(self) -> None:
        """Let people write, delete and read."""
        simulation = self.simulation
        for name in ("lent plain", "lent transactional"):
            client = self._client(name)
            producer = KeyedProducer(client, Records(self.world), TOPICS, simulation.invariants)
            client.run(producer.plainly() if name == "lent plain" else producer.in_transactions())
        deleter = self._client("deleter")
        deleter.run(self._delete(deleter))
        for number in range(READERS):
            client = self._client(f"borrower{number}")
            client.run(self._borrow_and_read(client))
        for machine in simulation.machines:
            machine.before_stop = self._stops

    def _client(self, name: str) -> Client:
        client = Client(self.world, self.simulation.network, name, self.simulation.node_ids, TIMEOUT_MS)
        self.simulation.clients.append(client)
        self._clients.append(client)
        return client

    def _stops(self, machine: "Machine") -> None:
        """End the leases, as a node does that stops."""
        lender = self._lenders.pop((machine.node_id, machine.lives), None)
        if lender is not None and machine.loop is not None:
            machine.loop.call_soon(lender.stop)

    def _lender(self, machine: "Machine") -> Lender | None:
        """The lender of the node that runs on a machine."""
        broker: Any = machine.node.broker if machine.node is not None and machine.is_up else None
        if broker is None or machine.is_stopping:
            return None
        key = machine.node_id, machine.lives
        if key not in self._lenders:
            rng = self.world.stream(f"lender {key}")
            arguments = broker.leases, broker.replicas, machine.disk, broker.scheduler, rng
            self._lenders[key] = Lender((CLUSTER_ID, machine.node_id), *arguments)
        return self._lenders[key]

    # Deleting

    async def _delete(self, client: Client) -> None:
        """Delete the oldest records of a topic, now and then."""
        while not client.is_over:
            await client.pause(600)
            place = CUT, client.rng.randrange(TOPICS[CUT])
            known = self.committed.ends.get(place, 0)
            offset = client.rng.choice((-1, client.rng.randint(0, known)))
            wanted = DeleteRecordsPartition(partition_index=place[1], offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=CUT, partitions=[wanted])], timeout_ms=int(TIMEOUT_MS)
            )
            try:
                answer = await client.ask(await client.leader(*place), request)
            except (NoAnswer, Refused):
                client.forget()
                continue
            code = answer.topics[0].partitions[0].error_code
            self.world.tell(f"records of {place} before {offset} are deleted: {error_codes.name(code)}")

    # Reading

    async def _borrow_and_read(self, client: Client) -> None:
        rng = client.rng
        while not client.is_over:
            loan = await self._borrow(client)
            if loan is None:
                await client.pause(100)
                continue
            parts = [
                part
                for each in loan.manifest.partitions
                for part in self._parts(client, each, loan.starts[each.topic, each.partition])
            ]
            rng.shuffle(parts)
            for part, wanted in parts:
                await client.pause(rng.choice((10, 200, 1_000)))
                if rng.random() < 0.4:
                    self._renew(loan)
                await self._read(client, loan, part, wanted)
            self._give_back(client, loan)

    async def _borrow(self, client: Client) -> Loan | None:
        rng = client.rng
        machine = rng.choice(self.simulation.machines)
        lender = self._lender(machine)
        if lender is None or machine.loop is None:
            return None
        got: list[Loan] = []
        places = rng.sample([(name, index) for name, count in TOPICS.items() for index in range(count)], 2)
        requested = [LeaseRequest(*place, rng.randint(0, self.committed.ends.get(place, 0))) for place in places]
        requested = [
            lease_request._replace(start_offset=0) if rng.random() < 0.5 else lease_request
            for lease_request in requested
        ]
        duration_ms = rng.choice((1_000, 2_000, 5_000))

        def borrow() -> None:
            with suppress(TooManyLeases):
                lender.borrow(requested, duration_ms, lambda _: True, take)

        def take(manifest: Manifest) -> None:
            got.append(Loan(machine, manifest, requested))

        machine.loop.call_soon(borrow)
        for _ in range(20):
            await client.pause(50)
            if got:
                for part in got[0].manifest.partitions:
                    self._look_at_bounds(got[0], part)
                return got[0]
        return None

    def _look_at_bounds(self, loan: Loan, part: PartitionManifest) -> None:
        snapshot = self._snapshots[loan.manifest.lease, part.topic, part.partition]
        bounds = part.log_start_offset, part.last_stable_offset, part.high_watermark
        if bounds != snapshot.bounds:
            self.world.violated(f"{part.topic}-{part.partition} is lent with {bounds}, and had {snapshot.bounds}")

    def _parts(self, client: Client, part: PartitionManifest, asked: int) -> Iterator[tuple[OffsetRange, Projection]]:
        """The ranges of some tasks from the offset on that was asked for, each with the wish of its reader."""
        rng = client.rng
        committed_only = rng.random() < 0.6
        end = part.last_stable_offset if committed_only else part.high_watermark
        start = max(asked, part.log_start_offset)
        if rng.random() < 0.3:
            start = asked  # what was deleted is asked for, too, and left out
        cuts = sorted({start, *(rng.randint(start, max(start, end)) for _ in range(rng.randint(0, 3))), end})
        wanted = Projection(WANTED, committed_only, fails_on_data_loss=start >= part.log_start_offset)
        for begin, until in pairwise(cuts):
            if until <= end:  # a new leader may know of less than what was asked for
                yield OffsetRange(part.topic, part.topic_id, part.partition, begin, until), wanted
        if part.high_watermark > part.last_stable_offset > start and rng.random() < 0.3:
            yield (
                OffsetRange(part.topic, part.topic_id, part.partition, start, part.high_watermark),
                wanted._replace(committed_only=True),
            )

    async def _read(self, client: Client, loan: Loan, part: OffsetRange, wanted: Projection) -> None:
        """One task: it reads piece by piece, and compares."""
        if loan.machine.disk is not loan.disk and not self._is_same_volume(loan):
            return  # the program was on that machine, too, or its volume is another one
        manifests = {(each.topic, each.partition): each for each in loan.manifest.partitions}
        borrowed = Borrowed(manifests, (), {}, 0).only([part])
        found: list[tuple[int, bytes]] = []
        is_beyond = wanted.committed_only and part.end_offset > manifests[part.spot].last_stable_offset
        try:
            for batch in rows(SimulatedFiles(loan, borrowed), part, wanted):
                found += [(row["offset"], row["value"]) for row in batch.to_pylist()]
                if client.rng.random() < 0.3:
                    await client.pause(100)
                if loan.machine.disk is not loan.disk and not self._is_same_volume(loan):
                    return
        except ScanError as error:
            self._failed += 1
            if loan.is_good and not is_beyond:
                self.world.violated(f"{client.name} cannot read {part} of n{loan.machine.node_id}: {error}")
            return
        if is_beyond:
            self.world.violated(f"{client.name} reads {part}, and not everything in it is stable")
        self._compare(client, loan, part, wanted, found)

    def _is_same_volume(self, loan: Loan) -> bool:
        """Whether the disk lost nothing: after the death of a process alone its files are what they were."""
        return loan.machine.disk.root is loan.disk.root

    def _compare(
        self, client: Client, loan: Loan, part: OffsetRange, wanted: Projection, found: list[tuple[int, bytes]]
    ) -> None:
        snapshot = self._snapshots[loan.manifest.lease, part.topic, part.partition]
        start = max(part.start_offset, snapshot.bounds[0])
        expected = [
            (row.offset, row.value)
            for row in snapshot.rows
            if start <= row.offset < part.end_offset
            and not row.is_control
            and not (wanted.committed_only and self.committed.is_aborted(part.spot, row))
        ]
        if found != expected:
            what = f"{client.name} read {part} of n{loan.machine.node_id}"
            wrong = sorted(set(found) ^ set(expected))[:3]
            self.world.violated(f"{what}: {len(found)} rows, and a consumer had {len(expected)}; first {wrong}")
        self.done += 1
        self._rows += len(found)

    # Ending

    def _renew(self, loan: Loan) -> None:
        lender = self._lenders.get((loan.machine.node_id, loan.life))
        if lender is None or not loan.is_good:
            return
        duration_ms = lender.renew(loan.manifest.lease)
        if duration_ms is not None:
            loan.until_ms = loan.machine.host.monotonic_ms() + duration_ms

    def _give_back(self, client: Client, loan: Loan) -> None:
        lender = self._lenders.get((loan.machine.node_id, loan.life))
        if lender is not None and loan.is_good and client.rng.random() < 0.6:
            loan.is_over = True
            try:
                lender.give_back(loan.manifest.lease)
            except SimulatedCrash:  # the node's own, at a write
                loan.machine.died()

    def get_through(self) -> None:
        """Once all is well, readers come to their ends, and nothing stays lent."""
        before = self.done
        self.simulation.within(HEAL_MS, lambda: self.done > before + 2, "readers of files get through")
        for client in self._clients:
            client.is_over = True
        self.simulation.within(ENDED_MS, lambda: not any(self._lent()), "leases end")
        self.world.run(REMOVED_MS)
        if name := next(self._names(), None):
            raise Violation(f"{name} is there, and nothing is lent")
        self.world.tell(f"lending: {self.done} tasks read {self._rows} rows, {self._failed} found their lease over")

    def _lent(self) -> Iterator[int]:
        for machine in self.simulation.machines:
            broker = machine.node.broker if machine.node is not None else None
            if broker is not None:
                yield len(broker.leases)

    def _names(self) -> Iterator[str]:
        """The lent names on all disks."""
        for machine in self.simulation.machines:
            for log in machine.disk.list_directory(DIRECTORY):
                if log.rpartition("-")[0] in TOPICS:
                    yield from filter(is_lent_file, machine.disk.list_directory(f"{DIRECTORY}/{log}"))


class KeyedProducer(Producer):
    """Its records have few keys, so that there is something to compact."""

    def _key(self) -> bytes:
        return b"key%d" % self.rng.randrange(5)
