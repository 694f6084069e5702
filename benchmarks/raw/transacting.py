"""Transactional producers by the raw protocol, many in one thread: requests written by hand like ``frames``.

The protocol of the first generation, which librdkafka and kafka-python speak: partitions are added, batches are
produced, the transaction is ended. While the markers of the last one are being written the broker answers
CONCURRENT_TRANSACTIONS, and the producer asks again after a moment, as clients do.

The kernel reports when the answer of a commit arrived (``SO_TIMESTAMPNS``): this thread may be busy with the answers
of a hundred others by then, and what they wait for it is no time of the broker's.
"""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import crc32c

from benchmarks.raw.asking import Address
from benchmarks.raw.frames import BATCH_HEADER_BYTES, frame, record
from benchmarks.raw.many import array, string

FIND_COORDINATOR_VERSION: Final = 2
INIT_PRODUCER_ID_VERSION: Final = 1
ADD_PARTITIONS_VERSION: Final = 1
PRODUCE_VERSION: Final = 7
END_TRANSACTION_VERSION: Final = 1
TRANSACTION: Final = 1
TRANSACTIONAL: Final = 0x10
TIMEOUT_MS: Final = 60_000
AGAIN_S: Final = 0.001
READY_TIMEOUT_S: Final = 300.0
NOT_READY_PAUSE_S: Final = 0.005
CONCURRENT_TRANSACTIONS: Final = 51
NOT_READY: Final = frozenset({14, 15, 16, CONCURRENT_TRANSACTIONS})
READ_BYTES: Final = 1 << 16
SO_TIMESTAMPNS: Final = 35
"""An option of Linux's sockets; Python has no name for it."""
TIMESTAMP: Final = struct.Struct("@qq")
NOTE_BYTES: Final = socket.CMSG_SPACE(TIMESTAMP.size)
THROTTLE_END: Final = 4 + 4 + 4
"""In an answer behind size, correlation id and throttle time."""


class TransactionError(RuntimeError):
    """The broker refuses a step."""


def batch(value: bytes, now_ms: int, producer_id: int, producer_epoch: int, sequence: int) -> bytes:
    """One record in a transaction."""
    section = record(0, 0, value)
    producer = struct.pack(">qhi", producer_id, producer_epoch, sequence)
    checked = struct.pack(">hiqq", TRANSACTIONAL, 0, now_ms, now_ms) + producer + struct.pack(">i", 1) + section
    size = len(checked) + BATCH_HEADER_BYTES - 40 - 12
    return struct.pack(">qiibI", 0, size, -1, 2, crc32c.crc32c(checked)) + checked


def find_coordinator(transactional_id: str) -> bytes:
    """FindCoordinator v2."""
    return frame(
        10, FIND_COORDINATOR_VERSION, string(transactional_id) + struct.pack(">b", TRANSACTION), header_end=b""
    )


def init_producer_id(transactional_id: str) -> bytes:
    """InitProducerId v1."""
    return frame(22, INIT_PRODUCER_ID_VERSION, string(transactional_id) + struct.pack(">i", TIMEOUT_MS), header_end=b"")


def identity(ask: Callable[[bytes], bytes], transactional_id: str) -> tuple[int, int]:
    """Producer id and epoch, once the coordinator is ready; ``ask`` gives answers without their size.

    Raises:
        TransactionError: it refuses, or is never ready.
    """
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        answer = ask(init_producer_id(transactional_id))
        error, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, THROTTLE_END - 4)
        if not error:
            return producer_id, producer_epoch
        if error not in NOT_READY:
            raise TransactionError(f"InitProducerId is answered with {error}")
        ask(find_coordinator(transactional_id))
        if time.monotonic() > deadline_s:
            raise TransactionError(f"no coordinator of {transactional_id} after {READY_TIMEOUT_S:.0f} s")
        time.sleep(NOT_READY_PAUSE_S)


class Took(NamedTuple):
    """Seconds of one transaction: its commit, and all of it from its first request on."""

    commit_s: float
    whole_s: float


class Producer:
    """A connection, the producer's identity, the step it is at."""

    def __init__(self, address: Address, transactional_id: str, topic: str, partitions: Sequence[int]) -> None:
        self.connection = socket.create_connection(address, TIMEOUT_MS / 1000)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.id = transactional_id
        self.topic = topic
        self.partitions = partitions
        self.sequence = 0
        self.received = b""
        self.note = b""
        """The kernel's note on the last answer: when it came."""
        self.asked_s = 0.0
        self.began_s = 0.0
        self.producer_id, self.producer_epoch = identity(self.ask, transactional_id)
        indexes = array([struct.pack(">i", index) for index in partitions])
        self._add = self._request(24, ADD_PARTITIONS_VERSION, array([string(topic) + indexes]))
        self._end = self._request(26, END_TRANSACTION_VERSION, b"\1")

    def _request(self, api_key: int, version: int, rest: bytes) -> bytes:
        body = string(self.id) + struct.pack(">qh", self.producer_id, self.producer_epoch) + rest
        return frame(api_key, version, body, header_end=b"")

    def ask(self, framed: bytes) -> bytes:
        """One request and its answer, without its size."""
        self.connection.sendall(framed)
        while (answer := self.take()) is None:
            pass
        return answer[4:]

    def take(self) -> bytes | None:
        """A whole answer with its size, if it is there by now."""
        data, notes, _, _ = self.connection.recvmsg(READ_BYTES, NOTE_BYTES)
        if not data:
            raise ConnectionError("the broker closed a producer's connection")
        self.note = notes[0][2] if notes else b""
        self.received += data
        if len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            return None
        whole, self.received = self.received, b""
        return whole

    def begin(self, since_s: float) -> None:
        """The first step: add the partitions. ``since_s``: when it was to begin, on the clock of ``perf_counter``."""
        self.began_s = since_s
        self.add()

    def add(self) -> None:
        """Ask for it, once more if need be."""
        self.connection.sendall(self._add)

    def added(self, answer: bytes) -> bool:
        """Whether they are added, or it has to be asked again."""
        position = THROTTLE_END + 4 + 2 + len(self.topic.encode()) + 4 + 4
        for _ in self.partitions:
            (error,) = struct.unpack_from(">h", answer, position)
            position += 6
            if error == CONCURRENT_TRANSACTIONS:
                return False
            if error:
                raise TransactionError(f"AddPartitionsToTxn is answered with {error}")
        return True

    def produce(self, value: bytes) -> None:
        """A record for each partition: the second step."""
        records = batch(value, int(time.time() * 1000), self.producer_id, self.producer_epoch, self.sequence)
        self.sequence += 1
        each = array([struct.pack(">ii", index, len(records)) + records for index in self.partitions])
        body = string(self.id) + struct.pack(">hi", -1, TIMEOUT_MS) + array([string(self.topic) + each])
        self.connection.sendall(frame(0, PRODUCE_VERSION, body, header_end=b""))

    def produced(self, answer: bytes) -> None:
        position = 8 + 4 + 2 + len(self.topic.encode()) + 4 + 4
        for _ in self.partitions:
            (error,) = struct.unpack_from(">h", answer, position)
            if error:
                raise TransactionError(f"Produce is answered with {error}")
            position += 4 + 2 + 8 + 8 + 8

    def commit(self) -> None:
        """The third step."""
        self.asked_s = time.perf_counter()
        self.connection.sendall(self._end)

    def committed(self, answer: bytes) -> Took:
        """The time until this answer."""
        (error,) = struct.unpack_from(">h", answer, THROTTLE_END)
        if error:
            raise TransactionError(f"EndTxn is answered with {error}")
        arrived_s = time.perf_counter() - self.ago_s()
        return Took(arrived_s - self.asked_s, arrived_s - self.began_s)

    def ago_s(self) -> float:
        """How long ago the last answer came; 0 where the kernel does not tell, as of the first ones."""
        if not self.note:
            return 0.0
        seconds: int
        nanoseconds: int
        seconds, nanoseconds = TIMESTAMP.unpack(self.note)
        return time.time() - seconds - nanoseconds / 1e9

    def close(self) -> None:
        self.connection.close()


IDLE, ADDING, PRODUCING, COMMITTING = range(4)


class Run:
    """Producers that do one transaction after the other, at once or in a fixed time each."""

    def __init__(self, producers: Sequence[Producer], value: bytes, interval_s: float) -> None:
        self.producers = producers
        self.value = value
        self.interval_s = interval_s
        self.took: list[Took] = []
        self._steps = dict.fromkeys(producers, IDLE)
        self._later: list[tuple[float, int]] = []
        """The times at which producers begin, or ask once more: a heap."""

    def play(self, seconds: float) -> None:
        """Until each has ended its last transaction."""
        until_s = time.perf_counter() + seconds
        with selectors.DefaultSelector() as selector:
            for number, producer in enumerate(self.producers):
                selector.register(producer.connection, selectors.EVENT_READ, number)
                share = number / len(self.producers)
                heappush(self._later, (time.perf_counter() + self.interval_s * share, number))
            busy = len(self.producers)
            while True:
                now_s = time.perf_counter()
                while self._later and self._later[0][0] <= now_s:
                    due_s, number = heappop(self._later)
                    busy -= not self._go_on(self.producers[number], due_s, until_s)
                if not busy:
                    return
                for key, _ in selector.select(max(0.0, self._later[0][0] - now_s) if self._later else None):
                    producer = self.producers[key.data]
                    answer = producer.take()
                    again_s = None if answer is None else self._answered(producer, answer)
                    if again_s is not None:
                        heappush(self._later, (again_s, key.data))

    def _go_on(self, producer: Producer, due_s: float, until_s: float) -> bool:
        """Do the next step; whether it has not done its last transaction."""
        if self._steps[producer] == ADDING:
            producer.add()
        elif due_s < until_s:
            self._steps[producer] = ADDING
            producer.begin(due_s)
        else:
            return False
        return True

    def _answered(self, producer: Producer, answer: bytes) -> float | None:
        """Does the next step; when it is to be done, if not now."""
        step = self._steps[producer]
        if step == ADDING:
            if not producer.added(answer):
                return time.perf_counter() + AGAIN_S
            producer.produce(self.value)
        elif step == PRODUCING:
            producer.produced(answer)
            producer.commit()
        else:
            self.took.append(producer.committed(answer))
            self._steps[producer] = IDLE
            return producer.began_s + self.interval_s if self.interval_s else time.perf_counter()
        self._steps[producer] = step + 1
        return None


def transact(producers: Sequence[Producer], value: bytes, seconds: float, per_second: float = 0.0) -> list[Took]:
    """Each producer one transaction after the other for so long; what each took.

    ``per_second``: the transactions of all together, at even distances, instead of as many as can be. A late producer
    begins its next one at once; its time is counted from when it was to begin.

    Raises:
        TransactionError, OSError: the broker refuses a step, or leaves.
    """
    run = Run(producers, value, len(producers) / per_second if per_second else 0.0)
    run.play(seconds)
    return run.took
