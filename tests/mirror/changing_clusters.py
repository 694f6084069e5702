"""Two nodes of which each may mirror the other: the source and the mirror change places."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from kpybroker.cli.mirror import command
from support.waiting import eventually
from tests.broker.running_node import RunningNode, start


class Side(NamedTuple):
    """A node, and the file by which others reach it as a source."""

    node: RunningNode
    file: str

    def run(self, *arguments: str, code: int = 0) -> str:
        """The output of ``kpybroker mirror`` against this side."""
        done = CliRunner().invoke(command, [*arguments, "--bootstrap-server", f"127.0.0.1:{self.node.port}"])
        assert done.exit_code == code, done.output
        return done.output

    def state(self, topic: str, partition: int = 0) -> tuple[int, int, int] | None:
        """The log start, log end and high watermark of a partition; None without it."""

        def read() -> tuple[int, int, int] | None:
            held = self.node.node.broker.replicas.topics.get(topic)
            replica = None if held is None else held.replicas.get(partition)
            if replica is None:
                return None
            role = replica.held()
            return role.log.log_start_offset, role.log.end.offset, role.high_watermark.offset

        found: tuple[int, int, int] | None = self.node.call(read)
        return found

    def leader_epoch(self, topic: str, partition: int = 0) -> int:
        """The leader epoch of a partition."""
        found: int = self.node.call(lambda: self.node.node.image.topics[topic].partitions[partition].leader_epoch)
        return found

    def configs(self, topic: str) -> dict[str, Any]:
        """The configs that are set on a topic."""
        found: dict[str, Any] = self.node.call(lambda: dict(self.node.node.image.configs_of(2, topic)))
        return found


class ChangingClusters(NamedTuple):
    """Cluster a, in which the topics began, and cluster b. Each knows the other as the source of ``dr``."""

    a: Side
    b: Side

    def wait_for(self, topic: str, partition: int = 0) -> None:
        """Wait until a partition has the same bounds on both sides."""

        def is_equal() -> bool:
            found = self.a.state(topic, partition)
            return found is not None and found == self.b.state(topic, partition)

        eventually(is_equal, f"{topic}-{partition} of both clusters is equal")


@contextmanager
def changing_clusters(directory: Path) -> Iterator[ChangingClusters]:
    """Both clusters, without mirrors."""
    sides: list[Side] = []
    try:
        for name, other in (("a", "b"), ("b", "a")):
            (directory / f"to-{other}").mkdir()
            made = start(directory / name, **{"kpybroker.mirror.directory": str(directory / f"to-{other}")})
            sides.append(Side(made, str(directory / f"to-{name}" / "dr.properties")))
        for side in sides:
            Path(side.file).write_text(f"bootstrap.servers=127.0.0.1:{side.node.port}\n")
        yield ChangingClusters(*sides)
    finally:
        for side in sides:
            side.node.stop()
