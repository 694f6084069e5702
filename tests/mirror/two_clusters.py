"""Two nodes, a source and the cluster that mirrors it, and the batches of their logs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kpybroker.client import config_requests
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.machines.metadata.mirror_configs import MIRRORS
from kpywire.batch import LENGTH_END, parse_header
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start


def batches(node: RunningNode, topic: str, partition: int) -> list[bytes]:
    """The batches of a partition's log, byte for byte."""

    def read() -> list[bytes]:
        replica = node.node.broker.replicas.find(topic, partition)
        log = replica.held().log
        found, offset = [], log.log_start_offset
        while offset < log.end.offset:
            piece = log.read(offset, 1 << 20, log.end, min_one_batch=True)
            data = piece.read() if hasattr(piece, "read") else bytes(piece)
            position = 0
            while position < len(data):
                header = parse_header(data, position)
                end = position + header.batch_length + LENGTH_END
                found.append(bytes(data[position:end]))
                offset, position = header.next_offset, end
        return found

    return node.call(read)


class TwoClusters(NamedTuple):
    """A source and its mirror."""

    source: RunningNode
    mirror: RunningNode
    source_file: str
    """The client properties of the source."""

    def create_mirror(self, entries: str) -> None:
        """Set ``kpybroker.mirrors`` for all brokers of the mirror."""
        change = ConfigChange(ConfigOperation.SET, MIRRORS, entries)
        with client_of(self.mirror) as client:
            config_requests.alter(client, ConfigResource(ConfigResourceType.BROKER, ""), [change])

    def wait_for(self, topic: str, partition: int = 0) -> None:
        """Wait until the mirror has all of a partition."""

        def is_equal() -> bool:
            def state(node: RunningNode) -> tuple[int, int, int] | None:
                held = node.node.broker.replicas.topics.get(topic)
                replica = None if held is None else held.replicas.get(partition)
                if replica is None:
                    return None
                role = replica.held()
                return role.log.log_start_offset, role.log.end.offset, role.high_watermark.offset

            found = self.source.call(lambda: state(self.source))
            return found is not None and found == self.mirror.call(lambda: state(self.mirror))

        eventually(is_equal, f"{topic}-{partition} of both clusters is equal")


def client_of(node: RunningNode) -> Client:
    return Client(f"127.0.0.1:{node.port}")


@contextmanager
def two_clusters(
    directory: Path, settings: Mapping[str, str] = {}, of_mirror: Mapping[str, str] = {}
) -> Iterator[TwoClusters]:
    """A source with these settings, and a cluster that can mirror it as ``dr``, with its own ones."""
    source = RunningNode({"log.dirs": str(directory / "source"), **settings})
    try:
        sources = directory / "sources"
        sources.mkdir()
        (sources / "dr.properties").write_text(f"bootstrap.servers=127.0.0.1:{source.port}\n")
        mirror = start(directory / "mirror", **{"kpybroker.mirror.directory": str(sources), **of_mirror})
        try:
            yield TwoClusters(source, mirror, str(sources / "dr.properties"))
        finally:
            mirror.stop()
    finally:
        source.stop()
