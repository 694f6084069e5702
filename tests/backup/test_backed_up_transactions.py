"""Transactions at the cut of a backup."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from backed_up import create_topic, ends, produce, producer, restored, run, values

from kpybroker.client.client import Spot
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.machines.backup.cut import CutTransactions, decide, doubt
from kpybroker.machines.backup.manifest import ReadMarker
from kpybroker.pipeline.backup import creating
from kpybroker.pipeline.backup.store import BackupStore
from kpywire import error_codes
from support.raw_client import RawClient
from support.raw_transactions import Transactional, find_coordinator
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.two_clusters import batches


def test_open_transactions_are_aborted_and_others_stay(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-tx", 2)
    made = producer(node, transactional_id="of-backup")
    made.init_transactions(30)
    made.begin_transaction()
    for partition in range(2):
        made.produce("t-tx", b"committed", partition=partition)
    made.commit_transaction()
    made.begin_transaction()
    for partition in range(2):
        made.produce("t-tx", b"open", partition=partition)
    assert made.flush(30) == 0
    store = BackupStore(MemoryStore())
    manifest = run(node, store, "t-tx")
    before = [batches(node, "t-tx", index) for index in range(2)]
    made.abort_transaction()
    with restored(store, manifest, tmp_path / "again") as again:
        spots = [Spot("t-tx", index) for index in range(2)]
        for spot, seen in zip(spots, before, strict=True):
            assert batches(again, *spot)[:-1] == seen
        assert ends(again, spots, committed_only=True) == ends(again, spots) == dict.fromkeys(spots, 4)
        assert values(again, "t-tx") == [b"committed"]
        other = producer(again, transactional_id="another")
        other.init_transactions(30)
        other.begin_transaction()
        other.produce("t-tx", b"later", partition=0)
        other.commit_transaction()
        assert values(again, "t-tx") == [b"committed", b"later"]


def test_a_transaction_that_the_cut_splits_is_aborted_as_a_whole(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-split")
    made = producer(node, transactional_id="of-split")
    made.init_transactions(30)
    for value in (b"first", b"second", b"third"):
        made.begin_transaction()
        made.produce("t-split", value, partition=0)
        made.commit_transaction()
    store = BackupStore(MemoryStore())
    manifest = run(node, store, "t-split")
    (topic,) = manifest.topics
    split = topic.partitions[0]._replace(overturned=(ReadMarker(3, 0, 0, 0, is_commit=True),))
    changed = manifest._replace(topics=(topic._replace(partitions=(split,)),))
    with restored(store, changed, tmp_path / "again") as again:
        assert values(again, "t-split") == [b"first", b"third"]
        assert ends(again, [Spot("t-split", 0)]) == {Spot("t-split", 0): 6}


def commit_by_version_1(node: RunningNode, topic: str, name: str, stopping: Event) -> None:
    """Commit transactions over three partitions: all of a producer have one epoch."""
    made = producer(node, transactional_id=name)
    made.init_transactions(30)
    for number in count():
        if stopping.is_set():
            return
        made.begin_transaction()
        for partition in range(3):
            made.produce(topic, f"{name} {number}", partition=partition)
        made.commit_transaction()


def commit_by_version_2(node: RunningNode, topic: str, name: str, stopping: Event) -> None:
    """Commit transactions over three partitions, each with its own epoch (KIP-890)."""
    with RawClient(node.port) as raw:
        find_coordinator(raw, name)
        made = Transactional(raw, name)
        made.init()
        for number in count():
            if stopping.is_set():
                return
            for partition in range(3):
                made.produce(topic, b"%s %d" % (name.encode(), number), partition=partition, version=12)
            assert made.end(commit=True, version=5).error_code == error_codes.NONE


@pytest.mark.slow
@pytest.mark.parametrize("commits", [commit_by_version_1, commit_by_version_2])
def test_no_transaction_is_torn_while_producers_commit(
    node: RunningNode, tmp_path: Path, commits: Callable[[RunningNode, str, str, Event], None]
) -> None:
    topic = f"t-{commits.__name__}"
    create_topic(node, topic, 3)
    stopping = Event()
    names = [f"{commits.__name__}-{number}" for number in range(2)]
    threads = [Thread(target=commits, args=(node, topic, name, stopping)) for name in names]
    for thread in threads:
        thread.start()
    store = BackupStore(MemoryStore())
    try:
        eventually(lambda: ends(node, [Spot(topic, 2)])[Spot(topic, 2)] > 10, "transactions are committed")
        manifests = [run(node, store, topic) for _ in range(3)]
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    for number, manifest in enumerate(manifests):
        with restored(store, manifest, tmp_path / str(number)) as again:
            found = [set(values(again, topic, partition)) for partition in range(3)]
            assert len(found[0]) > 3
            if commits is commit_by_version_2:
                assert manifest.notes == ()
            if not manifest.notes:
                assert found[0] == found[1] == found[2]


def test_a_cut_that_may_tear_a_transaction_is_taken_again(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic(node, "t-cuts")
    store = BackupStore(MemoryStore())
    decisions: list[CutTransactions] = []

    def doubtful(cuts: int) -> None:
        """The next cuts are doubtful, and new records come before each."""
        decisions.clear()

        def decided(*given: Any) -> CutTransactions:
            produce(node, "t-cuts", 10)
            found = decide(*given)
            decisions.append(found if len(decisions) == cuts else found._replace(doubtful=(5,)))
            return decisions[-1]

        monkeypatch.setattr(creating, "decide", decided)

    doubtful(2)
    manifest = run(node, store, "t-cuts")
    assert manifest.notes == ()
    (part,) = manifest.topics[0].partitions
    assert [(piece.start_offset, piece.end_offset) for piece in part.pieces] == [(0, 10), (10, 20)]
    assert part.end_offset == 20
    doubtful(creating.CUTS)
    assert run(node, store, "t-cuts").notes == (doubt(5),)
    assert len(decisions) == creating.CUTS
