"""Bytes that nobody wrote behind the last batch of a file: what is acknowledged later is read, or nothing is
acknowledged."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from log_making import NOW_MS, TOPIC_ID, append, append_records, headers_of, make_batch, open_directory

from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptLog, StorageError
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.recovery import Loss

CONFIG = LogConfig(index_interval_bytes=200)
END = 10

TAILS: dict[str, Callable[[bytes], bytes]] = {
    "a zero": lambda _log: bytes(1),
    "as many zeros as a header has": lambda _log: bytes(61),
    "zeros": lambda _log: bytes(4096),
    "zeros and a batch": lambda _log: bytes(4096) + make_batch(END),
    "zeros and something": lambda _log: bytes(2_000_000) + b"x",
    "ones": lambda _log: b"\xff" * 4096,
    "random bytes": lambda _log: Random(1).randbytes(4096),
    "a few random bytes": lambda _log: Random(2).randbytes(20),
    "a torn batch": lambda _log: make_batch(END)[:-1],
    "a torn header": lambda _log: make_batch(END)[:40],
    "a batch and a torn one": lambda _log: make_batch(END) + make_batch(END + 1)[:80],
    "the next batch, whole": lambda _log: make_batch(END),
    "a batch that is damaged": lambda _log: make_batch(END)[:-3] + b"abc",
    "a damaged batch of a far offset": lambda _log: make_batch(1 << 40)[:-3] + b"abc",
    "the first batch again": lambda log: log[: len(make_batch(0))],
    "the last batch again": lambda log: log[-len(make_batch(0)) :],
    "everything again": lambda log: log,
    "a batch whose last offset is below its first": lambda _log: (
        make_batch(END)[:23] + b"\xff\xff\xff\xf0" + make_batch(END)[27:]
    ),
}


def fill(directory: LogDirectory, *, sealed: bool) -> Log:
    log = directory.create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
    for number in range(END):
        if sealed and number == END // 2:
            log.roll(NOW_MS)
        append_records(log, 1)
    log.flush()
    return log


def batches_of(log: Log) -> list[tuple[int, bytes]]:
    """All batches as a client reads them: to the log's end, each at an offset above the last one's."""
    found, offset = [], log.log_start_offset
    while offset < log.end.offset:
        part = log.read(offset, 1 << 20, log.end, min_one_batch=True)
        assert part is not None
        data, before = part.read(), offset
        for header in headers_of_valid(data):
            if header[0] >= offset:
                found.append(header)
                offset = header[2]
        assert offset > before, f"nothing can be read at offset {offset}"
    return [(base_offset, data) for base_offset, data, _ in found]


def headers_of_valid(data: bytes) -> list[tuple[int, bytes, int]]:
    """(base offset, batch, next offset) up to the first bytes that a client cannot parse."""
    found, position = [], 0
    while position + 61 <= len(data):
        (header,) = headers_of(data[position : position + 12 + int.from_bytes(data[position + 8 : position + 12])])[:1]
        if position + header.size > len(data):
            break
        found.append((header.base_offset, data[position : position + header.size], header.next_offset))
        position += header.size
    return found


@pytest.mark.parametrize("stop", ["a clean stop", "the death of the process", "the death of the machine"])
@pytest.mark.parametrize("tail", TAILS)
def test_records_that_are_acknowledged_after_bytes_that_are_no_batch_are_read_at_once_and_after_a_restart(
    tmp_path: Path, tail: str, stop: str
) -> None:
    reported: list[str] = []
    directory = open_directory(RealDisk(), str(tmp_path))
    log = fill(directory, sealed=False)
    end_by(stop, directory, tmp_path)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + TAILS[tail](whole))
    damaged = path.read_bytes()
    again = open_directory(RealDisk(), str(tmp_path), report=reported.append)
    try:
        log = again.logs["t", 0].open()
    except StorageError:
        assert path.read_bytes() == damaged  # nothing is acknowledged, and nothing removed
        return
    if log.end.offset == END and not tail.startswith("the next batch"):
        assert path.read_bytes() == whole
        assert any("cut off" in line for line in reported)
    new = [make_batch(log.end.offset + number, value_bytes=50) for number in range(5)]
    for batch in new:
        append(log, batch)
    expected = [(int.from_bytes(batch[:8]), batch) for batch in new]
    assert batches_of(log)[-5:] == expected
    assert batches_of(log)[0][1] == whole[: len(make_batch(0))]
    again.close()
    for last in ("a clean stop", "the death of the process", "the death of the machine"):
        once_more = open_directory(RealDisk(), str(tmp_path))
        assert batches_of(once_more.logs["t", 0].open())[-5:] == expected, last
        end_by(last, once_more, tmp_path)


def end_by(stop: str, directory: LogDirectory, path: Path) -> None:
    if stop == "a clean stop":
        directory.close()
        return
    directory.abandon()
    if stop == "the death of the machine":
        (path / ".kpybroker_session").unlink()


def test_zeros_after_a_cleanly_stopped_log_are_logged(tmp_path: Path) -> None:
    reported: list[str] = []
    directory = open_directory(RealDisk(), str(tmp_path))
    fill(directory, sealed=False)
    directory.close()
    with (tmp_path / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(bytes(4096))
    open_directory(RealDisk(), str(tmp_path), report=reported.append).logs["t", 0].open()
    place = f"from byte {END * len(make_batch(0))} (offset {END}) on"
    assert reported == [f"t-0: 4096 zeros {place} are no batch, thus cut off, though the last stop was clean"]


@pytest.mark.parametrize("tail", TAILS)
def test_bytes_behind_a_sealed_segment_hide_no_record_that_is_acknowledged_later(tmp_path: Path, tail: str) -> None:
    directory = open_directory(RealDisk(), str(tmp_path))
    fill(directory, sealed=True)
    directory.close()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + TAILS[tail](whole))
    again = open_directory(RealDisk(), str(tmp_path))
    try:
        log = again.logs["t", 0].open()
        if again.loss_of(log) is not None:
            return  # no role begins with it
    except CorruptLog:
        return
    new = [make_batch(log.end.offset + number, value_bytes=50) for number in range(5)]
    for batch in new:
        append(log, batch)
    log.advance_log_start(END // 2)
    assert [offset for offset, _ in batches_of(log)] == list(range(END // 2, END + 5))


@pytest.mark.parametrize("stop", ["a clean stop", "the death of the process", "the death of the machine"])
@pytest.mark.parametrize("kept", [0, 0.4, 0.7])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_segment_that_ends_before_its_indexes_do_is_a_loss_unless_the_machine_died(
    tmp_path: Path, stop: str, kept: float, *, sealed: bool
) -> None:
    reported: list[str] = []
    directory = open_directory(RealDisk(), str(tmp_path))
    log = fill(directory, sealed=sealed)
    log.active.flush_indexes()
    log.recovery_point = 0  # nothing else says how far it went
    directory.write_checkpoint(names.RECOVERY_POINTS, directory.render_recovery_points())
    directory.noted()
    end_by(stop, directory, tmp_path)
    (tmp_path / names.RECOVERY_POINTS).write_bytes(b"0\n0\n")
    path = max((tmp_path / "t-0").glob("*.log"))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept) // len(make_batch(0)) * len(make_batch(0))])
    again = open_directory(RealDisk(), str(tmp_path), report=reported.append)
    log = again.logs["t", 0].open()
    assert log.end.offset < END
    assert any("are missing: its indexes know of them" in line for line in reported)
    loss = again.loss_of(log)
    if stop == "the death of the machine":
        assert loss is None
    else:
        assert isinstance(loss, Loss)
        assert (loss.offset, loss.is_cut) == (log.end.offset, True)
        assert END - 2 <= loss.following <= END  # as far as the last entry goes


def test_a_damaged_index_entry_alone_is_no_loss(tmp_path: Path) -> None:
    reported: list[str] = []
    directory = open_directory(RealDisk(), str(tmp_path))
    log = fill(directory, sealed=False)
    directory.close()
    path = tmp_path / "t-0" / f"{0:020d}{names.OFFSET_INDEX}"
    data = bytearray(path.read_bytes())
    data[-4] ^= 0x40
    path.write_bytes(data)
    again = open_directory(RealDisk(), str(tmp_path), report=reported.append)
    log = again.logs["t", 0].open()
    assert (log.end.offset, again.loss_of(log), reported) == (END, None, [])
