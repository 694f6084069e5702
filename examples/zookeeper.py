"""``make zookeeper``: Apache ZooKeeper and brokers in ZooKeeper mode on this machine, until Ctrl-C."""

import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from oracle import BrokerProcess
from oracle.process import HOST
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper
from support.zookeeper_clusters import KpyOnZooKeeper

CHROOT: Final = "/kafka"
MOST_REPLICAS: Final = 3


@click.command()
@click.option("--brokers", type=click.IntRange(1, 9), default=3, show_default=True, help="The number of brokers.")
@click.option(
    "--kafka", type=click.IntRange(0, 9), default=0, show_default=True, help="How many of them are Apache Kafka 3.9."
)
@click.option("--port", type=click.IntRange(1, 65_000), default=9092, show_default=True, help="The first broker's.")
@click.option("--zookeeper-port", type=click.IntRange(1, 65_535), default=2181, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="Keep everything here; else it is deleted at the end.")
def main(brokers: int, kafka: int, port: int, zookeeper_port: int, data: Path | None) -> None:
    """Start ZooKeeper and brokers, say what to try next, and end all of them by Ctrl-C."""
    if shutil.which("java") is None:
        raise click.ClickException("Apache ZooKeeper needs Java, and no java is on the path")
    check_free(zookeeper_port, *range(port, port + brokers))
    BrokerProcess.process_group = 0  # Ctrl-C reaches only this process, which stops the brokers before ZooKeeper
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ExitStack() as stack:
        directory = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zookeeper-")))
        try:
            zookeeper, started = begin(stack, directory.absolute(), brokers, kafka, port, zookeeper_port, ended)
        except RuntimeError as problem:
            raise click.ClickException(str(problem)) from None
        if not ended.is_set():
            click.echo("\n".join(what_to_try(zookeeper, started)))
        wait(ended, [zookeeper, *started])
        click.echo("Stopping")


def check_free(*ports: int) -> None:
    """Raise click.ClickException if a port is taken."""
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                raise click.ClickException(
                    f"port {port} is taken: name others with --port and --zookeeper-port"
                ) from None


def begin(
    stack: ExitStack, directory: Path, count: int, kafka: int, port: int, zookeeper_port: int, ended: threading.Event
) -> tuple[ZooKeeper, list[BrokerProcess]]:
    """Start everything; the stack ends it. Kafka's brokers have the highest ids."""
    click.echo("Starting ZooKeeper")
    zookeeper = stack.enter_context(ZooKeeper(directory=directory / "zookeeper", port=zookeeper_port))
    replicas = min(count, MOST_REPLICAS)
    configs = {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min(2, replicas)),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
        "controlled.shutdown.retry.backoff.ms": "200",
    }
    connect = f"{zookeeper.bootstrap_servers}{CHROOT}"
    started: list[BrokerProcess] = []
    for number in range(1, count + 1):
        if ended.is_set():
            break
        broker_of = KafkaOnZooKeeper if number > count - kafka else KpyOnZooKeeper
        place = directory / f"broker-{number}"
        broker = broker_of(number, connect, configs, directory=place, port=port + number - 1)
        click.echo(f"Starting broker {number} ({broker.program})")
        started.append(stack.enter_context(broker))
    return zookeeper, started


def what_to_try(zookeeper: ZooKeeper, brokers: Sequence[BrokerProcess]) -> list[str]:
    """The addresses, and commands to paste into another terminal."""
    program = "kpybroker" if shutil.which("kpybroker") else str(Path(sys.executable).with_name("kpybroker"))
    first, last = brokers[0], brokers[-1]
    at = f"-b {first.bootstrap_servers}"
    return [
        "",
        f"ZooKeeper at {zookeeper.bootstrap_servers}, the cluster in its chroot {CHROOT}",
        *(f"broker {number} at {each.bootstrap_servers} ({each.program})" for number, each in enumerate(brokers, 1)),
        f"data and server.properties of each in {first.directory.parent}",
        "",
        "In another terminal:",
        f"  {program} topics create hello --partitions 3 {at}",
        f"  echo world | {program} produce hello {at}",
        f"  {program} consume hello -c 1 {at}",
        f"  {program} zookeeper {zookeeper.bootstrap_servers}{CHROOT}    # every znode, and who wrote it",
        f"  {program} zookeeper {zookeeper.bootstrap_servers}{CHROOT} /controller",
        f"  kill -9 {first.pid}    # broker 1, the first controller: another one takes over",
        f"  {program} topics describe hello -b {last.bootstrap_servers}",
        f"  {program} start {first.directory / 'server.properties'}    # broker 1 comes back",
        "Ctrl-C ends everything.",
    ]


def wait(ended: threading.Event, processes: Sequence[BrokerProcess]) -> None:
    """Return on Ctrl-C. A process that ends is reported, and the others go on."""
    running = list(processes)
    while running and not ended.wait(0.2):
        for process in list(running):
            if process.process is not None and (code := process.process.poll()) is not None:
                click.echo(f"{process.program} at {process.bootstrap_servers} ended with code {code}")
                process.process = None
                running.remove(process)


if __name__ == "__main__":
    main(prog_name="python -m examples.zookeeper")
