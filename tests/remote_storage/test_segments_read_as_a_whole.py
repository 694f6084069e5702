"""The whole reading of segments by ``kpybroker tiers check --read``, and the store that a file opens."""

from pathlib import Path

import click
import pytest
from stored_segments import NO_LIMITS, chunked, log_of, tiered

from kpybroker.cli import tier_store
from kpybroker.cli.tier_store import opened_store, problem_of
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpybroker.machines.remote_log.segments import RemoteLogSegment

SETTINGS = "process.roles=broker,controller\nnode.id=1\nremote.log.storage.system.enable=true\n"


class FixedLog:
    """A store whose only log has these bytes."""

    def __init__(self, log: bytes) -> None:
        self.log = log
        self.asked: list[tuple[int, int]] = []

    def read(self, _segment: RemoteLogSegment, start: int, end: int) -> bytes:
        self.asked.append((start, end))
        return self.log[start:end]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_store, "STEP_BYTES", 700)


def segment_of(log: bytes) -> RemoteLogSegment:
    return tiered(log).segment._replace(end_offset=10_000)


def test_a_whole_segment_has_no_problem():
    log = log_of(5_000)
    store = FixedLog(log)
    assert problem_of(store, segment_of(log)) is None
    assert len(store.asked) > 5
    assert max(end for _, end in store.asked) == len(log)


def test_a_segment_of_the_chunked_layout_is_read_through_its_chunks():
    log = log_of(5_000)
    storage, of = chunked(MemoryStore()), tiered(log)
    storage.copy(of.segment, of.files, NO_LIMITS)
    assert problem_of(storage, of.segment._replace(end_offset=10_000)) is None


@pytest.mark.parametrize("byte", [70, 1_500, 4_900])
def test_a_flipped_byte_is_found(byte: int):
    log = log_of(5_000)
    damaged = bytearray(log)
    damaged[byte] ^= 1
    assert problem_of(FixedLog(bytes(damaged)), segment_of(log)) is not None


def test_a_short_log_and_a_torn_batch_are_found():
    log = log_of(3_000)
    assert problem_of(FixedLog(log[:-100]), segment_of(log)) == f"its log ends at byte {len(log) - 100} of {len(log)}"
    torn = segment_of(log)._replace(size_bytes=len(log) - 3)
    assert "bytes are no batch" in str(problem_of(FixedLog(log), torn))


def test_records_behind_the_end_of_the_segment_are_found():
    log = log_of(3_000)
    assert "the metadata say 1" in str(problem_of(FixedLog(log), segment_of(log)._replace(end_offset=1)))


def test_a_store_that_fails_is_reported():
    class Failing:
        def read(self, *_: object) -> bytes:
            raise StoreFailed("get x: away")

    assert problem_of(Failing(), segment_of(b"x" * 100)) == "get x: away"


def test_the_store_is_that_of_the_file(tmp_path: Path):
    path = tmp_path / "server.properties"
    (tmp_path / "store").mkdir()
    path.write_text(f"{SETTINGS}kpybroker.remote.store=file://{tmp_path}/store\n")
    with opened_store(path) as (storage, is_plain):
        assert list(storage.listed()) == []
        assert is_plain
    path.write_text(SETTINGS)
    with pytest.raises(click.UsageError), opened_store(path):
        pass
