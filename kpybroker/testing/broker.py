"""A broker for one test or many: ``with Broker() as broker:`` in a thread, ``async with Broker() as broker:`` in the
test's own loop.

It is a real broker, in memory and on a free port by default, and any client can reach it over its port. The first form
blocks, so it suits any test. The second starts no thread, and its methods are awaited.
"""

import os
import weakref
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kpybroker.testing.async_broker import TIMEOUT_S, AsyncBroker
from kpybroker.testing.client_metrics import ClientMetrics
from kpybroker.testing.controls import Clock, Faults
from kpybroker.testing.groups import Group, Spot
from kpybroker.testing.hosts import BrokerFailed
from kpybroker.testing.loop_thread import LoopThread
from kpybroker.testing.records import Record, Records
from kpybroker.testing.shares import Offsets, Shared
from kpybroker.testing.snapshot import Snapshot

if TYPE_CHECKING:
    from kpybroker.testing.security import Access, Security

T = TypeVar("T")

_running: "weakref.WeakSet[Broker]" = weakref.WeakSet()


class Broker:
    """A broker. Several may run at once, also with several test processes on one machine.

    It belongs to the process that started it: a forked child can use it as a client, and does not stop it.
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
        """``config``: Kafka's broker configs, such as ``{"num.partitions": 3}``.

        ``directory``: keep the data on disk there. ``process``: run in a child process. ``snapshot``: begin with its
        contents. ``host``: the address to listen on; ``advertised_host``: the one that clients are given, if it
        differs. ``security``: users, certificates, ACLs and quotas; `access` has clients' settings for them.
        """
        self._broker = AsyncBroker(
            config,
            directory=directory,
            process=process,
            snapshot=snapshot,
            host=host,
            advertised_host=advertised_host,
            port=port,
            security=security,
        )
        self._thread: LoopThread | None = None
        self._pid = 0
        self.clock = Clock(self._broker.clock, self._call)
        """Move the broker's time: ``broker.clock.advance(hours=1)``."""
        self.faults = Faults(self._broker.faults, self._call)
        """Break it on purpose: ``broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)``."""

    # Life

    def start(self) -> "Broker":
        """Serve clients when this returns. Raises BrokerFailed with one line."""
        if self._thread is not None:
            raise BrokerFailed("the broker is running already")
        self._thread = LoopThread("kpybroker")
        self._pid = os.getpid()
        try:
            self._call(self._broker.start())
        except BaseException:
            self._end_thread()
            raise
        _running.add(self)
        return self

    def stop(self) -> None:
        """Stop cleanly. Data in memory is lost; a directory stays. Does nothing when it is not running in this
        process."""
        if not self.is_running:
            return
        try:
            self._call(self._broker.stop())
        finally:
            _running.discard(self)
            self._end_thread()

    def restart(self, *, clean: bool = True) -> None:
        """Stop and start again with the same data on the same port. If not ``clean``, it stops as if the process had
        died."""
        self._call(self._broker.restart(clean=clean))

    def disconnect_clients(self) -> int:
        """Close every connection. Return how many there were."""
        return self._call(self._broker.disconnect_clients())

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncBroker:
        return await self._broker.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._broker.stop()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, for any client."""
        return self._broker.bootstrap_servers

    def servers_of(self, listener: str) -> str:
        """``host:port`` of one listener, where ``listeners`` names several. Raises BrokerFailed for an unknown name."""
        return self._call(self._broker.servers_of(listener))

    @property
    def host(self) -> str:
        """The host where it listens."""
        return self._broker.host

    @property
    def port(self) -> int:
        """The port where it listens."""
        return self._broker.port

    @property
    def access(self) -> "Access":
        """Users, certificates and tokens of a broker with ``security``. Raises BrokerFailed without it."""
        return self._broker.blocking_access

    @property
    def is_running(self) -> bool:
        """Whether this process started it and has not stopped it since."""
        return self._thread is not None and self._pid == os.getpid()

    def __repr__(self) -> str:
        return f"<Broker at {self.bootstrap_servers}>" if self.is_running else "<Broker, not running>"

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        __tracebackhide__ = True
        if self._thread is None or not self.is_running:
            coroutine.close()
            raise BrokerFailed("the broker is not running in this process")
        return self._thread.call(coroutine)

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()

    def forget_sockets(self) -> None:
        """Leave the sockets to the parent, in a forked child."""
        self._broker.forget_sockets()

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Everything in the broker at this moment."""
        return self._call(self._broker.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Return to the state of the snapshot, on the same port. Clients reconnect; the clock does not go back."""
        self._call(self._broker.restore(snapshot))

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Create a topic, ready to be written. Return its name. Raises KafkaError."""
        return self._call(self._broker.create_topic(name, partitions, config))

    def compact_topic(self, name: str) -> None:
        """Compact a topic now, with everything that was written to it; see `AsyncBroker.compact_topic`.
        BrokerFailed."""
        self._call(self._broker.compact_topic(name))

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KafkaError."""
        self._call(self._broker.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics except Kafka's own."""
        return self._call(self._broker.topics())

    def produce(self, topic: str, *records: Any, partition: int | None = None) -> list[Record]:
        """The blocking form of `AsyncBroker.produce`."""
        return self._call(self._broker.produce(topic, *records, partition=partition))

    def records(self, topic: str, *, partition: int | None = None, isolation: str = "read_uncommitted") -> Records:
        """The blocking form of `AsyncBroker.records`."""
        return self._call(self._broker.records(topic, partition=partition, isolation=isolation))

    def wait_for_records(
        self, topic: str, count: int, *, timeout_s: float = TIMEOUT_S, isolation: str = "read_uncommitted"
    ) -> Records:
        """The blocking form of `AsyncBroker.wait_for_records`."""
        __tracebackhide__ = True
        return self._call(self._broker.wait_for_records(topic, count, timeout_s=timeout_s, isolation=isolation))

    def assert_records(
        self,
        topic: str,
        expected: Sequence[Any],
        *,
        ordered: bool = True,
        timeout_s: float = 0.0,
        isolation: str = "read_uncommitted",
    ) -> Records:
        """The blocking form of `AsyncBroker.assert_records`."""
        __tracebackhide__ = True
        return self._call(
            self._broker.assert_records(topic, expected, ordered=ordered, timeout_s=timeout_s, isolation=isolation)
        )

    # Groups

    def group(self, group_id: str) -> Group:
        """The blocking form of `AsyncBroker.group`."""
        return self._call(self._broker.group(group_id))

    def wait_for_group_stable(
        self, group_id: str, *, members: int | None = None, topics: Iterable[str] = (), timeout_s: float = 3 * TIMEOUT_S
    ) -> Group:
        """The blocking form of `AsyncBroker.wait_for_group_stable`."""
        __tracebackhide__ = True
        return self._call(
            self._broker.wait_for_group_stable(group_id, members=members, topics=topics, timeout_s=timeout_s)
        )

    def committed(self, group_id: str) -> dict[Spot, int]:
        """The blocking form of `AsyncBroker.committed`."""
        return self._call(self._broker.committed(group_id))

    def lag(self, group_id: str) -> dict[Spot, int]:
        """The blocking form of `AsyncBroker.lag`."""
        return self._call(self._broker.lag(group_id))

    def assert_committed(
        self, group_id: str, expected: Mapping[Spot, int | None], *, timeout_s: float = TIMEOUT_S
    ) -> dict[Spot, int]:
        """The blocking form of `AsyncBroker.assert_committed`."""
        __tracebackhide__ = True
        return self._call(self._broker.assert_committed(group_id, expected, timeout_s=timeout_s))

    def shared(self, group_id: str) -> Shared:
        """The blocking form of `AsyncBroker.shared`."""
        return self._call(self._broker.shared(group_id))

    def assert_shared(
        self,
        group_id: str,
        *,
        accepted: Offsets | None = None,
        released: Offsets | None = None,
        archived: Offsets | None = None,
        lag: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Shared:
        """The blocking form of `AsyncBroker.assert_shared`."""
        __tracebackhide__ = True
        return self._call(
            self._broker.assert_shared(
                group_id, accepted=accepted, released=released, archived=archived, lag=lag, timeout_s=timeout_s
            )
        )

    # Client metrics

    def subscribe_to_client_metrics(self, *metrics: str, interval_ms: int = 100) -> None:
        """The blocking form of `AsyncBroker.subscribe_to_client_metrics`."""
        self._call(self._broker.subscribe_to_client_metrics(*metrics, interval_ms=interval_ms))

    def client_metrics(self, client_id: str | None = None) -> list[ClientMetrics]:
        """The blocking form of `AsyncBroker.client_metrics`."""
        return self._call(self._broker.client_metrics(client_id))

    def wait_for_client_metrics(self, client_id: str, *names: str, timeout_s: float = TIMEOUT_S) -> ClientMetrics:
        """The blocking form of `AsyncBroker.wait_for_client_metrics`."""
        __tracebackhide__ = True
        return self._call(self._broker.wait_for_client_metrics(client_id, *names, timeout_s=timeout_s))


def _leave_to_the_parent() -> None:
    for broker in list(_running):
        broker.forget_sockets()


os.register_at_fork(after_in_child=_leave_to_the_parent)
