"""A snapshot of the leader is taken part by part, and has its name when it is whole and durable."""

from host_world import HostWorld, SlowScheduler

from kpybroker.hosts.quorum.snapshot_install import SnapshotInstaller
from kpybroker.machines.raft.control_records import control_batch, snapshot_footer, snapshot_header
from kpybroker.machines.raft.events import SnapshotBroken, SnapshotInstalled, SnapshotPart
from kpybroker.machines.raft.messages import OffsetAndEpoch
from kpystorage.snapshot import SnapshotId

SNAPSHOT = OffsetAndEpoch(50, 1)
DATA = control_batch([snapshot_header(0)], 0, 1, 0) + control_batch([snapshot_footer()], 1, 1, 0)


def test_a_snapshot_that_is_being_made_durable_is_not_overwritten() -> None:
    scheduler, log = SlowScheduler(), HostWorld().metadata_log
    settled: list[object] = []
    installer = SnapshotInstaller(scheduler, log, settled.append, settled.append)
    installer.take(SnapshotPart(SNAPSHOT, 0, DATA, True))
    again = SnapshotPart(SNAPSHOT, 0, DATA[:10], False)
    while scheduler.blocked:
        installer.take(again)
        assert settled.pop() == SnapshotBroken(SNAPSHOT)
        scheduler.finish()
    (installed,) = settled
    assert isinstance(installed, SnapshotInstalled)
    assert log.read_snapshot_part(SnapshotId(*SNAPSHOT), 0, len(DATA)) == (len(DATA), DATA)
    installer.take(SnapshotPart(OffsetAndEpoch(60, 1), 0, DATA, True))
    assert scheduler.blocked, "the next one is taken"
