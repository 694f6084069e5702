"""Tiered nodes with their stores in each form, and topics of which the disk has the end alone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.request import urlopen

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from running_node import RunningNode

from kpybroker.machines.scan.options import ScanOptions, read_options
from kpybroker.machines.scan.ranges import OffsetRange
from kpystorage import names
from kpystorage.checkpoint import parse_epochs
from kpywire import error_codes
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.raw_requests import now_ms, offset_at
from support.raw_transactions import Transactional, find_coordinator, produce_records
from support.waiting import eventually
from tiered.filling import STEP_MS, append, create_tiered, fill

SEGMENTS = 6
RECORDS = 2 * SEGMENTS
EARLIEST_LOCAL, LATEST_TIERED = -4, -5
LOCAL_TIERED = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
SETTINGS = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "100",
    "log_retention_check_interval_ms": "100",
    "log_initial_task_delay_ms": "100",
    "transaction_state_log_num_partitions": "1",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "3",
}
Store = dict[str, str]


def plain(directory: Path) -> Store:
    return {"kpybroker.remote.store": directory.as_uri()}


def compressed(directory: Path) -> Store:
    return {**plain(directory), "rsm.config.compression.enabled": "true", "rsm.config.chunk.size": "300"}


def encrypted(directory: Path) -> Store:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public, private = directory / "public.pem", directory / "private.pem"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    unprotected = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *unprotected))
    pair = "rsm.config.encryption.key.pairs"
    return {
        **compressed(directory),
        "rsm.config.encryption.enabled": "true",
        "rsm.config.encryption.key.pair.id": "Key1",
        pair: "Key1",
        f"{pair}.Key1.public.key.file": str(public),
        f"{pair}.Key1.private.key.file": str(private),
    }


def local_tiered(directory: Path) -> Store:
    return {"remote.log.storage.manager.class.name": LOCAL_TIERED, "rsm.config.dir": str(directory)}


class Tier:
    """A node, its store, and the options by which scans read it."""

    def __init__(self, directory: Path, store: Store) -> None:
        self.store = store
        self.directory = directory
        self.node = self._started()

    def _started(self) -> RunningNode:
        named = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
        settings = {key.replace("_", "."): value for key, value in named.items()}
        return RunningNode({"log.dirs": str(self.directory / "data"), **settings, **self.store})

    def restart(self) -> None:
        self.node.stop()
        self.node = self._started()

    @contextmanager
    def raw(self) -> Iterator[RawClient]:
        with RawClient(self.node.port) as client:
            yield client

    def border(self, topic: str) -> int:
        with self.raw() as raw:
            return offset_at(raw, topic, EARLIEST_LOCAL)[2]

    def end(self, topic: str) -> int:
        with self.raw() as raw:
            return offset_at(raw, topic, -1)[2]

    def epochs(self, topic: str) -> list[tuple[int, int]]:
        """The history on the disk."""
        path = self.directory / "data" / f"{topic}-0" / names.LEADER_EPOCHS
        return parse_epochs(path.read_bytes(), str(path))

    def until_tiered(self, topic: str, border: int) -> None:
        eventually(lambda: self.border(topic) >= border, f"{topic} to be in the store up to {border}")

    def options(self, transport: str, *, committed: bool = False, **given: str) -> ScanOptions:
        return read_options(
            {
                "kafka.bootstrap.servers": f"127.0.0.1:{self.node.port}",
                "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
                "subscribe": "t",
                "transport": transport,
                "secondPorts": f"http://127.0.0.1:{self.node.node.http_port}",
                **({} if transport == "fetch" else self.store),
                **given,
            }
        )

    def part(self, topic: str, start: int, end: int) -> OffsetRange:
        return OffsetRange(topic, self.node.node.image.topics[topic].id, 0, start, end)

    def fetches(self) -> float:
        """The requests of Fetch that the node has answered."""
        return self._counted(r'kafka_network_requestmetrics_requests_total\{[^}]*"Fetch"[^}]*\}')

    def fetches_of(self, topic: str) -> float:
        """The partitions of a topic that answers to Fetch were about."""
        return self._counted(rf'kafka_server_brokertopicmetrics_totalfetchrequests_total\{{[^}}]*"{topic}"[^}}]*\}}')

    def _counted(self, name: str) -> float:
        with urlopen(f"http://127.0.0.1:{self.node.node.http_port}/metrics") as answer:
            text = answer.read().decode()
        return sum(float(found) for found in re.findall(rf"^{name} (\S+)", text, re.MULTILINE))


@contextmanager
def tier_in(directory: Path, store: Store) -> Iterator[Tier]:
    found = Tier(directory, store)
    try:
        yield found
    finally:
        found.node.stop()


def fill_randomly(raw: RawClient, topic: str, rng: Random, first: int, count: int) -> None:
    """Batches of several producers, in and out of transactions of which some are aborted; each begins a segment, or
    goes on with the last one."""
    producers = [Transactional(raw, f"{topic}-{first}-{each}") for each in range(3)]
    opened: set[int] = set()
    start_ms = now_ms()
    for producer in producers:
        find_coordinator(raw, producer.id)
        assert producer.init().error_code == error_codes.NONE
    number = first
    for _ in range(count):
        number += rng.random() < 0.6
        stamp, codec = start_ms + number * STEP_MS, rng.randrange(5)
        values = [rng.randbytes(40) * rng.randrange(20) for _ in range(rng.randrange(1, 4))]
        records = [Record(timestamp=stamp, key=b"%d" % number, value=value) for value in values]
        at = rng.randrange(4)
        if at == 3:
            append(raw, topic, build_batch(records, codec=codec))
            continue
        producer = producers[at]
        if at not in opened:
            assert producer.add((topic, 0)) == {error_codes.NONE}
            opened.add(at)
        sequence = producer.sequences.get((topic, 0), 0)
        data = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
            codec=codec,
        )
        producer.sequences[topic, 0] = sequence + len(records)
        assert produce_records(raw, topic, data, producer.id).error_code == error_codes.NONE
        if rng.random() < 0.5:
            assert producer.end(rng.random() < 0.5).error_code == error_codes.NONE
            opened.discard(at)
    for at in opened:
        assert producers[at].end(rng.random() < 0.5).error_code == error_codes.NONE


def filled(tier: Tier, topic: str = "t") -> OffsetRange:
    """A topic of which the disk has the last two records alone; the range of the others."""
    with tier.raw() as raw:
        create_tiered(raw, topic, only_remote=True)
        fill(raw, topic, range(SEGMENTS))
    tier.until_tiered(topic, RECORDS - 2)
    return tier.part(topic, 0, RECORDS - 2)
