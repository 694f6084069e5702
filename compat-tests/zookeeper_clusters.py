"""Clusters in ZooKeeper mode: one ZooKeeper server, and brokers of both programs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from oracle import BrokerProcess, free_port
from oracle.process import HOST
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper

SESSION_TIMEOUT_MS: Final = 4_000
SHARED: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "500",
}
"""The configuration of brokers of both programs."""


class KpyOnZooKeeper(BrokerProcess):
    """A broker of kpybroker in ZooKeeper mode."""

    program = "kpybroker"

    def __init__(
        self,
        broker_id: int | None,
        connect: str,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path,
        port: int | None = None,
    ) -> None:
        super().__init__(directory, port or free_port())
        self.properties = {
            "zookeeper.connect": connect,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data),
            "kpybroker.http.listener": "",
            **({} if broker_id is None else {"broker.id": str(broker_id)}),
            **(properties or {}),
        }

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        program = str(Path(sys.executable).with_name("kpybroker"))
        return [program, "start", str(self.directory / "server.properties")]


BrokerOf = Callable[..., BrokerProcess]


class ZooKeeperCluster:
    """``with ZooKeeperCluster(directory, {1: KafkaOnZooKeeper, 2: KpyOnZooKeeper}) as cluster``: brokers by their ids,
    started one after the other, so that the first one is the controller."""

    def __init__(self, directory: Path, brokers: Mapping[int, BrokerOf], properties: Mapping[str, str] | None = None):
        self.zookeeper = ZooKeeper(directory=directory / "zookeeper")
        self.connect = f"{self.zookeeper.bootstrap_servers}/kafka"
        configs = {**SHARED, **(properties or {})}
        self.brokers = {
            broker_id: broker_of(broker_id, self.connect, configs, directory=directory / f"broker-{broker_id}")
            for broker_id, broker_of in brokers.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def __enter__(self) -> Self:
        self.zookeeper.__enter__()
        started: list[BrokerProcess] = []
        try:
            for broker in self.brokers.values():
                started += [broker]
                broker.__enter__()
        except BaseException:
            self._end(started, None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end([*self.brokers.values()], kind, error, trace)

    def _end(
        self,
        started: Sequence[BrokerProcess],
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in reversed(started):
            broker.__exit__(kind, error, trace)
        self.zookeeper.__exit__(kind, error, trace)


__all__ = ["SESSION_TIMEOUT_MS", "SHARED", "KafkaOnZooKeeper", "KpyOnZooKeeper", "ZooKeeperCluster"]
