"""A fork for a rehearsal: its topics are writable, the mirror goes on, and no file of the original ever changes."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from two_clusters import TwoClusters, batches, client_of, two_clusters

from kpybroker.cli.mirror import command
from kpybroker.client import group_requests, offset_requests, topic_requests
from kpybroker.client.client import Spot
from kpybroker.config.properties import read_properties
from oracle.process import free_port
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.test_mirror_node import create, kpybroker, produce, producer, values

SMALL_SEGMENTS = {"segment_bytes": str(1 << 20)}
QUICK = {"log.cleaner.backoff.ms": "100", "log.retention.check.interval.ms": "100", "file.delete.delay.ms": "100"}
LARGE = 100_000
"""The bytes of a record of which ten fill a segment."""


@pytest.fixture
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    with two_clusters(tmp_path_factory.mktemp("rehearsal")) as made:
        made.create_mirror("dr:m-*")
        yield made


def log_directory(clusters: TwoClusters) -> Path:
    return Path(clusters.mirror.node.config.log_dirs[0])


def free_pair() -> int:
    """A free port below another free one."""
    while True:
        first = free_port()
        with socket.socket() as following:
            try:
                following.bind(("127.0.0.1", first + 1))
            except OSError:
                continue
            return first


def rehearse(clusters: TwoClusters, directory: Path) -> Path:
    """The log directory of a fork."""
    logs = str(log_directory(clusters))
    arguments = ["rehearse", "dr", "--directory", str(directory), "--log-dirs", logs, "--port", str(free_pair())]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "kpybroker start" in done.output
    return directory / "logs-1"


def started(fork: Path, **settings: str) -> RunningNode:
    """A node on a fork, as its file of properties describes it."""
    described = {name: each.value for name, each in read_properties(fork.parent / "fork.properties").items()}
    return RunningNode({**described, **QUICK, "kpybroker.http.listener": "127.0.0.1:0", **settings})


def segments(path: Path) -> dict[str, str]:
    """The names and the contents of all closed segments of mirrored topics below a log directory."""
    found = {}
    for directory in sorted(path.glob("m-*")):
        for file in sorted(directory.glob("*.log"))[:-1]:
            found[f"{directory.name}/{file.name}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def produce_large(node: RunningNode, topic: str, count: int) -> None:
    made = producer(node)
    for number in range(count):
        made.produce(topic, key=b"%d" % (number % 7), value=b"%04d" % number * (LARGE // 4), partition=0)
        made.poll(0)
    assert made.flush(30) == 0


def is_replaced(fork: Path, before: dict[str, str], topic: str) -> bool:
    """Whether a segment of a topic is not in a fork any more, or has another content."""
    after = segments(fork)
    return any(after.get(name) != content for name, content in before.items() if name.startswith(topic))


def test_a_fork_is_written_cleaned_and_deleted_and_the_original_keeps_its_bytes(
    clusters: TwoClusters, tmp_path: Path
) -> None:
    create(clusters.source, "m-written", **SMALL_SEGMENTS)
    create(clusters.source, "m-cleaned", cleanup_policy="compact", **SMALL_SEGMENTS)
    create(clusters.source, "m-deleted", **SMALL_SEGMENTS)
    names = ("m-written", "m-cleaned", "m-deleted")
    for name in names:
        produce_large(clusters.source, name, 40)
    for name in names:
        clusters.wait_for(name)
    before, contents = segments(log_directory(clusters)), {name: batches(clusters.mirror, name, 0) for name in names}
    assert len(before) >= 9
    fork = rehearse(clusters, tmp_path / "fork")
    shared = [file for file in before if (fork / file).stat().st_nlink == 2]
    assert sorted(shared) == sorted(before), "closed segments are hard links"
    node = started(fork)
    try:
        assert values(node, "m-written") == values(clusters.mirror, "m-written")
        produce_large(node, "m-written", 25)
        assert len(values(node, "m-written")) == 65
        with client_of(node) as client:
            topic_requests.alter_configs(client, "m-cleaned", {"min.cleanable.dirty.ratio": "0.01"})
            offset_requests.delete_records(client, {Spot("m-written", 0): 15})
            topic_requests.delete(client, "m-deleted")
        produce_large(node, "m-cleaned", 25)
        eventually(lambda: not (fork / "m-deleted-0").exists(), "the topic is deleted")
        eventually(lambda: is_replaced(fork, before, "m-cleaned"), "the topic is cleaned")
        eventually(lambda: is_replaced(fork, before, "m-written"), "records are deleted")
        produce(clusters.source, "m-written", 10)
        clusters.wait_for("m-written")
    finally:
        node.stop()
    after = segments(log_directory(clusters))
    assert {name: after[name] for name in before} == before
    for name in names:
        assert batches(clusters.mirror, name, 0)[: len(contents[name])] == contents[name]


def test_a_fork_is_another_cluster_and_the_mirror_goes_on_meanwhile(clusters: TwoClusters, tmp_path: Path) -> None:
    create(clusters.source, "m-apart")
    produce(clusters.source, "m-apart", 5)
    clusters.wait_for("m-apart")
    node = started(rehearse(clusters, tmp_path / "fork"))
    try:
        produce(node, "m-apart", 3)
        produce(clusters.source, "m-apart", 4)
        clusters.wait_for("m-apart")
        assert len(values(clusters.mirror, "m-apart")) == 9
        assert len(values(node, "m-apart")) == 8
        assert node.node.image.cluster_id != clusters.mirror.node.image.cluster_id
        assert node.node.broker.mirrors is None
        assert kpybroker(clusters, "status").count("m-apart") == 1
    finally:
        node.stop()


def test_transactions_that_are_open_in_the_mirror_are_aborted_in_a_fork(clusters: TwoClusters, tmp_path: Path) -> None:
    create(clusters.source, "m-open")
    produce(clusters.source, "m-open", 2)
    writer = producer(clusters.source, transactional_id="open")
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce("m-open", b"open", partition=0)
    writer.flush(30)
    clusters.wait_for("m-open")
    node = started(rehearse(clusters, tmp_path / "fork"))
    try:
        produce(node, "m-open", 1)
        assert values(node, "m-open", isolation_level="read_committed") == [b"value 0", b"value 1", b"value 0"]
    finally:
        node.stop()
    writer.commit_transaction(30)
    clusters.wait_for("m-open")
    assert len(values(clusters.mirror, "m-open", isolation_level="read_committed")) == 3


def test_groups_of_a_fork_are_where_the_mirror_has_them(clusters: TwoClusters, tmp_path: Path) -> None:
    create(clusters.source, "m-groups")
    produce(clusters.source, "m-groups", 6)
    with client_of(clusters.source) as client:
        group_requests.commit(client, "workers", {Spot("m-groups", 0): 4})
    clusters.wait_for("m-groups")

    def offset(node: RunningNode) -> int:
        with client_of(node) as client:
            return group_requests.committed(client, "workers").get(Spot("m-groups", 0), (-1,))[0]

    eventually(lambda: offset(clusters.mirror) == 4, "the group is carried over")
    node = started(rehearse(clusters, tmp_path / "fork"))
    try:
        eventually(lambda: offset(node) == 4, "the group is in the fork")
    finally:
        node.stop()


def test_a_fork_needs_an_empty_directory_and_a_mirror(clusters: TwoClusters, tmp_path: Path) -> None:
    create(clusters.source, "m-any")
    clusters.wait_for("m-any")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    logs = str(log_directory(clusters))
    refused = CliRunner().invoke(command, ["rehearse", "dr", "--directory", str(tmp_path / "full"), "--log-dirs", logs])
    assert refused.exit_code == 1
    assert "is not empty" in refused.output
    unknown = CliRunner().invoke(
        command, ["rehearse", "other", "--directory", str(tmp_path / "fork"), "--log-dirs", logs]
    )
    assert "no topic of a mirror other" in unknown.output


def test_the_log_directories_of_the_only_broker_on_this_machine_are_forked_by_default(
    clusters: TwoClusters, tmp_path: Path
) -> None:
    create(clusters.source, "m-default")
    clusters.wait_for("m-default")
    output = kpybroker(clusters, "rehearse", "dr", "--directory", str(tmp_path / "fork"))
    assert "Forked " in output
    assert (tmp_path / "fork" / "logs-1" / "m-default-0").is_dir()


@pytest.mark.parametrize("log_dirs", ["/no/such/directory", "/tmp"])
def test_directories_that_are_no_log_directories_are_one_line(tmp_path: Path, log_dirs: str) -> None:
    arguments = ["rehearse", "dr", "--directory", str(tmp_path / "fork"), "--log-dirs", log_dirs]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 1
    assert done.output.startswith("Error: no metadata log in ")
    assert done.output.count("\n") == 1
