"""Brokers inside a test: in a thread, in a loop, in a child process; in memory and on disk; alone and several."""

import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import uvloop
from kafka import KafkaConsumer, KafkaProducer

from kpybroker.machines.errors import KafkaError
from kpybroker.testing import Broker, BrokerFailed, Record
from kpywire import error_codes
from oracle import has_ipv6_loopback

ROOT = Path(__file__).parents[2]
Make = Callable[..., Broker]


@pytest.fixture(params=["thread", "child process"])
def make(request: pytest.FixtureRequest) -> Make:
    """A broker in each of the places where a blocking test can have one."""
    return lambda *arguments, **options: Broker(*arguments, process=request.param == "child process", **options)


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The place of the data."""
    return tmp_path / "data" if request.param == "disk" else None


def values(records: list[Record]) -> list[str | None]:
    return [record.text for record in records]


def read_with_a_client(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=20_000,
    )
    try:
        return [message.value for message in islice(consumer, count)]
    finally:
        consumer.close()


def test_an_unmodified_client_writes_and_reads(make: Make, place: Path | None) -> None:
    with make(directory=place) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("orders", b"one").get(30)
        producer.close()
        broker.produce("orders", "two")
        assert values(broker.records("orders")) == ["one", "two"]
        assert read_with_a_client(broker, "orders", 2) == [b"one", b"two"]


def test_a_directory_keeps_the_data_for_the_next_broker(make: Make, tmp_path: Path) -> None:
    with make(directory=tmp_path / "data") as broker:
        broker.produce("kept", "a")
    with make(directory=tmp_path / "data") as broker:
        assert values(broker.records("kept")) == ["a"]


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "death"])
def test_a_restart_keeps_port_and_records(make: Make, place: Path | None, clean: bool) -> None:
    with make(directory=place) as broker:
        port = broker.port
        broker.produce("kept", "a", "b")
        broker.restart(clean=clean)
        assert broker.port == port
        assert values(broker.records("kept")) == ["a", "b"]
        broker.produce("kept", "c")
        assert values(broker.records("kept")) == ["a", "b", "c"]


def test_configs_are_taken_and_a_wrong_one_is_one_clear_line(make: Make) -> None:
    with make({"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=None)
        assert not consumer.partitions_for_topic("nothing")
        consumer.close()
        assert broker.topics() == []
    with pytest.raises(BrokerFailed, match=r"num\.partitions"):
        make({"num.partitions": "many"}).start()


def test_a_fixed_port_that_is_taken_is_one_clear_line(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BrokerFailed, match="cannot listen"):
        make(port=taken.getsockname()[1]).start()


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"host": "0.0.0.0"}, "127.0.0.1"),
        ({"host": "0.0.0.0", "advertised_host": "localhost"}, "localhost"),
        ({"host": "localhost"}, "localhost"),
        pytest.param(
            {"host": "::1"},
            "[::1]",
            marks=pytest.mark.skipif(not has_ipv6_loopback(), reason="::1 cannot be listened on here"),
        ),
    ],
)
def test_clients_get_a_reachable_address(options: dict[str, str], address: str) -> None:
    with Broker(**options) as broker:
        assert broker.bootstrap_servers == f"{address}:{broker.port}"
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"a").get(30)
        producer.close()
        broker.restart()
        assert values(broker.records("t")) == ["a"]


def test_listeners_of_the_tests_own_are_served() -> None:
    listeners = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with Broker(listeners) as broker:
        broker.produce("t", "a")
        assert values(broker.records("t")) == ["a"]


def test_a_broker_that_failed_to_start_can_be_tried_again(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("in the way")
    broker = Broker(directory=occupied)
    with pytest.raises(BrokerFailed):
        broker.start()
    occupied.unlink()
    with broker:
        assert broker.topics() == []


def test_several_brokers_at_once_know_nothing_of_each_other() -> None:
    with Broker() as one, Broker() as two, Broker(process=True) as three:
        assert len({one.port, two.port, three.port}) == 3
        for number, broker in enumerate((one, two, three)):
            broker.produce("same-name", f"from {number}")
        assert [values(broker.records("same-name")) for broker in (one, two, three)] == [
            ["from 0"],
            ["from 1"],
            ["from 2"],
        ]


def test_two_brokers_do_not_share_a_directory(tmp_path: Path) -> None:
    with Broker(directory=tmp_path), pytest.raises(BrokerFailed, match="in use"):
        Broker(directory=tmp_path).start()


@pytest.mark.parametrize("loop_of", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_in_the_loop_of_the_test(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        before = threading.active_count()
        async with Broker() as broker:
            assert threading.active_count() == before, "no thread is needed"
            await broker.create_topic("t", partitions=2)
            written = await broker.produce("t", ("key", "value"), "b", partition=1)
            assert [record.offset for record in written] == [0, 1]
            assert await broker.records("t", partition=0) == []
            await broker.assert_records("t", [("key", "value"), "b"])
            await broker.restart(clean=False)
            assert len(await broker.wait_for_records("t", 2)) == 2
            snapshot = await broker.snapshot()
            await broker.delete_topic("t")
            assert await broker.topics() == []
            await broker.restore(snapshot)
            assert await broker.topics() == ["t"]
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left in the loop"

    with asyncio.Runner(loop_factory=loop_of) as runner:
        runner.run(scenario())


def test_a_broker_in_a_thread_serves_asynchronous_tests_too() -> None:
    async def scenario(broker: Broker) -> bytes:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        answer = await reader.readexactly(8)
        writer.close()
        return answer[4:]

    with Broker() as broker:
        assert asyncio.run(scenario(broker)) == b"\0\0\0\1"


def test_a_guest_changes_nothing_of_the_process() -> None:
    def state() -> tuple[object, ...]:
        return (
            gc.get_threshold(),
            gc.get_freeze_count(),
            gc.isenabled(),
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            type(asyncio.get_event_loop_policy()),
            logging.getLogger().handlers,
            logging.getLogger().level,
            logging.getLogger("kpybroker").handlers,
            threading.active_count(),
            os.getcwd(),
            dict(os.environ),
            sys.getswitchinterval(),
        )

    before = state()
    with Broker() as broker:
        broker.produce("t", "a")
        during = state()
    assert before == state()
    assert during[:9] == before[:9]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
def test_a_stopped_broker_leaves_no_open_descriptors() -> None:
    with Broker() as broker:
        broker.produce("t", "a")
    before = descriptors()
    for _ in range(3):
        with Broker() as broker:
            broker.produce("t", "a")
            broker.restart(clean=False)
    assert descriptors() == before


def test_a_stopped_broker_refuses_further_use() -> None:
    broker = Broker()
    with pytest.raises(BrokerFailed, match="not running"):
        broker.topics()
    with broker, pytest.raises(BrokerFailed, match="running already"):
        broker.start()
    broker.stop()
    with pytest.raises(BrokerFailed, match="not running"):
        broker.topics()


def _in_a_forked_child(broker: Broker, port: int) -> None:
    broker.stop()  # must not stop the parent's
    producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
    producer.send("forked", b"from the child").get(30)
    producer.close()
    os._exit(0)


def test_a_broker_that_is_started_again_is_a_new_one(make: Make) -> None:
    broker = make()
    for _ in range(2):
        with broker:
            assert broker.topics() == []
            broker.produce("t", "a")


def test_an_abandoned_command_does_not_disturb_later_ones() -> None:
    async def scenario() -> None:
        async with Broker(process=True) as broker:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await broker.clock.advance(days=365)
            assert await broker.clock.now_ms() > 1_700_000_000_000
            await broker.produce("t", "a")
            assert await broker.faults.clear() is None

    asyncio.run(scenario())


def test_a_killed_child_process_is_reported() -> None:
    with Broker(process=True) as broker:
        os.kill(broker._broker._host.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        with pytest.raises(BrokerFailed, match="ended with exit code -9"):
            broker.clock.now_ms()


def test_a_forked_child_is_a_client_and_does_not_hold_the_port() -> None:
    broker = Broker().start()
    child = multiprocessing.get_context("fork").Process(target=_in_a_forked_child, args=(broker, broker.port))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert values(broker.records("forked")) == ["from the child"]
    forked, says_so = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.write(says_so, b"!")
        signal.pause()
    os.read(forked, 1)  # it has let go of the port by now
    try:
        port = broker.port
        broker.stop()
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
            pass
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        os.close(forked)
        os.close(says_so)


def test_the_child_process_ends_with_the_test_run_and_never_imports_its_main(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "print('main runs')\n"
        "import os\n"
        "from kpybroker.testing import Broker\n"
        "broker = Broker(process=True).start()\n"
        "print(broker.port, flush=True)\n"
        "os._exit(3)\n"
    )
    finished = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 3, finished.stderr
    first, port = finished.stdout.split("\n")[:2]
    assert first == "main runs"
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
        except ConnectionRefusedError:
            return
        threading.Event().wait(0.02)
    pytest.fail("the broker outlived the test run")


def test_a_forgotten_broker_does_not_keep_the_test_run_from_ending() -> None:
    script = "from kpybroker.testing import Broker; Broker().start().produce('t', 'a'); print('done')"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "done\n", "")


def test_an_impossible_operation_raises_kafkas_error(make: Make) -> None:
    with make() as broker:
        broker.create_topic("t")
        with pytest.raises(KafkaError) as caught:
            broker.create_topic("t")
        assert caught.value.code == error_codes.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            broker.delete_topic("missing")


def test_disconnected_clients_come_back() -> None:
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"before").get(30)
        assert broker.disconnect_clients() >= 1
        producer.send("t", b"after").get(30)
        producer.close()
        assert values(broker.records("t")) == ["before", "after"]


def test_brokers_start_and_work_in_many_threads_at_once_in_a_new_process() -> None:
    """Everything is imported and compiled at its first use, which then is in several threads."""
    script = (
        "import sys; sys.setswitchinterval(1e-5)\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from kpybroker.testing import Broker\n"
        "def use(number):\n"
        "    with Broker() as broker:\n"
        "        broker.produce('t', ('k', number))\n"
        "        broker.restart(clean=False)\n"
        "        broker.assert_records('t', [('k', number)])\n"
        "        return broker.group('g').state\n"
        "with ThreadPoolExecutor(6) as pool:\n"
        "    print(set(pool.map(use, range(12))))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )
    assert (finished.stdout, finished.stderr) == ("{'Dead'}\n", "")
