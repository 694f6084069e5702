"""Neither Spark's JVM nor a task's Python process waits for an acknowledgement of the other."""

import os
import pickle
import socket
from collections.abc import Iterator

import pytest

from kpybroker.machines.scan.options import read_options
from kpybroker.spark import worker_socket
from kpybroker.spark.reader import BatchReader
from kpybroker.spark.sink import BatchWriter, StreamWriter
from kpybroker.spark.stream_reader import StreamReader
from kpybroker.spark.worker_socket import ArrivesInTask

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on request")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the JVM's end, and that of the task."""
    worker_socket._connections.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as jvm:
        task, _ = listener.accept()
        with task:
            yield jvm, task
    worker_socket._connections.cache_clear()


def is_hasty(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def unacknowledged(connection: socket.socket) -> int:
    """The segments that the other side has not acknowledged: ``tcpi_unacked`` of ``struct tcp_info``."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(info[24:28], "little")


def test_a_function_that_has_arrived_is_acknowledged_and_answered_at_once(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    jvm, task = ends
    reader = pickle.dumps(BatchReader(read_options({"kafka.bootstrap.servers": "a:1", "subscribe": "t"})))
    task.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    jvm.sendall(b"function")
    assert task.recv(100) == b"function"
    assert unacknowledged(jvm) == 1
    assert not is_hasty(task)
    pickle.loads(reader)
    assert unacknowledged(jvm) == 0
    assert is_hasty(task)


def test_no_other_descriptor_is_changed_or_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    here, there = socket.socketpair()
    reading, writing = os.pipe()
    with here, there, open(reading, "rb"), open(writing, "wb") as pipe:
        for _ in range(2):
            worker_socket.send_at_once()
        there.sendall(b"x")
        assert here.recv(1) == b"x"
        pipe.write(b"x")
    assert all(map(is_hasty, ends))


def test_a_connection_that_is_gone_by_now_does_no_harm(ends: tuple[socket.socket, socket.socket]) -> None:
    """Its file descriptor may be another file's by now, which stays open and as it is."""
    worker_socket.send_at_once()
    numbers = [end.fileno() for end in ends]
    for end in ends:
        end.close()
    worker_socket.send_at_once()
    reading, writing = os.pipe()
    with open(reading, "rb") as readable, open(writing, "wb") as pipe:
        assert sorted((reading, writing)) == sorted(numbers)
        worker_socket.send_at_once()
        pipe.write(b"x")
        pipe.flush()
        assert readable.read(1) == b"x"


def test_tasks_run_where_open_files_cannot_be_listed(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_socket, "OPEN_FILES", "/nowhere")
    worker_socket.send_at_once()
    assert not any(map(is_hasty, ends))


def test_the_functions_of_all_tasks_do_so() -> None:
    assert all(issubclass(each, ArrivesInTask) for each in (BatchReader, StreamReader, BatchWriter, StreamWriter))
