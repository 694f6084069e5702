"""The controller's machine alone, with the metadata of a large cluster from a snapshot: its CPU time and memory.

Runs in a process of its own, so that its memory is that of the metadata. ``python -m tests.scale.machine FILE`` reads
the snapshot that ``python -m tests.scale.machine FILE 300 1000000`` wrote. No broker takes part.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from time import thread_time_ns
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.quorum.snapshotting import snapshot_batches
from kpybroker.machines.controller import brokers, partitions
from kpybroker.machines.controller.state import ControllerState, StaticSettings
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.image_records import record_version
from kpybroker.machines.metadata.loader import MetadataLoader
from kpybroker.machines.metadata.metadata_version import LATEST
from kpybroker.machines.raft.voters import VoterHistory
from kpywire.batch import batch_headers
from kpywire.metadata_records import decode_record, encode_record
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.record import read_batch

from .cold import MIB, bytes_by_class, resident_bytes
from .controllers import CLUSTER_ID

PER_TOPIC = 10
RACKS = 3


def records_of(nodes: int, count: int, rng: Random) -> Iterator[Any]:
    """The records of a cluster: brokers in racks, and partitions with a replica in each rack."""
    yield FeatureLevelRecord(name="metadata.version", feature_level=LATEST)
    for broker_id in range(1, nodes + 1):
        yield RegisterBrokerRecord(
            broker_id=broker_id,
            broker_epoch=broker_id,
            incarnation_id=broker_id.to_bytes(16, "big"),
            rack=f"rack-{broker_id % RACKS}",
            end_points=[],
            features=[],
            log_dirs=[_directory(broker_id)],
            fenced=False,
        )
    racks = [[each for each in range(1, nodes + 1) if each % RACKS == number] for number in range(RACKS)]
    for number in range(count):
        topic_id = (number // PER_TOPIC + 1_000).to_bytes(16, "big")
        if not number % PER_TOPIC:
            yield TopicRecord(name=f"topic-{number // PER_TOPIC}", topic_id=topic_id)
        replicas = [rng.choice(rack) for rack in rng.sample(racks, RACKS)]
        yield PartitionRecord(
            partition_id=number % PER_TOPIC,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            directories=[_directory(each) for each in replicas],
        )


def _directory(broker_id: int) -> bytes:
    return (0xB0 << 120 | broker_id).to_bytes(16, "big")


class Stopwatch:
    """CPU time of steps, in milliseconds by name."""

    def __init__(self) -> None:
        self.figures: dict[str, Any] = {}

    def take(self, name: str, work: Callable[[], Any]) -> Any:
        """Do one step."""
        began_ns = thread_time_ns()
        found = work()
        self.figures[name] = (thread_time_ns() - began_ns) / 1e6
        return found

    def take_steps(self, name: str, steps: Iterator[Any]) -> list[Any]:
        """Do steps, and note the longest one too."""
        found, longest_ns, began_ns = [], 0, thread_time_ns()
        since_ns = began_ns
        for each in steps:
            found.append(each)
            now_ns = thread_time_ns()
            longest_ns, since_ns = max(longest_ns, now_ns - since_ns), now_ns
        self.figures[name] = (thread_time_ns() - began_ns) / 1e6
        self.figures[f"{name}, longest step"] = longest_ns / 1e6
        return found


def write(nodes: int, count: int, file: Path) -> None:
    """Write a snapshot of such a cluster."""
    gc.disable()
    image = MetadataImage(CLUSTER_ID)
    for record in records_of(nodes, count, Random(39)):
        image.apply(record, 0, MetadataDelta(0))
    with file.open("wb") as written:
        written.writelines(snapshot_batches(image, VoterHistory(()), 0, 0))


def main(file: Path) -> None:
    """Print the figures as JSON."""
    gc.disable()  # a node's collector never walks what stays (`kpybroker.runtime.io.collector`)
    watch, history = Stopwatch(), VoterHistory(())
    before_bytes = resident_bytes()
    published = MetadataLoader(MetadataImage(CLUSTER_ID))
    snapshot_bytes = watch.take("snapshot read", lambda: _read(published, file))
    one_image_bytes = resident_bytes()
    rules = BrokerConfigRules(BrokerConfig.load())
    settings = StaticSettings(0)
    image = published.image
    state = watch.take("takes over: state of a new reign", lambda: _state(image, settings, rules))
    watch.take_steps("takes over: index, in steps", state.index.steps())
    both_bytes = resident_bytes()
    broker = image.brokers[7]
    records = watch.take("one broker lost: decision", lambda: brokers.fence(state, broker))
    encoded = watch.take("one broker lost: encoding", lambda: [_encoded(each) for each in records])
    watch.take("one broker lost: applied to the state", lambda: [state.apply(each, 0) for each in records])
    delta = MetadataDelta(0)
    watch.take("one broker lost: applied to the image", lambda: [image.apply(each, 0, delta) for each in records])
    watch.take("does a broker lead: asked by each heartbeat of a shutdown", lambda: state.index.leads_any(8))
    watch.take("preferred leaders elected", lambda: partitions.elect_preferred_leaders(state, 1_000))
    watch.take("snapshot: the copy", image.copy)
    written = snapshot_batches(image.copy(), history, 0, 0)
    watch.take_steps("snapshot: encoded", written)
    sizes = bytes_by_class(image, state.image, state.index).most_common(6)
    figures = {
        **watch.figures,
        "one broker lost: records": len(records),
        "one broker lost: bytes": sum(map(len, encoded)),
        "snapshot: bytes": snapshot_bytes,
        "memory of one image, MiB": (one_image_bytes - before_bytes) / MIB,
        "memory with the controller's state, MiB": (both_bytes - before_bytes) / MIB,
        "by class, MiB": {name: size / MIB for name, size in sizes},
    }
    print(json.dumps(figures))


def _read(loader: MetadataLoader, file: Path) -> int:
    """Load a snapshot as a node does at its start. Returns its size."""
    data = file.read_bytes()
    for position, header in batch_headers(data):
        if not header.is_control:
            batch = data[position : position + header.size]
            records = [decode_record(record.value or b"") for record in read_batch(batch, header)]
            loader.load_snapshot(records, header.next_offset, 1)
    loader.publish(loader.image.next_offset)
    return len(data)


def _state(image: MetadataImage, settings: StaticSettings, rules: BrokerConfigRules) -> ControllerState:
    return ControllerState(image.copy(), settings, rules, Random(1), lambda: 0, _NoQuorum(), 0)


def _encoded(record: Any) -> bytes:
    return encode_record(record, record_version(record, LATEST))


class _NoQuorum:
    """``kraft.version`` without a quorum."""

    level = 1

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """Nothing is upgraded."""


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]))
