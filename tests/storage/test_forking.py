"""Forks of logs that go on being used: neither side ever changes a file of the other."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kpystorage import forking, names
from kpystorage.directory import LogDirectory
from kpystorage.forking import ForkBusy
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.session import SESSION
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0)


def append(log: Log, count: int, value: bytes = b"x" * 50, first_offset: int = 0) -> None:
    for _ in range(count):
        offset = max(log.end.offset, first_offset)
        batch = build_batch([Record(timestamp=NOW_MS, value=value)], base_offset=offset, partition_leader_epoch=0)
        log.append([parse_header(batch)], bytearray(batch), NOW_MS)


def opened(path: Path, disk: RealDisk) -> LogDirectory:
    directory = LogDirectory(str(path), disk, Random(1), lambda _line: None, CONFIG)
    directory.open(NOW_MS)
    for _ in directory.recover():
        pass
    return directory


def new_log(path: Path, disk: RealDisk) -> Log:
    path.mkdir()
    return opened(path, disk).create_log("t", 0, bytes(range(16)), CONFIG, NOW_MS)


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


def values(log: Log) -> list[int]:
    """The offsets of the batches, each of which can be read."""
    found, offset = [], log.log_start_offset
    while offset < log.end.offset:
        piece = log.read(offset, 1, log.end, min_one_batch=True)
        assert piece is not None
        header = parse_header(piece.read())
        found.append(header.base_offset)
        offset = header.next_offset
    return found


def bytes_of(log: Log, offset: int) -> bytes:
    """The batch at an offset."""
    piece = log.read(offset, 1, log.end, min_one_batch=True)
    assert piece is not None
    return bytes(piece.read())


class MeddlingDisk(RealDisk):
    """A disk on which something happens before the third file gets its second name."""

    meddle: Callable[[], object] | None = None
    links = 0

    def link(self, source: str, target: str) -> None:
        self.links += 1
        if self.links == 3 and self.meddle is not None:
            self.meddle()
        super().link(source, target)


@pytest.fixture
def forked(tmp_path: Path) -> tuple[Log, Log]:
    """A log with segments, and its fork."""
    log = new_log(tmp_path / "original", RealDisk())
    append(log, 20)
    (tmp_path / "fork").mkdir()
    forking.fork_log(RealDisk(), log.path, str(tmp_path / "fork" / "t-0"))
    fork = opened(tmp_path / "fork", RealDisk()).logs["t", 0].open()
    fork.configure(CONFIG)
    return log, fork


def test_a_fork_shares_closed_segments_and_has_all_records(forked: tuple[Log, Log]) -> None:
    log, fork = forked
    assert len(log.segments) > 4
    links = [Path(segment.log.path).stat().st_nlink for segment in log.segments]
    assert links == [2] * (len(links) - 1) + [1]
    assert values(fork) == values(log) == list(range(20))


@pytest.mark.parametrize("cut_at", range(20))
@pytest.mark.parametrize("side", ["the original", "the fork"])
def test_a_log_that_is_cut_and_written_again_leaves_the_other_as_it_was(
    forked: tuple[Log, Log], cut_at: int, side: str
) -> None:
    changed, other = forked if side == "the original" else forked[::-1]
    before = contents(Path(other.path))
    changed.truncate_to(cut_at, NOW_MS)
    append(changed, 7, b"another value")
    assert contents(Path(other.path)) == before
    assert values(other) == list(range(20))
    assert values(changed) == list(range(cut_at + 7))
    changed.flush()


def test_a_log_that_is_cut_after_a_crash_leaves_the_other_as_it_was(forked: tuple[Log, Log]) -> None:
    log, fork = forked
    before = contents(Path(log.path))
    fork.directory.abandon()
    for name in (names.RECOVERY_POINTS, SESSION):
        (Path(fork.directory.path) / name).unlink(missing_ok=True)  # the machine died
    _, second, *_ = sorted(Path(fork.path).glob("*.log"))
    second.unlink()  # everything behind it is lost, and the first segment is written to again
    again = opened(Path(fork.directory.path), RealDisk()).logs["t", 0].open()
    assert again.end.offset == 3
    again.configure(CONFIG._replace(segment_bytes=1 << 20))
    append(again, 5)
    assert len(again.segments) == 1
    assert contents(Path(log.path)) == before


def test_a_log_that_is_cut_in_a_gap_behind_a_closed_segment_leaves_the_other_as_it_was(tmp_path: Path) -> None:
    log = new_log(tmp_path / "original", RealDisk())
    log.configure(CONFIG._replace(cleanup_compact=True))
    append(log, 3)
    log.roll(NOW_MS, 6)
    append(log, 4, first_offset=6)
    (tmp_path / "fork").mkdir()
    forking.fork_log(RealDisk(), log.path, str(tmp_path / "fork" / "t-0"))
    before = contents(tmp_path / "fork" / "t-0")
    log.truncate_to(5, NOW_MS)
    log.configure(CONFIG._replace(segment_bytes=1 << 20))
    append(log, 4)
    assert len(log.segments) == 1
    assert contents(tmp_path / "fork" / "t-0") == before


def test_a_file_of_a_fork_that_is_made_empty_leaves_the_other_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"content")
    RealDisk().link(str(tmp_path / "one"), str(tmp_path / "two"))
    RealDisk().create(str(tmp_path / "two")).release()
    assert (tmp_path / "one").read_bytes() == b"content"
    assert (tmp_path / "two").read_bytes() == b""


@pytest.mark.parametrize("change", ["cut", "rewritten", "deleted", "appended"])
def test_a_log_that_changes_while_it_is_forked_gives_a_whole_fork(tmp_path: Path, change: str) -> None:
    log = new_log(tmp_path / "original", RealDisk())
    append(log, 20)

    def cut() -> None:
        log.truncate_to(2, NOW_MS)
        append(log, 30)

    def rewrite() -> None:
        log.truncate_to(4, NOW_MS)
        append(log, 30, b"y" * 50)

    def delete() -> None:
        log.advance_log_start(12)
        log.delete_oldest(2, NOW_MS)
        log.directory.delete_due_files(NOW_MS + 1)

    disk = MeddlingDisk()
    changes = {"cut": cut, "rewritten": rewrite, "deleted": delete, "appended": lambda: append(log, 30)}
    disk.meddle = changes[change]
    (tmp_path / "fork").mkdir()
    forking.fork_log(disk, log.path, str(tmp_path / "fork" / "t-0"))
    before = contents(tmp_path / "fork" / "t-0")
    append(log, 10)
    assert contents(tmp_path / "fork" / "t-0") == before, "no segment is shared that is written to"
    fork = opened(tmp_path / "fork", RealDisk()).logs["t", 0].open()
    found = values(fork)
    assert found == list(range(found[0], fork.end.offset))
    assert len(found) >= 8
    both = [offset for offset in found if offset >= log.log_start_offset]
    assert [bytes_of(fork, offset) for offset in both] == [bytes_of(log, offset) for offset in both]


def test_a_log_that_changes_all_the_time_is_reported(tmp_path: Path) -> None:
    log = new_log(tmp_path / "original", RealDisk())
    append(log, 20)
    (Path(log.path) / "00000000000000000000.log.swap").write_bytes(b"")
    (tmp_path / "fork").mkdir()
    with pytest.raises(ForkBusy, match="try again"):
        forking.fork_log(RealDisk(), log.path, str(tmp_path / "fork" / "t-0"))
