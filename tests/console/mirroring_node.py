"""A console node that mirrors another one as ``dr``."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from console_node import ConsoleNode, console_node

from kpybroker.client import config_requests
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.machines.metadata.mirror_configs import MIRRORS
from kpywire.record import Record
from support.waiting import eventually


class MirroringNode(NamedTuple):
    """A source, and the node that mirrors it."""

    source: ConsoleNode
    node: ConsoleNode

    def mirror(self, topics: str) -> None:
        """Have the mirror ``dr`` of these topics; none without any."""
        value = f"dr:{topics}" if topics else None
        change = ConfigChange(ConfigOperation.SET if topics else ConfigOperation.DELETE, MIRRORS, value)
        with Client(f"127.0.0.1:{self.node.node.ports['PLAINTEXT']}") as client:
            config_requests.alter(client, ConfigResource(ConfigResourceType.BROKER, ""), [change])

    def has(self, topic: str, records: int, partition: int = 0) -> bool:
        """Whether the mirror has all records of a partition."""
        broker = self.node.node.broker
        held = None if broker is None else broker.replicas.topics.get(topic)
        replica = None if held is None else held.replicas.get(partition)
        role = None if replica is None else replica.role
        return role is not None and role.high_watermark.offset == records


@contextmanager
def mirroring_node(
    directory: Path, around: AbstractContextManager[object] | None = None, **settings: str
) -> Iterator[MirroringNode]:
    """Both nodes. The file of the source is in a directory; the mirroring node runs within ``around``."""
    with console_node(kpybroker_history_enable="false") as source:
        port = source.node.ports["PLAINTEXT"]
        (directory / "dr.properties").write_text(f"bootstrap.servers=127.0.0.1:{port}\n")
        with around or nullcontext(), console_node(kpybroker_mirror_directory=str(directory), **settings) as node:
            yield MirroringNode(source, node)


def furnished(mirroring: MirroringNode) -> None:
    """Mirror a topic with records and a group."""
    source = mirroring.source
    source.create("orders", 2)
    for partition, count in ((0, 30), (1, 10)):
        source.produce("orders", [Record(timestamp=1_000, value=b"v")] * count, partition)
    source.commit("shipping", "orders", 12)
    mirroring.mirror("orders*")
    eventually(lambda: mirroring.has("orders", 30) and mirroring.has("orders", 10, 1), "the mirror has all", 60)
    eventually(lambda: mirroring.node.get("/api/mirrors").json["groups"], "the group is carried over", 60)
