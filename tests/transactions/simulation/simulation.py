"""Producers, partitions and the coordinator together, by a seed; and what must be true when all has come to rest."""

from collections import Counter
from random import Random
from typing import Any

from simulated_client import Attempt, SimulatedClient, added_partition
from simulated_coordinator import SimulatedCoordinator
from simulated_network import Network
from simulated_partition import Produced, Reply, SimulatedPartition

from kpybroker.machines.transactions.events import Partition
from kpybroker.machines.transactions.settings import TransactionSettings
from kpybroker.machines.transactions.transaction import TransactionState

PARTITIONS = (("t", 0), ("t", 1), ("u", 0))
IDS = ("a", "b", "c")
FAULTS_MS = 60_000


class Simulation:
    """One run. ``crash_at_write`` lets the coordinator crash at one write; ``crashes`` at random, so often."""

    def __init__(
        self, seed: int, *, crash_at_write: int = -1, loses_write: bool = False, crashes: int = 0, level: int = 2
    ) -> None:
        rng = Random(seed)
        self.network = Network(rng)
        settings = TransactionSettings(transaction_version=level, timeout_check_interval_ms=1_000)
        self.coordinator = SimulatedCoordinator(self.network, settings)
        self.coordinator.crash_at_write = crash_at_write
        self.coordinator.loses_write = loses_write
        self.network.after_each = self.coordinator.crash_if_due
        self.partitions = {name: SimulatedPartition(name, self.network, self._verify) for name in PARTITIONS}
        self.coordinator.partitions.update(self.partitions)
        self.attempts: list[Attempt] = []
        for transactional_id in IDS:
            generation = rng.choice((1, 2)) if level == 2 else 1
            for _ in range(rng.randrange(2, 5)):
                if level == 2 and rng.random() < 0.2:
                    generation = 3 - generation
                client = SimulatedClient(
                    transactional_id, generation, self.network, self.coordinator, self.partitions, self.attempts
                )
                self.network.later(rng.randrange(FAULTS_MS), client.start)
        for _ in range(crashes):
            self.network.later(rng.randrange(FAULTS_MS), self.coordinator.crash)
            self.network.later(rng.randrange(FAULTS_MS), rng.choice(list(self.partitions.values())).restart)

    def _verify(self, produced: Produced, partition: Partition, reply: Reply) -> None:
        """A partition's leader asks the coordinator, over the network."""
        message = added_partition(
            produced.transactional_id, produced.producer, partition, verify_only=produced.generation == 1
        )
        network = self.network

        def answered(answer: Any) -> None:
            code = answer
            if not isinstance(answer, int):
                code = answer.topic_results[0].results_by_partition[0].partition_error_code
            network.deliver(reply, code)

        network.deliver(self.coordinator.request, message, 5, answered)

    def run(self) -> None:
        """Faults for a while, then none until nothing happens any more."""
        self.network.run(self.network.now_ms + FAULTS_MS)
        self.network.is_calm = True
        self.network.run()
        self.check()

    def check(self) -> None:
        """Whether every transaction was atomic, and every one has ended."""
        for transaction in self.coordinator.machine.shard.transactions.values():
            assert transaction.state in (
                TransactionState.EMPTY,
                TransactionState.COMPLETE_COMMIT,
                TransactionState.COMPLETE_ABORT,
            ), transaction
        seen: Counter[tuple[Partition, int]] = Counter()
        for name, partition in self.partitions.items():
            assert partition.producers.first_unstable is None, f"{name} has a transaction that hangs"
            seen.update((name, value) for value in partition.visible)
        assert all(count == 1 for count in seen.values()), "a record is there twice"
        for attempt in self.attempts:
            visible = [each in seen for each in attempt.values]
            if attempt.outcome == "committed":
                assert all(visible), f"a committed transaction lost records: {attempt.values} {visible}"
            elif attempt.outcome == "aborted":
                assert not any(visible), f"a transaction that was not committed is seen: {attempt.values} {visible}"
            else:
                assert all(visible) or not any(visible), f"a transaction is torn: {attempt.values} {visible}"
