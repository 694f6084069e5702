"""A broker for an asynchronous test: its life, topics, records and groups, its clock, faults and snapshots.

`kpybroker.testing.broker.Broker` is the blocking form of the same.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from kpybroker.testing import client_metrics, groups, shares
from kpybroker.testing.client import EARLIEST, LATEST, LazyConnection, raise_for
from kpybroker.testing.client_metrics import ClientMetrics
from kpybroker.testing.controls import AsyncClock, AsyncFaults
from kpybroker.testing.embedded import BrokerSettings, address, reachable
from kpybroker.testing.groups import Group, Spot
from kpybroker.testing.hosts import BrokerFailed, Host, InChildProcess, InThisLoop
from kpybroker.testing.records import Record, Records, as_record, by_partition, differences, in_order
from kpybroker.testing.shares import Offsets, Shared
from kpybroker.testing.snapshot import Snapshot
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record as WireRecord
from kpywire.record import build_batch, read_batch
from kpywire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from kpybroker.testing.security import Access, AsyncAccess, Security

TIMEOUT_S = 10.0
"""The longest time to wait for something, by the test's own clock."""
PAUSE_S = 0.01
ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 30_000
FETCH_BYTES = 1024 * 1024
"""Bytes fetched at a time: while records are decoded, the loop does nothing else."""
READ_COMMITTED = "read_committed"


class AsyncBroker:
    """A broker. ``async with AsyncBroker() as broker:`` runs it in this loop, in memory, on a free port.

    It is used directly only where `start` and `stop` are called by hand; otherwise see ``Broker``.
    """

    def __init__(  # noqa: PLR0913
        self,
        config: Mapping[str, object] | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        process: bool = False,
        snapshot: Snapshot | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        port: int = 0,
        security: "Security | None" = None,
    ) -> None:
        """``config`` are Kafka's broker configs; a ``directory`` keeps the data there; ``process`` runs it in a child.

        ``host`` is the address where it listens, ``advertised_host`` the one that clients are given if that differs.
        ``security``: users, certificates, ACLs and quotas.
        """
        self.host = host
        self.port = port
        self._advertised_host = advertised_host
        self._snapshot = snapshot
        texts = {name: _text(value) for name, value in (config or {}).items()}
        self._blocking_access: Access | None = None
        self._ports: dict[str, int] = {}
        protocols: tuple[str, ...] = ()
        if security is not None:
            from kpybroker.testing import security as secured  # takes longer to import than a broker to start

            self._blocking_access = secured.Access(
                security, advertised_host or reachable(host), lambda name: self._ports[name]
            )
            texts, protocols = {**self._blocking_access.config(), **texts}, secured.PROTOCOLS
        path = None if directory is None else os.fspath(directory)
        settings = BrokerSettings(texts, path, host, advertised_host, port, protocols)
        self._host: Host = InChildProcess(settings) if process else InThisLoop(settings)
        self.client = LazyConnection(reachable(host), lambda: self.port)
        self.clock = AsyncClock(self._host.command)
        self.faults = AsyncFaults(self._host.command)

    # Life

    async def start(self) -> "AsyncBroker":
        """Serve clients when this returns. Raises BrokerFailed with one line."""
        self.port = await self._host.start(self._snapshot)
        if self._blocking_access is not None:
            self._ports = await self._host.command("ports")
            await asyncio.to_thread(self._blocking_access.prepare)
        return self

    async def stop(self) -> None:
        """Stop cleanly. Data in memory is lost; a directory stays."""
        self.client.close()
        if self._blocking_access is not None:
            self._blocking_access.close()
        await self._host.stop()

    async def restart(self, *, clean: bool = True) -> None:
        """Stop and start again with the same data on the same port. If not ``clean``, it stops as if the process had
        died."""
        self.client.close()
        self.port = await self._host.command("restart", clean=clean)

    async def disconnect_clients(self) -> int:
        """Close every connection. Return how many there were."""
        return int(await self._host.command("cut"))

    async def __aenter__(self) -> "AsyncBroker":
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, for any client."""
        return address(self._advertised_host or reachable(self.host), self.port)

    async def servers_of(self, listener: str) -> str:
        """``host:port`` of one listener, where ``listeners`` names several. Raises BrokerFailed for an unknown name."""
        ports = await self._host.command("ports")
        if listener not in ports:
            raise BrokerFailed(f"there is no listener {listener!r}, but {', '.join(ports) or 'none'}")
        return address(self._advertised_host or reachable(self.host), ports[listener])

    @property
    def access(self) -> "AsyncAccess":
        """Users, certificates and tokens of a broker with ``security``. Raises BrokerFailed without it."""
        from kpybroker.testing.security import AsyncAccess

        return AsyncAccess(self.blocking_access)

    @property
    def blocking_access(self) -> "Access":
        """The same for other threads than that of the broker's loop."""
        if self._blocking_access is None:
            raise BrokerFailed("the broker has no security: start it as Broker(security=Security(...))")
        return self._blocking_access

    def forget_sockets(self) -> None:
        """Leave the sockets to the parent, in a forked child of this process."""
        self._host.forget_sockets()

    # Snapshots

    async def snapshot(self) -> Snapshot:
        """Everything in the broker at this moment."""
        return await self._host.snapshot()

    async def restore(self, snapshot: Snapshot) -> None:
        """Return to the state of the snapshot, on the same port. Clients reconnect; the clock does not go back."""
        self.client.close()
        self.port = await self._host.restore(snapshot)

    # Topics

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Create a topic, ready to be written. Return its name. Raises KafkaError."""
        configs = [CreatableTopicConfig(name=key, value=_text(value)) for key, value in (config or {}).items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=configs
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        (answer,) = (await self.client.call(request)).topics
        raise_for(answer.error_code, f"topic {name}", answer.error_message)
        return name

    async def compact_topic(self, name: str) -> None:
        """Compact a topic now, with everything that was written to it, however little of it is dirty.

        Deletion by time (``delete.retention.ms``) follows the broker's clock. BrokerFailed if the topic cannot be
        compacted.
        """
        line = await self._host.command("compact", topic=name)
        if line is not None:
            raise BrokerFailed(line)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=REQUEST_TIMEOUT_MS
        )
        (answer,) = (await self.client.call(request)).responses
        raise_for(answer.error_code, f"topic {name}", answer.error_message)

    async def topics(self) -> list[str]:
        """The names of all topics except Kafka's own."""
        return sorted(one.name or "" for one in await self.client.topics() if not one.is_internal)

    # Records

    async def produce(self, topic: str, *records: Any, partition: int | None = None) -> list[Record]:
        """Write records (values, pairs of key and value, mappings, `Record`) with acks=all. Return them as they were
        written.

        The topic is created if it does not exist. Raises KafkaError.
        """
        wanted = [as_record(record) for record in records]
        try:
            topic_id, known = await self.client.partitions(topic)
        except KafkaError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await self.create_topic(topic)
            topic_id, known = await self.client.partitions(topic)
        now_ms = await self.clock.now_ms() if any(record.timestamp_ms < 0 for record in wanted) else 0
        written = []
        for index, part in by_partition(wanted, len(known), partition).items():
            stamped = [one if one.timestamp_ms >= 0 else one._replace(timestamp_ms=now_ms) for one in part]
            offset = await self._append(topic, topic_id, index, stamped)
            written += [
                one._replace(topic=topic, partition=index, offset=offset + place) for place, one in enumerate(stamped)
            ]
        return written

    async def _append(self, topic: str, topic_id: bytes, index: int, records: Sequence[Record]) -> int:
        batch = build_batch(
            WireRecord(timestamp=one.timestamp_ms, key=one.key, value=one.value, headers=one.headers) for one in records
        )
        part = PartitionProduceData(index=index, records=batch)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])],
        )
        answer = (await self.client.call(request)).responses[0].partition_responses[0]
        raise_for(answer.error_code, f"partition {topic}-{index}", answer.error_message)
        offset: int = answer.base_offset
        return offset

    async def records(
        self, topic: str, *, partition: int | None = None, isolation: str = "read_uncommitted"
    ) -> Records:
        """Every record that is there now, partition by partition; none for a topic that does not exist.

        Raises KafkaError.
        """
        found, _ = await self._read(topic, {}, partition, isolation)
        return in_order(found)

    async def wait_for_records(
        self, topic: str, count: int, *, timeout_s: float = TIMEOUT_S, isolation: str = "read_uncommitted"
    ) -> Records:
        """All records, as soon as there are ``count``. AssertionError if that takes longer than ``timeout_s``."""
        __tracebackhide__ = True
        found: list[Record] = []
        positions: dict[int, int] = {}
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            more, positions = await self._read(topic, positions, None, isolation)
            found += more
            if len(found) >= count:
                return in_order(found)
            if asyncio.get_running_loop().time() > deadline:
                shown = differences([], found)[1:] if found else []
                raise AssertionError(
                    "\n".join([f"{len(found)} of {count} records came to {topic} in {timeout_s} s", *shown])
                )
            await asyncio.sleep(PAUSE_S)

    async def assert_records(
        self,
        topic: str,
        expected: Sequence[Any],
        *,
        ordered: bool = True,
        timeout_s: float = 0.0,
        isolation: str = "read_uncommitted",
    ) -> Records:
        """Assert that the topic holds exactly these records, at the latest after ``timeout_s`` seconds. Return what it
        holds.

        An expectation is a value, a pair of key and value, or a mapping of the fields that count.
        """
        __tracebackhide__ = True
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = await self.records(topic, isolation=isolation)
            lines = differences(expected, found, ordered=ordered)
            if not lines:
                return found
            if asyncio.get_running_loop().time() >= deadline:
                if not found and not await self._exists(topic):
                    lines.append("there is no such topic")
                raise AssertionError("\n".join([f"topic {topic}: {lines[0]}", *lines[1:]]))
            await asyncio.sleep(PAUSE_S)

    async def _exists(self, topic: str) -> bool:
        try:
            await self.client.partitions(topic)
        except KafkaError as error:
            return error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION
        return True

    async def _read(
        self, topic: str, positions: Mapping[int, int], partition: int | None, isolation: str
    ) -> tuple[list[Record], dict[int, int]]:
        """The records from ``positions`` up to the present end, and the positions of that end."""
        try:
            topic_id, known = await self.client.partitions(topic)
        except KafkaError as error:
            if error.code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                return [], dict(positions)
            raise
        wanted = known if partition is None else [partition]
        starts = await self.client.retrying(lambda: self.client.offsets(topic, wanted, EARLIEST))
        ends = await self.client.retrying(lambda: self.client.offsets(topic, wanted, LATEST))
        found: list[Record] = []
        reached = dict(positions)
        for index in wanted:
            start = max(starts[index], positions.get(index, 0))
            reached[index] = await self._read_partition(topic, topic_id, (index, start, ends[index]), isolation, found)
        return found, reached

    async def _read_partition(
        self, topic: str, topic_id: bytes, part: tuple[int, int, int], isolation: str, found: list[Record]
    ) -> int:
        index, position, end = part
        while position < end:
            asked = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=FETCH_BYTES,
                isolation_level=int(isolation == READ_COMMITTED),
                topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])],
            )
            response = await self.client.call(request)
            raise_for(response.error_code, f"topic {topic}")
            answer = response.responses[0].partitions[0]
            raise_for(answer.error_code, f"partition {topic}-{index}")
            before = position
            aborting: set[int] = set()
            aborted = sorted(answer.aborted_transactions or (), key=lambda one: one.first_offset, reverse=True)
            for place, header in batch_headers(answer.records or b""):
                position = header.next_offset
                while aborted and aborted[-1].first_offset <= header.base_offset:
                    aborting.add(aborted.pop().producer_id)
                if header.is_control:
                    aborting.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborting):
                    batch = read_batch(answer.records, header, place)
                    found += [_as_found(topic, index, record) for record in batch if record.offset >= before]
            if position == before:
                break
        return position

    # Groups

    async def group(self, group_id: str) -> Group:
        """The members of a group and the partitions that each reads. An unknown group is Dead. Raises KafkaError."""
        return await groups.describe(self.client, group_id)

    async def wait_for_group_stable(
        self, group_id: str, *, members: int | None = None, topics: Iterable[str] = (), timeout_s: float = 3 * TIMEOUT_S
    ) -> Group:
        """The group once it is Stable, has this many ``members``, and each partition of ``topics`` is read by a member.

        AssertionError if that takes longer than ``timeout_s``.
        """
        __tracebackhide__ = True
        spots = {(topic, index) for topic in topics for index in (await self.client.partitions(topic))[1]}
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            group = await self.group(group_id)
            if group.is_stable and members in (None, len(group.members)) and spots <= group.owners.keys():
                return group
            if asyncio.get_running_loop().time() > deadline:
                wanted = "" if members is None else f" with {members} members"
                unread = ", ".join(f"{topic}-{index}" for topic, index in sorted(spots - group.owners.keys()))
                unread = f"; nobody reads {unread}" if unread else ""
                raise AssertionError(f"after {timeout_s} s not Stable{wanted}{unread}: {group}")
            await asyncio.sleep(PAUSE_S)

    async def committed(self, group_id: str) -> dict[Spot, int]:
        """The offsets that a group has committed, by topic and partition. Raises KafkaError."""
        return await groups.committed(self.client, group_id)

    async def lag(self, group_id: str) -> dict[Spot, int]:
        """The number of offsets behind each commit of a group, or of records that a share group is not done with.

        Raises KafkaError.
        """
        return await shares.lag(self.client, group_id) or await groups.lag(self.client, group_id)

    async def assert_committed(
        self, group_id: str, expected: Mapping[Spot, int | None], *, timeout_s: float = TIMEOUT_S
    ) -> dict[Spot, int]:
        """Assert that the group has committed exactly this, at the latest after ``timeout_s`` seconds. Return what it
        has committed."""
        __tracebackhide__ = True
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = await self.committed(group_id)
            lines = groups.differences(expected, found)
            if not lines:
                return found
            if asyncio.get_running_loop().time() >= deadline:
                raise AssertionError("\n".join([f"group {group_id}: {lines[0]}", *lines[1:]]))
            await asyncio.sleep(PAUSE_S)

    async def shared(self, group_id: str) -> Shared:
        """The records of a share group: accepted, released, archived, and its lag. Raises KafkaError."""
        names = {topic.topic_id: topic.name or "" for topic in await self.client.topics()}
        found = shares.fates(await self.records(SHARE_GROUP_STATE_TOPIC), group_id, names)
        return found._replace(lag=await shares.lag(self.client, group_id))

    async def assert_shared(
        self,
        group_id: str,
        *,
        accepted: Offsets | None = None,
        released: Offsets | None = None,
        archived: Offsets | None = None,
        lag: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Shared:
        """Assert that a share group has accepted exactly these offsets, released those, and so on, at the latest after
        ``timeout_s`` seconds. Return the fates of all its records. A fate that is not named is not checked."""
        __tracebackhide__ = True
        wanted = {"accepted": accepted, "released": released, "archived": archived}
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = await self.shared(group_id)
            lines = shares.differences(wanted, found, lag)
            if not lines:
                return found
            if asyncio.get_running_loop().time() >= deadline:
                raise AssertionError("\n".join([f"share group {group_id} is not as expected:", *lines]))
            await asyncio.sleep(PAUSE_S)

    # Client metrics

    async def subscribe_to_client_metrics(self, *metrics: str, interval_ms: int = 100) -> None:
        """Ask all clients for the metrics whose names begin so, or for all; they push every ``interval_ms``
        (KIP-714). Clients that are connected already hear of it when their interval is over, so subscribe first.
        Raises KafkaError."""
        (answer,) = (await self.client.call(client_metrics.subscription(metrics, interval_ms))).responses
        raise_for(answer.error_code, "the subscription to client metrics", answer.error_message)

    async def client_metrics(self, client_id: str | None = None) -> list[ClientMetrics]:
        """The metrics that each client has pushed, or those of the clients with this id."""
        found = [client_metrics.as_found(each) for each in await self._host.command("client_metrics")]
        return [each for each in found if client_id in (None, each.client_id)]

    async def wait_for_client_metrics(self, client_id: str, *names: str, timeout_s: float = TIMEOUT_S) -> ClientMetrics:
        """The metrics of a client, once it has pushed some with each of these ``names``.

        AssertionError if that takes longer than ``timeout_s``.
        """
        __tracebackhide__ = True
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = await self.client_metrics(client_id)
            for each in found:
                if all(each.values(name) for name in names):
                    return each
            if asyncio.get_running_loop().time() > deadline:
                pushed = sorted({one.name for each in found for one in each.measurements})
                lacking = (
                    f" has not pushed {', '.join(names)}, only {', '.join(pushed)}" if pushed else " pushed nothing"
                )
                raise AssertionError(f"after {timeout_s} s client {client_id}{lacking}")
            await asyncio.sleep(PAUSE_S)


def _as_found(topic: str, partition: int, record: WireRecord) -> Record:
    return Record(record.value, record.key, record.headers, topic, partition, record.offset, record.timestamp)


def _text(value: object) -> str:
    """A config's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
