"""A transaction whose marker is missing in one partition of a mirror is not shown in the others, nor left there."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from two_clusters import TwoClusters, client_of, two_clusters

from kpybroker.cli.mirror import command
from kpybroker.client.client import Client, Spot
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.hosts.mirror import source_transactions
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.progress import Progress
from kpywire import error_codes
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start
from tests.mirror.test_mirror_node import create, kpybroker, produce, producer

A, B, OTHER = Spot("h-a", 0), Spot("h-b", 0), Spot("h-other", 0)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[TwoClusters]:
    """A mirror with the topics, each with some records, in which every partition has its place."""
    with two_clusters(tmp_path) as made:
        for spot in (A, B, OTHER):
            create(made.source, spot.topic)
            produce(made.source, spot.topic, 3)
        made.create_mirror("dr:h-*")
        eventually(lambda: len(known(made).places) == 3, "all partitions have a place")
        yield made


def known(clusters: TwoClusters) -> Progress:
    mirrors = clusters.mirror.node.broker.mirrors
    assert mirrors is not None
    return mirrors.shown.known


@contextmanager
def stalled(clusters: TwoClusters, spot: Spot) -> Iterator[None]:
    """Have a partition not fetched."""
    (running,) = clusters.mirror.node.broker.mirrors  # type: ignore[union-attr]

    def key() -> tuple[bytes, int]:
        return clusters.mirror.node.image.topics[spot.topic].id, spot.partition

    def stall() -> None:
        running._places[key()].feed.remove(key())

    clusters.mirror.call(stall)
    yield

    def resume() -> None:
        running._places.pop(key(), None)
        running.follow_leaders()

    clusters.mirror.call(resume)


def commit_in_both(source: RunningNode, value: bytes) -> None:
    writer = producer(source, transactional_id="both")
    writer.init_transactions(30)
    writer.begin_transaction()
    for spot in (A, B):
        writer.produce(spot.topic, value, partition=spot.partition)
    writer.commit_transaction(30)


def ends(node: RunningNode, spot: Spot) -> tuple[int, int]:
    """The end of a partition's log, and of what is shown of it."""

    def read() -> tuple[int, int]:
        role = node.node.broker.replicas.find(*spot).held()
        return role.log.end.offset, role.high_watermark.offset

    found: tuple[int, int] = node.call(read)
    return found


def shown(node: RunningNode, spot: Spot, *, committed_only: bool = False) -> list[bytes | None]:
    with Client(f"127.0.0.1:{node.port}") as client:
        end = client.list_offsets({spot: -1}, committed_only=committed_only)[spot]
        reader = RecordReader(client, {spot: 0}, fetching=FetchSettings(max_wait_ms=20, committed_only=committed_only))
        found = []
        while reader.positions[spot] < end:
            found += [read.record.value for read in reader.poll()]
        return found


def test_a_commit_is_shown_when_all_partitions_have_it(clusters: TwoClusters) -> None:
    with stalled(clusters, B):
        commit_in_both(clusters.source, b"whole")
        eventually(lambda: ends(clusters.mirror, A)[0] == 5, "the marker is mirrored")
        produce(clusters.source, OTHER.topic, 4)
        eventually(lambda: ends(clusters.mirror, OTHER) == (7, 7), "a partition without transactions is shown")
        assert ends(clusters.mirror, A) == (5, 4)
        eventually(lambda: "waits for the marker of producer" in status(clusters, A), "the reason is shown")
    for spot in (A, B):
        eventually(lambda spot=spot: ends(clusters.mirror, spot) == (5, 5), f"{spot} is shown")
        assert shown(clusters.mirror, spot, committed_only=True)[3:] == [b"whole"]


def status(clusters: TwoClusters, spot: Spot) -> str:
    rows = json.loads(kpybroker(clusters, "status", "--json"))["partitions"]
    (found,) = (row for row in rows if (row["topic"], row["partition"]) == spot)
    assert found["is_whole"] is True
    reason: str = found["reason"]
    return reason


def test_a_failover_cuts_off_a_commit_that_one_partition_lacks(clusters: TwoClusters) -> None:
    commit_in_both(clusters.source, b"before")
    for spot in (A, B):
        eventually(lambda spot=spot: ends(clusters.mirror, spot) == (5, 5), f"{spot} is shown")
    with stalled(clusters, B):
        commit_in_both(clusters.source, b"torn")
        produce(clusters.source, A.topic, 2)
        eventually(lambda: ends(clusters.mirror, A)[0] == 9, "the marker is mirrored, and what follows it")
        report = json.loads(kpybroker(clusters, "failover", "dr", "--now", "--json"))
        cut = {row["topic"]: row["cut_records"] for row in report["partitions"]}
        assert cut == {A.topic: 3, B.topic: 0, OTHER.topic: 0}
        assert report["aborted_transactions"] == 1
        for spot in (A, B):
            assert shown(clusters.mirror, spot, committed_only=True)[3:] == [b"before"]
        produce(clusters.mirror, A.topic, 1)


def test_a_new_leader_shows_no_more_than_the_one_before(clusters: TwoClusters) -> None:
    with stalled(clusters, B):
        commit_in_both(clusters.source, b"whole")
        eventually(lambda: ends(clusters.mirror, A)[0] == 5, "the marker is mirrored")

        def lead_again() -> None:
            replica = clusters.mirror.node.broker.replicas.find(*A)
            replica.checkpointed_high_watermark = replica.held().high_watermark.offset
            replica.leader = None
            replica.led()

        clusters.mirror.call(lead_again)
        produce(clusters.source, OTHER.topic, 4)
        eventually(lambda: ends(clusters.mirror, OTHER) == (7, 7), "others go on")
        assert ends(clusters.mirror, A) == (5, 4)
    for spot in (A, B):
        eventually(lambda spot=spot: ends(clusters.mirror, spot) == (5, 5), f"{spot} is shown")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (error_codes.TOPIC_AUTHORIZATION_FAILED, "since the source does not let its user read __transaction_state"),
        (error_codes.UNSUPPORTED_VERSION, "since the source is older than Kafka 3.0 and does not list those"),
    ],
)
def test_a_mirror_of_a_source_that_hides_its_transactions_says_so_and_shows_all(
    tmp_path: Path, code: int, reason: str
) -> None:
    def look(*_: object, **__: object) -> None:
        raise KafkaError(code, "__transaction_state")

    with pytest.MonkeyPatch.context() as patch, two_clusters(tmp_path) as made:
        patch.setattr(source_transactions.StateTail, "look", look)
        for spot in (A, B):
            create(made.source, spot.topic)
        made.create_mirror("dr:h-*")

        def words() -> str:
            """The output of ``status``."""
            done = CliRunner().invoke(command, ["status", "--bootstrap-server", f"127.0.0.1:{made.mirror.port}"])
            return done.output

        eventually(lambda: reason in words(), "status says it")
        eventually(lambda: {"h-a", "h-b"} <= made.mirror.node.image.topics.keys(), "the topics are there")
        for spot in (A, B):
            made.wait_for(spot.topic)
        with stalled(made, B):
            commit_in_both(made.source, b"half")
            eventually(lambda: ends(made.mirror, A) == (2, 2), "all is shown")
        with client_of(made.mirror) as client:
            assert client.list_offsets({A: -1}) == {A: 2}


def test_a_mirror_that_was_stopped_fails_over_after_a_restart(tmp_path: Path) -> None:
    with two_clusters(tmp_path) as made:
        create(made.source, A.topic)
        create(made.source, B.topic)
        made.create_mirror("dr:h-*")
        eventually(lambda: len(known(made).places) == 2, "all partitions have a place")
        commit_in_both(made.source, b"whole")
        for spot in (A, B):
            eventually(lambda spot=spot: ends(made.mirror, spot) == (2, 2), f"{spot} is shown")
        kpybroker(made, "stop", "dr")
    again = start(tmp_path / "mirror")
    try:
        server = f"127.0.0.1:{again.port}"
        done = CliRunner().invoke(command, ["failover", "dr", "--now", "--bootstrap-server", server])
        assert done.exit_code == 0, done.output
        for spot in (A, B):
            assert shown(again, spot, committed_only=True) == [b"whole"]
        produce(again, A.topic, 1)
    finally:
        again.stop()
