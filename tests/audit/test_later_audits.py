"""Stretches joined are the log walked at once, and a later audit reads only what is new."""

import json
from random import Random

import pytest
from fleet import BROKERS, DATA, Fleet, History, batches_in
from log_making import headers_of

from kpybroker.machines.audit import joining, replicas, sources, walk, windows
from kpybroker.machines.audit.findings import DAMAGE
from kpybroker.machines.audit.kept import BadSummary, Summary, from_json, to_json
from kpybroker.machines.audit.running import AuditScope, Result, audit
from kpybroker.pipeline.audit import cluster, directories
from kpybroker.pipeline.audit.mapping import in_processes
from kpystorage import names
from kpywire.batch import CRC_POSITION
from kpywire.crc import crc32c

SEEDS = 6
SHIFT = 3


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight offsets, so that short logs have many."""
    for module in (cluster, joining, replicas, sources, walk, windows):
        monkeypatch.setattr(module, "WINDOW_OFFSETS", 1 << SHIFT)
    monkeypatch.setattr(walk, "SHIFT", SHIFT)


def audited(fleet: Fleet, since: Summary | None = None) -> Result:
    return audit(fleet.source(), AuditScope(since=since), in_processes(1), lambda _size: None, lambda _size: None)


@pytest.mark.seeds(2000, SEEDS)
def test_stretches_of_single_segments_join_to_the_same_facts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(History(seed, steps=120))
    monkeypatch.setattr(directories, "TASK_BYTES", 1 << 30)
    at_once = audited(fleet)
    monkeypatch.setattr(directories, "TASK_BYTES", 1)
    in_pieces = audited(fleet)
    assert at_once.findings == in_pieces.findings == []
    for key, kept in at_once.summary.replicas.items():
        assert in_pieces.summary.replicas[key].whole == kept.whole


@pytest.mark.seeds(2100, SEEDS)
def test_a_later_audit_knows_what_a_whole_one_knows_and_reads_less(seed: int) -> None:
    history = History(seed, steps=160)
    fleet = Fleet(history, half=True)
    first = audited(fleet)
    fleet.go_on()
    later = audited(fleet, from_json(to_json(first.summary)))
    whole = audited(fleet)
    assert [each.line for each in later.findings if each.level == DAMAGE] == []
    assert later.summary.roots() == whole.summary.roots()
    assert later.read_bytes < whole.read_bytes
    assert (later.records, later.size_bytes) == (whole.records, whole.size_bytes)
    assert later.torn_transactions == 0
    for key, kept in whole.summary.replicas.items():
        again = later.summary.replicas[key].whole
        assert (again.open, again.next_offset, again.committed) == (
            kept.whole.open,
            kept.whole.next_offset,
            kept.whole.committed,
        )
        assert {pid: run[5:] for pid, run in again.runs.items()} == {
            pid: run[5:] for pid, run in kept.whole.runs.items()
        }


@pytest.mark.seeds(2200, SEEDS)
def test_an_audit_of_what_has_not_changed_reads_nothing(seed: int) -> None:
    fleet = Fleet(History(seed))
    first = audited(fleet)
    later = audited(fleet, from_json(to_json(first.summary)))
    assert later.read_bytes == 0
    assert later._replace(read_bytes=0, findings=[], summary=first.summary, whole_transactions=0) == first._replace(
        read_bytes=0, findings=[], summary=first.summary, whole_transactions=0
    )


@pytest.mark.seeds(2300, SEEDS)
def test_an_old_segment_that_was_copied_is_read_again_and_is_the_same(seed: int) -> None:
    fleet = Fleet(History(seed, steps=120))
    first = audited(fleet)
    path = fleet.files(1, DATA[0], names.LOG)[0]
    fleet.change(path, fleet.disk.read(path))
    later = audited(fleet, from_json(to_json(first.summary)))
    assert later.findings == []
    assert later.summary.roots() == first.summary.roots()


@pytest.mark.seeds(2400, SEEDS)
def test_an_old_batch_that_was_rewritten_everywhere_is_found(seed: int) -> None:
    rng = Random(seed)
    fleet = Fleet(History(seed, steps=160))
    first = audited(fleet)
    spot = rng.choice(DATA)
    base = -1
    for broker in BROKERS:
        path = fleet.files(broker, spot, names.LOG)[0]
        data = bytearray(fleet.disk.read(path))
        position, size = next(iter(batches_in(bytes(data))))
        data[position + size - 2] ^= 1
        crc = crc32c(bytes(data[position + CRC_POSITION + 4 : position + size]))
        data[position + CRC_POSITION : position + CRC_POSITION + 4] = crc.to_bytes(4, "big")
        base = headers_of(bytes(data[position : position + size]))[0].base_offset
        fleet.change(path, bytes(data))
    found = [each for each in audited(fleet, from_json(to_json(first.summary))).findings if each.level == DAMAGE]
    assert [(each.claim, each.topic, each.partition, each.offset) for each in found] == [("since", *spot, base)]
    assert "have changed since the last audit" in found[0].text


def test_a_summary_that_was_changed_is_refused() -> None:
    document = json.loads(to_json(audited(Fleet(History(7))).summary))
    kept = document["replicas"]["broker 1/orders-0"]
    kept["windows"][0][4] += 1
    with pytest.raises(BadSummary, match="broker 1/orders-0"):
        from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "kpybroker audit", "version": 1}', "\0"])
def test_a_file_that_is_not_a_summary_is_refused(text: str) -> None:
    with pytest.raises(BadSummary):
        from_json(text)
