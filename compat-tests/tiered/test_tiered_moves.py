"""The directory and the store of one program go on under another one, and come back; no object is written again."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from kpystorage.remote.local_tiered_storage import parse_path
from support.raw_client import RawClient
from support.special_timestamps import EARLIEST, LATEST_TIERED
from support.waiting import becomes, eventually
from tiered.filling import alter, delete_records, fill
from tiered.moving import PLAIN, SETTLE_S, TOPIC, MovedNode, has_gone_on
from tiered.nodes import BESIDE, SLOW
from tiered.reading import offset
from tiered.store import start_offsets, torn

pytestmark = [pytest.mark.java, pytest.mark.timeout(1200)]


@pytest.fixture
def turns(tiered_target: str) -> Sequence[str]:
    """The programs that have the directory one after the other: the other one is the first and the last."""
    return BESIDE[tiered_target], tiered_target, BESIDE[tiered_target]


@pytest.mark.parametrize(
    "ending",
    [pytest.param(MovedNode.stop, id="stopped"), pytest.param(MovedNode.kill, id="killed", marks=pytest.mark.slow)],
)
def test_all_records_are_read_before_and_after_and_copies_go_on(
    turns: Sequence[str], ending: Callable[[MovedNode], None], tmp_path: Path
) -> None:
    with MovedNode(turns[0], tmp_path) as node:
        node.write(0)
        node.settle()
        for turn, program in enumerate(turns[1:], 1):
            before, files = node.readings(), node.objects()
            ending(node)
            node.move_to(program)
            becomes(lambda: [each.latest_tiered for each in node.readings()], [each.latest_tiered for each in before])
            assert node.readings() == before
            assert node.objects() == files
            node.write(turn)
            node.settle()
            after = node.readings()
            assert all(map(has_gone_on, before, after))
            assert all(new.latest_tiered > old.latest_tiered for old, new in zip(before, after, strict=True))
            assert files.items() <= node.objects().items()
        node.stop()
        assert node.complaints() == []


def expire_by_deletion(raw: RawClient, node: MovedNode) -> int:
    """DeleteRecords below the third segment; the offset where the log starts."""
    start = start_offsets(node.store, TOPIC)[2]
    assert delete_records(raw, TOPIC, start) == (0, start)
    return start


def expire_by_size(raw: RawClient, node: MovedNode) -> int:
    """Retention that the two oldest segments exceed; the offset where the log starts."""
    starts = start_offsets(node.store, TOPIC)
    sizes = {
        name.segment.start_offset: file.size
        for path, file in node.objects().items()
        if path.endswith(".log") and (name := parse_path(path)) and name.segment.partition == PLAIN
    }
    kept = sum(sizes[each] for each in starts[2:]) + sum(each.stat().st_size for each in node.local_logs(PLAIN))
    alter(raw, TOPIC, retention_bytes=str(kept))
    return starts[2]


def first_start(node: MovedNode) -> int:
    """The offset at which the first segment in the store starts."""
    return start_offsets(node.store, TOPIC)[0]


EXPIRIES = (expire_by_deletion, expire_by_size, expire_by_deletion)


@pytest.mark.slow
def test_expiry_goes_on_and_deletes_objects_of_the_other_program(turns: Sequence[str], tmp_path: Path) -> None:
    with MovedNode(turns[0], tmp_path) as node:
        node.write(0)
        node.write(1)
        node.settle()
        tiered = node.reading(PLAIN).latest_tiered
        for program, expire in zip((None, *turns[1:]), EXPIRIES, strict=True):
            if program is not None:
                node.stop()
                node.move_to(program)
            with node.client() as raw:
                becomes(partial(offset, raw, TOPIC, LATEST_TIERED), tiered)
                before, files = node.reading(PLAIN), node.objects()
                start = expire(raw, node)
                becomes(partial(offset, raw, TOPIC, EARLIEST), start, SETTLE_S)
                becomes(partial(first_start, node), start, SETTLE_S)
                alter(raw, TOPIC, retention_bytes="-1")
            assert node.reading(PLAIN).batches == [each for each in before.batches if each.base_offset >= start]
            assert node.objects().items() <= files.items()
        node.stop()
        assert node.complaints() == []


@pytest.mark.slow
def test_a_copy_that_was_killed_is_made_again_by_the_other_program(turns: Sequence[str], tmp_path: Path) -> None:
    """The objects that a dead copy left in the store are read by neither program."""
    with MovedNode(turns[0], tmp_path, SLOW) as node:
        for turn, program in enumerate((*turns[1:], turns[1])):
            with node.client() as raw:
                fill(raw, TOPIC, range(6 * turn, 6 * turn + 6), size=100_000)
            before = node.readings()
            eventually(lambda: torn(node.store, TOPIC), "a copy that has begun", SETTLE_S, every_s=0.005)
            node.kill()
            node.move_to(program)
            node.settle()
            assert all(map(has_gone_on, before, node.readings()))
        node.stop()
        assert node.complaints() == []
