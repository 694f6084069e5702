"""A run of a backup: the cut, the copies of partitions, several at once, and the manifest last."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Event
from typing import Final

from kpybroker.client.client import Client, Spot
from kpybroker.client.epoch_requests import diverged_from
from kpybroker.machines.backup.cut import CutTransactions, Place, decide, doubt
from kpybroker.machines.backup.manifest import (
    TOPICS,
    PartitionAtCut,
    RunManifest,
    StoredPiece,
    TopicAtCut,
    manifest_json,
    manifest_key,
    partitions_of,
    place_of_entry,
    run_of,
)
from kpybroker.machines.backup.planning import chained, plan_partition, without_diverged
from kpybroker.pipeline.backup.copying import PartitionTask, WrittenPartition, copy_partition
from kpybroker.pipeline.backup.source import SourceCut, SourceTopics, read_cut, read_topics
from kpybroker.pipeline.backup.store import BackupStore
from kpywire import uuid

AT_ONCE: Final = 4
"""The number of partitions that are copied at the same time."""
CUTS: Final = 10
"""How often a cut is taken again where it cannot be decided whether a transaction is torn."""

Pieces = Mapping[tuple[str, int], list[StoredPiece]]


class AnotherCluster(Exception):
    """The store has the backup of another cluster. The message is one line."""


class _Stopped(Exception):
    """The run has ended, and this partition is not copied to its end."""


def run_name(begin_ms: int) -> str:
    """The name of the run that begins at this time. Names sort as their times."""
    return datetime.fromtimestamp(begin_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.") + f"{begin_ms % 1000:03d}Z"


def create(
    connect: Callable[[], Client],
    store: BackupStore,
    patterns: Iterable[str],
    now_ms: Callable[[], int],
    progress: Callable[[int], object],
) -> RunManifest:
    """Write a run, and return its manifest. ``progress`` gets numbers of bytes, from several threads. Raises
    KafkaError, Unreachable, StoreFailed, BadManifest, AnotherCluster."""
    runs = store.runs()
    last = store.manifest(runs[-1]) if runs else None
    earliest_ms = 0 if last is None else last.cut_ms + 1
    run = run_name(max(now_ms(), earliest_ms))
    notes: dict[Spot, str] = {}
    with connect() as client:
        source = read_topics(client, patterns)
        if last is not None and last.cluster_id != source.cluster_id:
            there, here = last.cluster_id, source.cluster_id
            raise AnotherCluster(f"{store.name} has the backup of cluster {there}, not of {here}")
        ids = {topic.name: uuid.to_string(topic.topic_id) for topic in source.topics}
        known = _known(store, last)
        for _ in range(CUTS):
            cut = read_cut(client, source.topics)
            cut_ms = max(now_ms(), earliest_ms)
            copied = _copy_all(connect, store, _tasks(client, source, cut, known, run), progress)
            decided = decide({_place(spot): each.seen for spot, each in copied.items()}, cut.committing)
            notes |= {spot: each.note for spot, each in copied.items() if each.note}
            if not decided.doubtful:
                break
            known = {(ids[spot.topic], spot.partition): list(each.pieces) for spot, each in copied.items()}
    manifest = RunManifest(
        run,
        source.cluster_id,
        cut_ms,
        max(now_ms(), cut_ms),
        source.offsets_partitions,
        _topics(source, cut, copied, decided),
        cut.groups,
        (*_changes(source, last), *(f"{spot}: {note}" for spot, note in notes.items()), *map(doubt, decided.doubtful)),
    )
    store.put(manifest_key(manifest.run), [manifest_json(manifest)])
    return manifest


def _place(spot: Spot) -> Place:
    return spot.topic, spot.partition


def _known(store: BackupStore, last: RunManifest | None) -> Pieces:
    """The pieces of the last run, and those that interrupted runs have left since."""
    found: dict[tuple[str, int], list[StoredPiece]] = {}
    for topic, index, part in partitions_of(last) if last is not None else ():
        found[topic.topic_id, index] = list(part.pieces)
    left: dict[tuple[str, int], list[StoredPiece]] = {}
    for each in store.listed(TOPICS):
        place = place_of_entry(each.key)
        if place is not None and (last is None or run_of(each.key) > last.run):
            piece = store.entry(each.key)
            if piece is not None:
                left.setdefault(place, []).append(piece)
    for place, pieces in left.items():
        found[place] = chained(found.get(place, []), pieces)
    return found


def _tasks(client: Client, source: SourceTopics, cut: SourceCut, known: Pieces, run: str) -> list[PartitionTask]:
    ids = {topic.name: topic.topic_id for topic in source.topics}
    pieces = {spot: known.get((uuid.to_string(ids[spot.topic]), spot.partition), []) for spot in cut.bounds}
    diverged: set[Spot] = set()
    unsure = {spot for spot, held in pieces.items() if held}
    while unsure:
        last = {spot: (pieces[spot][-1].leader_epoch, pieces[spot][-1].end_offset) for spot in unsure}
        found = diverged_from(client, {spot: each for spot, each in last.items() if each[0] >= 0})
        for spot, offset in found.items():
            pieces[spot] = without_diverged(pieces[spot], offset)
        diverged |= found.keys()
        unsure = {spot for spot in found if pieces[spot]}
    return [
        PartitionTask(
            spot,
            ids[spot.topic],
            run,
            plan_partition(pieces[spot], bounds, was_diverged=spot in diverged),
            cut.offsets[spot],
            bounds,
        )
        for spot, bounds in cut.bounds.items()
    ]


def _copy_all(
    connect: Callable[[], Client], store: BackupStore, tasks: Iterable[PartitionTask], progress: Callable[[int], object]
) -> dict[Spot, WrittenPartition]:
    """Copy partitions, several at once. The first error ends all."""
    stopping = Event()

    def counted(size_bytes: int) -> None:
        if stopping.is_set():
            raise _Stopped
        progress(size_bytes)

    clients: SimpleQueue[Client] = SimpleQueue()
    opened = [connect() for _ in range(AT_ONCE)]
    for client in opened:
        clients.put(client)

    def copy(task: PartitionTask) -> WrittenPartition:
        client = clients.get()
        try:
            return copy_partition(client, store, task, counted)
        finally:
            clients.put(client)

    with ThreadPoolExecutor(AT_ONCE, "kpybroker-backup") as threads:
        try:
            futures = {task.spot: threads.submit(copy, task) for task in tasks}
            return {spot: future.result() for spot, future in futures.items()}
        finally:
            stopping.set()
            threads.shutdown(cancel_futures=True)
            for client in opened:
                client.close()


def _topics(
    source: SourceTopics, cut: SourceCut, copied: Mapping[Spot, WrittenPartition], decided: CutTransactions
) -> tuple[TopicAtCut, ...]:
    return tuple(
        TopicAtCut(
            topic.name,
            uuid.to_string(topic.topic_id),
            topic.configs,
            tuple(
                PartitionAtCut(
                    copied[spot].start_offset,
                    cut.bounds[spot].end_offset,
                    max(copied[spot].leader_epoch, topic.leader_epochs[spot.partition]),
                    copied[spot].pieces,
                    decided.ends.get(_place(spot), ()),
                    decided.overturned.get(_place(spot), ()),
                )
                for spot in topic.spots
            ),
        )
        for topic in source.topics
    )


def _changes(source: SourceTopics, last: RunManifest | None) -> Iterable[str]:
    """The topics that are gone, or are other ones, since the run before."""
    ids = {topic.name: uuid.to_string(topic.topic_id) for topic in source.topics}
    for topic in last.topics if last is not None else ():
        if topic.name not in ids:
            yield f"{topic.name} is in the run before and not in this one"
        elif ids[topic.name] != topic.topic_id:
            yield f"{topic.name} was deleted and created again since the run before"
