"""Backups of a node, and nodes that start with what was restored from them."""

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from backed_up import (
    CLOCK_MS,
    commit,
    create_topic,
    delete_before,
    ends,
    positions,
    produce,
    producer,
    restored,
    run,
    values,
)
from click.testing import CliRunner, Result

from kpybroker.cli.backup import command
from kpybroker.cli.tables import time_text
from kpybroker.client import topic_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.epoch_requests import diverged_from
from kpybroker.client.topic_requests import describe
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.remote_storage import StoreAway
from kpybroker.machines.backup.manifest import manifest_json, manifest_key
from kpybroker.pipeline.backup import copying, creating
from kpybroker.pipeline.backup.checking import check
from kpybroker.pipeline.backup.restoring import at_time
from kpybroker.pipeline.backup.store import BackupStore
from kpybroker.pipeline.scan.fetching import ScanFetching, fetch
from kpywire.varint import Buffer
from tests.broker.running_node import RunningNode
from tests.mirror.two_clusters import batches, client_of

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_two_runs_are_restored_as_the_cluster_was_at_each(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-codecs", 2, retention_ms="987654321")
    store = BackupStore(MemoryStore(), "backups/")
    runs, seen, committed = [], [], []
    for turn in range(2):
        for codec in CODECS:
            produce(node, "t-codecs", 50, turn, compression_type=codec)
        commit(node, "readers", "t-codecs", 10 + turn)
        committed.append(positions(node, "readers"))
        runs.append(run(node, store, "t-codecs"))
        seen.append([batches(node, "t-codecs", index) for index in range(2)])
    assert runs[1].new_bytes == sum(map(len, seen[1][1]))
    assert check(store, lambda _: None).damages == []
    with client_of(node) as client:
        before = describe(client, "t-codecs")
    for turn, manifest in enumerate(runs):
        with restored(store, manifest, tmp_path / str(turn)) as again:
            assert [batches(again, "t-codecs", index) for index in range(2)] == seen[turn]
            assert positions(again, "readers") == committed[turn]
            assert committed[turn][Spot("t-codecs", 0)].offset == 10 + turn
            with client_of(again) as client:
                after = describe(client, "t-codecs")
            assert (after.topic.topic_id, after.configs) == (before.topic.topic_id, before.configs)
            produce(again, "t-codecs", 1)
            assert len(batches(again, "t-codecs", 0)) == len(seen[turn][0]) + 1


def test_deleted_records_are_not_restored(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-deleted")
    create_topic(node, "t-emptied")
    produce(node, "t-deleted", 10)
    produce(node, "t-emptied", 10)
    delete_before(node, "t-deleted", 4)
    delete_before(node, "t-emptied", 10)
    store = BackupStore(MemoryStore())
    first = run(node, store, "t-deleted", "t-emptied")
    produce(node, "t-deleted", 10)
    delete_before(node, "t-deleted", 15)
    second = run(node, store, "t-deleted", "t-emptied")
    assert first.notes == ()
    assert second.notes == (
        "t-deleted-0: the source has deleted the records from offset 10 to 15 before they were read",
    )
    for number, (manifest, start_offset, end_offset) in enumerate(((first, 4, 10), (second, 15, 20))):
        with restored(store, manifest, tmp_path / str(number)) as again, client_of(again) as client:
            spots = Spot("t-deleted", 0), Spot("t-emptied", 0)
            assert client.list_offsets(dict.fromkeys(spots, -2)) == {spots[0]: start_offset, spots[1]: 10}
            assert client.list_offsets(dict.fromkeys(spots, -1)) == {spots[0]: end_offset, spots[1]: 10}


def test_a_topic_that_was_created_again_is_another_one(node: RunningNode, tmp_path: Path) -> None:
    store = BackupStore(MemoryStore())
    runs = []
    for records in (3, 5):
        create_topic(node, "t-again")
        produce(node, "t-again", records)
        runs.append(run(node, store, "t-again"))
        with client_of(node) as client:
            topic_requests.delete(client, "t-again")
    runs.append(run(node, store, "t-again"))
    assert [each.notes for each in runs] == [
        (),
        ("t-again was deleted and created again since the run before",),
        ("t-again is in the run before and not in this one",),
    ]
    for number, records in ((0, 3), (1, 5)):
        with restored(store, runs[number], tmp_path / str(number)) as again:
            assert ends(again, [Spot("t-again", 0)]) == {Spot("t-again", 0): records}


def test_records_that_an_unclean_election_replaced_are_read_again(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(node, "t-unclean")
    store = BackupStore(MemoryStore())
    for _ in range(3):
        produce(node, "t-unclean", 10)
        first = run(node, store, "t-unclean")
    found = iter([{Spot("t-unclean", 0): 15}, {}])
    monkeypatch.setattr(creating, "diverged_from", lambda _client, _last: next(found))
    second = run(node, store, "t-unclean")
    (old,), (new,) = first.topics[0].partitions, second.topics[0].partitions
    assert new.pieces[0] == old.pieces[0]
    assert [(piece.start_offset, piece.end_offset) for piece in new.pieces] == [(0, 10), (10, 30)]
    assert second.notes == (
        "t-unclean-0: an unclean election at the source has replaced records; it is read again from offset 10",
    )


def test_a_time_between_two_runs_is_restored_by_timestamps(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-time", 2)
    store = BackupStore(MemoryStore())
    produce(node, "t-time", 3)
    commit(node, "timed", "t-time", 2)
    cut_ms = run(node, store, "t-time", "t-time-2").cut_ms
    create_topic(node, "t-time-2")
    made = producer(node, transactional_id="timed")
    made.init_transactions(30)
    made.begin_transaction()
    for time_ms in (cut_ms + 100, cut_ms + 300, cut_ms + 200):
        for topic, partition in (("t-time", 0), ("t-time-2", 0)):
            made.produce(topic, b"%d" % (time_ms - cut_ms), partition=partition, timestamp=time_ms)
        assert made.flush(30) == 0
    made.commit_transaction()
    commit(node, "timed", "t-time", 5)
    run(node, store, "t-time", "t-time-2")
    manifest = at_time(store, cut_ms + 200, by_timestamps=True)
    assert manifest is not None
    assert manifest.notes == ()
    with restored(store, manifest, tmp_path / "again") as again:
        spots = Spot("t-time", 0), Spot("t-time-2", 0), Spot("t-time", 1)
        assert ends(again, spots) == {spots[0]: 5, spots[1]: 2, spots[2]: 0}  # an ABORT marker is last
        assert batches(again, "t-time", 0)[:-1] == batches(node, "t-time", 0)[:2]
        assert values(again, "t-time") == [b"value 0", b"value 1", b"value 2"]
        assert positions(again, "timed")[spots[0]].offset == 2
    earlier = at_time(store, cut_ms + 200, by_timestamps=False)
    assert earlier is not None
    assert earlier.cut_ms == cut_ms
    before = at_time(store, cut_ms - 1, by_timestamps=True)  # no record of the first run is so old
    assert before is not None
    assert (before.topics, before.groups) == ((), {})
    assert at_time(store, cut_ms - 1, by_timestamps=False) is None


def test_a_log_that_the_source_does_not_have_to_its_end_is_recognised(node: RunningNode) -> None:
    create_topic(node, "t-epochs", 2)
    produce(node, "t-epochs", 20)
    with client_of(node) as client:
        longer, same = Spot("t-epochs", 0), Spot("t-epochs", 1)
        assert diverged_from(client, {longer: (0, 30), same: (0, 0)}) == {longer: 20}
        assert diverged_from(client, {longer: (0, 20)}) == {}
        assert diverged_from(client, {}) == {}


def test_records_that_are_deleted_while_a_run_reads_are_left_out(
    node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(node, "t-overtaken")
    for _ in range(4):
        produce(node, "t-overtaken", 10)
    fetches = count()

    def fetch_later(*given: Any) -> Any:
        if next(fetches) == 1:
            delete_before(node, "t-overtaken", 30)
        return fetch(*given)

    monkeypatch.setattr(copying, "FETCHING", ScanFetching(max_bytes=300))
    monkeypatch.setattr(copying, "fetch", fetch_later)
    store = BackupStore(MemoryStore())
    manifest = run(node, store, "t-overtaken")
    assert manifest.notes == (
        "t-overtaken-0: the source has deleted the records before offset 30 while they were read",
    )
    (part,) = manifest.topics[0].partitions
    assert (part.start_offset, part.end_offset, part.pieces[0].start_offset) == (30, 40, 30)
    with restored(store, manifest, tmp_path / "again") as again:
        assert batches(again, "t-overtaken", 0) == batches(node, "t-overtaken", 0)


class FailingStore(MemoryStore):
    """A store that fails after some writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left = 0

    def put(self, key: str, parts: Iterable[Buffer]) -> None:
        if not self.writes_left:
            raise StoreAway("memory: it is away")
        self.writes_left -= 1
        super().put(key, parts)


def test_a_run_that_is_interrupted_at_any_write_is_gone_on_with(
    node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE_BYTES", 500)
    monkeypatch.setattr(copying, "FETCHING", ScanFetching(max_bytes=500))
    monkeypatch.setattr(creating, "AT_ONCE", 1)
    create_topic(node, "t-interrupted", 2)
    for partition in range(2):
        for _ in range(8):
            produce(node, "t-interrupted", 20, partition)
    place = FailingStore()
    store = BackupStore(place)
    pieces: set[str] = set()
    manifest = None
    for _ in range(20):
        place.writes_left = 3  # a piece, its entry, and a piece without an entry
        try:
            manifest = run(node, store, "t-interrupted")
            break
        except StoreAway:
            assert store.runs() == []
            found = {key for key in place.objects if key.endswith(".log.json")}
            assert pieces < found
            pieces = found
    assert manifest is not None
    named = [piece.key for part in manifest.topics[0].partitions for piece in part.pieces]
    assert len(named) >= 8
    assert sum(f"{key}.json" in pieces for key in named) == len(pieces)
    with restored(store, manifest, tmp_path / "again") as again:
        for index in range(2):
            assert batches(again, "t-interrupted", index) == batches(node, "t-interrupted", index)


def test_damaged_and_missing_objects_are_named(node: RunningNode) -> None:
    create_topic(node, "t-damaged", 4)
    for partition in range(4):
        produce(node, "t-damaged", 10, partition)
    place = MemoryStore()
    store = BackupStore(place)
    manifest = run(node, store, "t-damaged")
    changed, cut, gone, of_other_epoch = (part.pieces[0].key for part in manifest.topics[0].partitions)
    place.objects[changed] = place.objects[changed][:-1] + b"?"
    place.objects[cut] = place.objects[cut][:-1]
    del place.objects[gone]
    epoch = place.objects[of_other_epoch]  # no CRC covers it
    place.objects[of_other_epoch] = epoch[:15] + b"?" + epoch[16:]
    place.objects[manifest_key("2")] = b"{}"
    size = len(place.objects[cut])
    damages = check(store, lambda _: None).damages
    assert sorted(damages) == sorted(
        [
            "run 2: memory:: runs/2.json: it is no manifest: KeyError 'version'",
            f"{changed}: the batch at offset 0 has a wrong CRC",
            f"{cut} ends at byte {size} of {size + 1}",
            f"memory:: there is no {gone}",
            f"{of_other_epoch} has another SHA-256 than the bytes that were written",
        ]
    )


def test_a_backup_of_another_cluster_is_not_gone_on_with(node: RunningNode) -> None:
    place = MemoryStore()
    store = BackupStore(place)
    create_topic(node, "t-other")
    manifest = run(node, store, "t-other")
    place.objects[manifest_key(manifest.run)] = manifest_json(manifest._replace(cluster_id="another"))
    with pytest.raises(creating.AnotherCluster, match="has the backup of cluster another, not of"):
        run(node, store, "t-other")


def kpybroker(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_the_command_backs_up_lists_checks_and_restores(node: RunningNode, tmp_path: Path) -> None:
    create_topic(node, "t-command")
    produce(node, "t-command", 10)
    place, server = str(tmp_path / "backup"), f"127.0.0.1:{node.port}"
    assert kpybroker("list", "--from", place).exit_code == 1
    for _ in range(2):
        done = kpybroker("create", "--to", place, "--topics", "t-command", "-b", server)
        assert done.exit_code == 0, done.output
    assert done.output.endswith("0 B of it new.\n")
    listed = json.loads(kpybroker("list", "--from", place, "--json").output)
    assert [each["topics"] for each in listed] == [["t-command"]] * 2
    assert kpybroker("list", "--from", place).output.count("\n") == 3
    done = kpybroker("check", "--from", f"file://{place}")
    assert (done.exit_code, done.output.partition(",")[0]) == (0, "2 runs")
    target = str(tmp_path / "restored")
    early = kpybroker("restore", "--from", place, "--at", str(listed[0]["cut_ms"] - 1), "--to", target)
    assert early.exit_code == 1
    assert "has no run whose cut is not after" in early.output
    done = kpybroker("restore", "--from", place, "--at", str(listed[1]["cut_ms"] - 1), "--to", target)
    assert done.output.startswith(f"Restored the cluster of {time_text(listed[0]['cut_ms'])} into ")
    again = kpybroker("restore", "--from", place, "--to", target)
    assert (again.exit_code, again.output) == (
        1, f"Error: {target} is not empty: a backup is restored into an empty directory\n"
    )  # fmt: skip
    (log,) = (tmp_path / "backup").rglob("*.log")
    log.write_bytes(b"?" * log.stat().st_size)
    done = kpybroker("check", "--from", place)
    assert (done.exit_code, done.output.partition(" ")[0]) == (1, "DAMAGE")
    other = kpybroker("restore", "--from", place, "--to", f"{target}-2")
    assert other.exit_code == 1
    assert other.output.startswith("Error: topics/")
    assert not (tmp_path / "restored-2" / "meta.properties").exists()


def test_a_cluster_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    done = kpybroker("create", "--to", str(tmp_path), "-b", "127.0.0.1:1")
    assert done.exit_code == 3
    assert done.output.count("\n") == 1
    done = kpybroker("create", "--to", "s4://bucket", "-b", "127.0.0.1:1")
    assert done.exit_code == 2


def test_clients_of_a_run_are_closed(node: RunningNode) -> None:
    made: list[Client] = []

    def connect() -> Client:
        made.append(client_of(node))
        return made[-1]

    create_topic(node, "t-closed")
    creating.create(connect, BackupStore(MemoryStore()), ["t-closed"], lambda: next(CLOCK_MS), lambda _: None)
    assert not any(client._connections for client in made)
