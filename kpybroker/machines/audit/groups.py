"""Whether the positions of groups lie inside the logs that they are about. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kpybroker.machines.audit.findings import DAMAGE, GROUPS, NOTE, AuditFinding
from kpybroker.machines.audit.sources import Spot
from kpybroker.machines.groups.record import decode
from kpywire.errors import Malformed
from kpywire.group_records.offset_commit import OffsetCommitKey
from kpywire.record import Record


class CommitBounds(NamedTuple):
    """The offsets of a log that a group may have committed."""

    start: int
    end: int


def positions(records: Iterable[Record]) -> dict[tuple[str, Spot], int]:
    """The last committed offset of each group and partition in records of ``__consumer_offsets``."""
    found: dict[tuple[str, Spot], int] = {}
    for record in records:
        try:
            decoded = decode(record.key or b"", record.value)
        except Malformed:
            continue
        if decoded is None or not isinstance(decoded.key, OffsetCommitKey):
            continue
        key = decoded.key.group, (decoded.key.topic, decoded.key.partition)
        if decoded.value is None:
            found.pop(key, None)
        else:
            found[key] = decoded.value.offset
    return found


def judge(committed: Mapping[tuple[str, Spot], int], bounds: Mapping[Spot, CommitBounds]) -> Iterator[AuditFinding]:
    """The positions outside of their logs. Partitions that are not in ``bounds`` are passed over."""
    for (group, spot), offset in sorted(committed.items()):
        log = bounds.get(spot)
        if log is None:
            continue
        if offset > log.end:
            text = f"group {group} has committed {offset}, and the log ends at {log.end}"
            yield AuditFinding(DAMAGE, GROUPS, *spot, "", "", -1, offset, text)
        elif offset < log.start:
            text = f"group {group} has committed {offset}, and the log begins at {log.start}: its records are deleted"
            yield AuditFinding(NOTE, GROUPS, *spot, "", "", -1, offset, text)
