"""A broker for one test or many: ``with Broker() as broker:`` in a thread, ``async with Broker() as broker:`` in the
test's own loop.

It is a real broker, in memory and on a free port by default, and any client can reach it over its port. The first form
blocks, so it suits any test. The second starts no thread, and its methods are awaited.
"""

import os
import weakref
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kpybroker.testing.async_broker import AsyncBroker
from kpybroker.testing.controls import Clock, Faults
from kpybroker.testing.hosts import BrokerFailed
from kpybroker.testing.loop_thread import LoopThread
from kpybroker.testing.snapshot import Snapshot

if TYPE_CHECKING:
    from kpybroker.testing.security import Access, Security

P = ParamSpec("P")
T = TypeVar("T")

_running: "weakref.WeakSet[Broker]" = weakref.WeakSet()


def _blocking(
    method: Callable[Concatenate[AsyncBroker, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Broker", P], T]:
    """The blocking form of a method, which runs in the loop of the broker's thread."""

    @wraps(method)
    def blocking(self: "Broker", /, *arguments: P.args, **named: P.kwargs) -> T:
        __tracebackhide__ = True
        return self._call(method(self._broker, *arguments, **named))

    return blocking


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

    restart = _blocking(AsyncBroker.restart)

    disconnect_clients = _blocking(AsyncBroker.disconnect_clients)

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

    servers_of = _blocking(AsyncBroker.servers_of)

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

    snapshot = _blocking(AsyncBroker.snapshot)
    restore = _blocking(AsyncBroker.restore)

    # Topics and records

    create_topic = _blocking(AsyncBroker.create_topic)
    compact_topic = _blocking(AsyncBroker.compact_topic)
    delete_topic = _blocking(AsyncBroker.delete_topic)
    topics = _blocking(AsyncBroker.topics)
    produce = _blocking(AsyncBroker.produce)
    records = _blocking(AsyncBroker.records)
    wait_for_records = _blocking(AsyncBroker.wait_for_records)
    assert_records = _blocking(AsyncBroker.assert_records)

    # Groups

    group = _blocking(AsyncBroker.group)
    wait_for_group_stable = _blocking(AsyncBroker.wait_for_group_stable)
    committed = _blocking(AsyncBroker.committed)
    lag = _blocking(AsyncBroker.lag)
    assert_committed = _blocking(AsyncBroker.assert_committed)
    shared = _blocking(AsyncBroker.shared)
    assert_shared = _blocking(AsyncBroker.assert_shared)

    # Client metrics

    subscribe_to_client_metrics = _blocking(AsyncBroker.subscribe_to_client_metrics)
    client_metrics = _blocking(AsyncBroker.client_metrics)
    wait_for_client_metrics = _blocking(AsyncBroker.wait_for_client_metrics)


def _leave_to_the_parent() -> None:
    for broker in list(_running):
        broker.forget_sockets()


os.register_at_fork(after_in_child=_leave_to_the_parent)
