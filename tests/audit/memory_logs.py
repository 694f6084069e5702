"""Replicas of logs in memory, as a source of audits: batches, the facts beside them, and what tells segments apart."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from log_making import headers_of

from kpybroker.machines.audit.findings import AuditFinding, BytePlace
from kpybroker.machines.audit.running import AuditScope, Result, audit
from kpybroker.machines.audit.sources import AuditedReplica, AuditOutcome, AuditTask, ReplicaFacts
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.walk import AuditWalk, Of
from kpystorage.reading import StoredBatch


class MemoryLogs:
    """A source whose replicas are lists of batches. A segment begins at each of ``segments``."""

    processes = 1

    def __init__(self) -> None:
        self.logs: dict[str, list[bytes]] = {}
        self.listed: dict[str, AuditedReplica] = {}
        self.known: dict[str, ReplicaFacts] = {}
        self.numbers: dict[str, dict[int, tuple[int, ...]]] = {}
        self.unread: set[str] = set()
        self.read_bytes = 0

    def add(
        self, label: str, *batches: bytes, topic: str = "t", facts: ReplicaFacts | None = None, **more: Any
    ) -> AuditedReplica:
        """A replica of partition 0 of a topic, in a directory of its own."""
        end = headers_of(batches[-1])[0].next_offset if batches else 0
        replica = AuditedReplica(label, topic, 0, f"/{label}", **{"log_end": end, **more})
        self.logs[replica.key], self.listed[replica.key] = list(batches), replica
        self.known[replica.key] = ReplicaFacts() if facts is None else facts
        return replica

    def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
        return [each for each in self.listed.values() if not topics or each.topic in topics]

    def tasks(self, replica: AuditedReplica, start: int, *, deep: bool) -> list[AuditTask]:
        size = sum(len(each.data) for _, each in self.batches(replica, start, replica.end))
        return [AuditTask(replica, start, replica.end, deep=deep, size_bytes=size)]

    def read(self, task: AuditTask) -> AuditOutcome:
        findings: list[AuditFinding] = []
        replica = task.replica
        walk = AuditWalk(Of(replica.label, *replica.spot), findings.append, task.start, task.end, deep=task.deep)
        walk.expected = task.next_offset
        stretches, cuts = [], list(task.cuts)
        for place, batch in self.batches(replica, task.start, task.end):
            base = batch.header.base_offset
            if cuts and base >= cuts[0]:
                stretches.append(walk.cut(cuts.pop(0)))
            walk.path = place.path
            walk.feed(bytes(batch.data), place.byte, is_all=True)
            self.read_bytes += len(batch.data)
        stretches.append(walk.cut(replica.end))
        return AuditOutcome(task, tuple(stretches), tuple(findings), replica.key not in self.unread)

    def facts(self, replica: AuditedReplica) -> ReplicaFacts:
        return self.known[replica.key]

    def batches(self, replica: AuditedReplica, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        at = 0
        for data in self.logs[replica.key]:
            header = headers_of(data)[0]
            if header.next_offset > start and header.base_offset < end:
                yield BytePlace(f"{replica.directory}/log", at), StoredBatch(header, memoryview(data))
            at += len(data)

    def identities(self, replica: AuditedReplica, /) -> Mapping[int, tuple[int, ...]]:
        return dict(self.numbers.get(replica.key, {}))

    def check_around(self, _replica: AuditedReplica, _whole: Stretch, _start: int, /) -> Iterable[AuditFinding]:
        return ()

    def audited(self, **wanted: Any) -> Result:
        """Audit all of it."""
        return audit(
            self, AuditScope(**wanted), lambda read, tasks, _: map(read, tasks), lambda _: None, lambda _: None
        )
