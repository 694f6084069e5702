"""A producer of either generation: it retries what may be retried, dies of anything else, at times stops for long."""

from collections.abc import Callable, Generator
from typing import Any

from simulated_coordinator import SimulatedCoordinator
from simulated_network import Network
from simulated_partition import Produced, SimulatedPartition

from kpybroker.machines.transactions.events import Partition
from kpywire import error_codes
from kpywire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest

TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 2_000
BACKOFF_MS = 50
TRIES = 200
RETRIABLE = (
    error_codes.CONCURRENT_TRANSACTIONS,
    error_codes.COORDINATOR_LOAD_IN_PROGRESS,
    error_codes.COORDINATOR_NOT_AVAILABLE,
    error_codes.NOT_COORDINATOR,
)

Ask = Callable[[Callable[[Any], None]], None]
Script = Generator[Ask | int, Any, None]
"""Yields what to ask, and is sent the answer, or None if none came in time; or yields for how long to sleep."""


class Attempt:
    """One transaction as its client knows it."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.values: list[tuple[Partition, int]] = []
        self.outcome = "aborted"
        """``unknown`` from when a commit is asked for until it is answered, then ``committed``."""


class SimulatedClient:
    """One instance of a producer."""

    def __init__(
        self,
        transactional_id: str,
        generation: int,
        network: Network,
        coordinator: SimulatedCoordinator,
        partitions: dict[Partition, SimulatedPartition],
        attempts: list[Attempt],
    ) -> None:
        self.transactional_id = transactional_id
        self.generation = generation
        self.producer = (-1, -1)
        self._network = network
        self._coordinator = coordinator
        self._partitions = partitions
        self._attempts = attempts
        self._sequences: dict[Partition, int] = {}
        self._asked = 0
        self._script = self._run()

    def start(self) -> None:
        self._go_on(None)

    # Driving the script

    def _go_on(self, answer: Any) -> None:
        try:
            wanted = self._script.send(answer)
        except StopIteration:
            return
        network = self._network
        if isinstance(wanted, int):
            network.later(wanted, self._go_on, None)
            return
        self._asked += 1
        number = self._asked
        network.deliver(self._arrive, number, wanted)
        network.later(REQUEST_TIMEOUT_MS, self._answered, number, None)

    def _arrive(self, number: int, wanted: Ask) -> None:
        """A request reaches its broker. Those of the second generation may come long after they were given up.

        In the first, a late EndTxn would end the next transaction of the same epoch: what KIP-890 is for. There, what
        was given up has to have gone with its connection.
        """
        if self.generation == 2 or number == self._asked:
            wanted(lambda answer: self._network.deliver(self._answered, number, answer))

    def _answered(self, number: int, answer: Any) -> None:
        if number == self._asked:
            self._asked += 1
            self._go_on(answer)

    def _call(self, ask: Ask) -> Generator[Ask | int, Any, Any]:
        """The final answer, or None if it gave up."""
        for _ in range(TRIES):
            answer = yield ask
            if answer is not None and _code(answer) not in RETRIABLE:
                return answer
            yield BACKOFF_MS
        return None

    # What it does

    def _run(self) -> Script:
        rng = self._network.rng
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS, producer_id=-1, producer_epoch=-1
        )
        answer = yield from self._call(lambda reply: self._coordinator.request(message, 5, reply))
        if _code(answer):
            return
        self.producer = (answer.producer_id, answer.producer_epoch)
        for _ in range(rng.randrange(1, 5)):
            attempt = Attempt(self.transactional_id)
            self._attempts.append(attempt)
            code = yield from self._write(attempt)
            if code or rng.random() < 0.1:
                return
            code = yield from self._end(attempt, commit=rng.random() < 0.7)
            if code:
                return

    def _write(self, attempt: Attempt) -> Generator[Ask | int, Any, int]:
        rng = self._network.rng
        added: set[Partition] = set()
        for _ in range(rng.randrange(1, 5)):
            if rng.random() < 0.06:
                yield rng.randrange(2 * TIMEOUT_MS, 4 * TIMEOUT_MS)
            name = rng.choice(sorted(self._partitions))
            if self.generation == 1 and name not in added:
                code = yield from self._add(name)
                if code:
                    return code
                added.add(name)
            value = sum(len(each.values) for each in self._attempts)
            attempt.values.append((name, value))
            produced = Produced(
                self.transactional_id, self.producer, self._sequences.get(name, 0), value, self.generation
            )
            answer = yield from self._call(
                lambda reply, name=name, produced=produced: self._partitions[name].produce(produced, reply)
            )
            if _code(answer):
                return _code(answer)
            self._sequences[name] = produced.sequence + 1
        return error_codes.NONE

    def _add(self, name: Partition) -> Generator[Ask | int, Any, int]:
        message = added_partition(self.transactional_id, self.producer, name, verify_only=False)
        answer = yield from self._call(lambda reply: self._coordinator.request(message, 3, reply))
        return _code(answer)

    def _end(self, attempt: Attempt, *, commit: bool) -> Generator[Ask | int, Any, int]:
        if commit:
            attempt.outcome = "unknown"
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        version = 5 if self.generation == 2 else 4
        answer = yield from self._call(lambda reply: self._coordinator.request(message, version, reply))
        if _code(answer):
            return _code(answer)
        if commit:
            attempt.outcome = "committed"
        if self.generation == 2:
            self.producer = (answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
        return error_codes.NONE


def added_partition(
    transactional_id: str, producer: tuple[int, int], name: Partition, *, verify_only: bool
) -> AddPartitionsToTxnTransaction:
    """The request to add a partition, or to look it up."""
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=name[0], partitions=[name[1]])],
    )


def _code(answer: Any) -> int:
    """The error code of any answer; of none, one that ends a client."""
    if answer is None:
        return error_codes.REQUEST_TIMED_OUT
    if isinstance(answer, int):
        return answer
    if hasattr(answer, "topic_results"):
        return int(answer.topic_results[0].results_by_partition[0].partition_error_code)
    return int(answer.error_code)
