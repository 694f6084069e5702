"""A node with a tiered topic that several programs have one after the other, and everything that may not change."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kpystorage.remote.local_tiered_storage import parse_path
from oracle import java
from support.clusters import Cluster
from support.raw_client import RawClient, connect
from support.special_timestamps import LATEST_TIERED
from support.waiting import eventually
from tiered.filling import create_tiered, fill, fill_transactions, time_of
from tiered.nodes import hand_over, store_of, tiered_cluster
from tiered.reading import Reading, offset, read
from tiered.store import StoredFile, of_topic, start_offsets, stored, torn

TOPIC: Final = "moved"
PLAIN, IN_TRANSACTIONS = PARTITIONS = range(2)
TIMES_MS: Final = tuple(time_of(number) for number in (0, 3, 5))
DUMPER: Final = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS: Final = ("Mismatches", "not found", "invalid bytes", "CORRUPT", "isvalid: false", "Exception")
DUMPED: Final = (".log", ".index", ".timeindex", ".txnindex")
SETTLE_S: Final = 120.0


class MovedNode:
    """One node, whose directory and store go from program to program."""

    def __init__(self, program: str, directory: Path, properties: dict[str, str] | None = None) -> None:
        self.store = store_of(directory)
        self.cluster: Cluster = tiered_cluster(program, directory, properties=properties)

    def __enter__(self) -> "MovedNode":
        self.cluster.__enter__()
        with self.client() as raw:
            create_tiered(raw, TOPIC, len(PARTITIONS), only_remote=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.end()

    def client(self) -> RawClient:
        return connect(self.cluster.bootstrap_servers)

    def move_to(self, program: str) -> None:
        """Let another program have the directory of the node, which has stopped."""
        hand_over(self.cluster, 1, program)
        self.cluster.start()

    def stop(self) -> None:
        self.cluster.stop()

    def kill(self) -> None:
        self.cluster.nodes[1].kill()

    def write(self, turn: int) -> None:
        """Six segments for one partition, and four transactions for the other."""
        with self.client() as raw:
            fill(raw, TOPIC, range(6 * turn, 6 * turn + 6))
            fill_transactions(raw, TOPIC, range(10 * turn, 10 * turn + 4), IN_TRANSACTIONS)

    def settle(self) -> None:
        """Wait until the disk has the active segments alone, and the store has all before them."""
        for partition in PARTITIONS:
            eventually(lambda partition=partition: self._is_settled(partition), self._state, SETTLE_S, every_s=0.1)  # type: ignore[misc]

    def _is_settled(self, partition: int) -> bool:
        with self.client() as raw:
            return self.local_starts(partition) == [offset(raw, TOPIC, LATEST_TIERED, partition) + 1]

    def _state(self) -> str:
        there = {each: (self.local_starts(each), start_offsets(self.store, TOPIC, each)) for each in PARTITIONS}
        return f"all but the last segments in the store alone; segments on the disk and in the store: {there}"

    def local_logs(self, partition: int) -> list[Path]:
        return sorted((self.cluster.nodes[1].data / f"{TOPIC}-{partition}").glob("*.log"))

    def local_starts(self, partition: int) -> list[int]:
        """The offsets at which the segments on the disk start."""
        return [int(each.stem) for each in self.local_logs(partition)]

    def readings(self) -> list[Reading]:
        return [self.reading(partition) for partition in PARTITIONS]

    def reading(self, partition: int) -> Reading:
        return read(self.cluster, TOPIC, partition, TIMES_MS)

    def objects(self) -> dict[str, StoredFile]:
        """The files of the topic in the store."""
        return of_topic(stored(self.store), TOPIC)

    def complaints(self) -> list[str]:
        """The lines of kafka-dump-log that complain, about what the disk and the store have of the topic. Copies that
        were killed are left out: Apache Kafka leaves them in the store."""
        left_out = {each.segment_id for each in torn(self.store, TOPIC)}
        with TemporaryDirectory(prefix="as-local-") as links:
            files = [each for partition in PARTITIONS for each in self.local_logs(partition)[0].parent.iterdir()]
            for path in self.objects():
                name = parse_path(path)
                if name is not None and name.segment.segment_id not in left_out:
                    files.append(linked(self.store / path, Path(links)))
            found = []
            for suffix in DUMPED:
                named = ",".join(str(each) for each in files if each.suffix == suffix and each.stat().st_size)
                if named:
                    done = java(DUMPER, "--deep-iteration", "--files", named)
                    lines = (done.stdout + done.stderr).splitlines()
                    found += [line for line in lines if any(each in line for each in COMPLAINTS)]
                    found += lines[-5:] if done.returncode else []
            return found


def linked(file: Path, links: Path) -> Path:
    """A link to a file of the store that has the name of a local segment's file, in a directory of its segment."""
    directory = links / file.stem
    directory.mkdir(exist_ok=True)
    link = directory / f"{file.name.partition('-')[0]}{file.suffix}"
    link.symlink_to(file)
    return link


def has_gone_on(before: Reading, after: Reading) -> bool:
    """Whether a partition is as before, but for what was written since."""
    batches, kept = len(before.batches), len(before.committed)
    return (
        after.start == before.start
        and after.batches[:batches] == before.batches
        and after.committed[:kept] == before.committed
        and after.by_time == before.by_time
    )
