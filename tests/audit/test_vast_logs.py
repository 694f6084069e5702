"""Planted faults in logs that are as large as one likes are all found, and nothing else: `make audit` takes 1 TB."""

from random import Random

import pytest
from fleet import BROKERS, Fleet, History
from vast_disk import RECORDS, SEGMENT_BATCHES, VastDisk, planted

from kpybroker.cli.audit import summary_line
from kpybroker.cli.tables import bytes_text
from kpybroker.machines.audit.findings import DAMAGE
from kpybroker.machines.audit.running import AuditScope, audit
from kpybroker.pipeline.audit.directories import AuditedDirectories
from kpybroker.pipeline.audit.mapping import in_processes

GIB = 1 << 30
KINDS = ("flip", "lose", "differ")


@pytest.mark.seeds(4000, 1)
def test_every_fault_in_a_vast_cluster_is_found_and_nothing_else(
    seed: int, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = Random(seed)
    wanted_bytes = request.config.getoption("--audit-gib") * GIB
    segments = max(wanted_bytes // (GIB * len(BROKERS) ** 2), 1)
    history = History(seed, torn=1)
    assert history.torn_at is not None
    history.commit_beyond(("orders", 1))
    table = history.table(("orders", 0))
    table[0] = table[0]._replace(rows=table[0].rows + 1)
    faults = []
    for kind in KINDS:
        faults.append(planted(kind, rng, segments, faults))
    disk = VastDisk(Fleet(history).disk, segments, tuple(faults))
    source = AuditedDirectories([Fleet.path(broker) for broker in BROKERS], disk)
    result = audit(source, AuditScope(ranges=tuple(table)), in_processes(), lambda _size: None, lambda _size: None)

    expected = {("transactions", *history.torn_at[0]), ("groups", "orders", 1), ("tables", "orders", 0)}
    found = [each for each in result.findings if each.level == DAMAGE]
    assert {(each.claim, each.topic, each.partition) for each in found if each.topic != "vast"} == expected
    claims = {"flip": "bytes", "lose": "offsets", "differ": "replicas"}
    assert {(each.claim, each.partition, each.replica, each.offset) for each in found if each.topic == "vast"} == {
        (claims[fault.kind], fault.partition, f"broker {fault.broker}", fault.offset) for fault in faults
    }
    assert len(found) == len(expected) + len(faults)
    assert result.size_bytes > disk.size_bytes - len(faults) * (1 << 20)
    assert result.records >= segments * SEGMENT_BATCHES * RECORDS * len(BROKERS) - RECORDS
    with capsys.disabled():
        print(f"\n{bytes_text(result.size_bytes)} audited. {summary_line(result)}")
        for each in found:
            print(f"  {each.line}")
