"""A broker that is attacked, an honest client of it, and what must hold when the attack is over."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bystander import Bystander
from watched import WatchedBroker

from support.waiting import eventually

MIB = 1024 * 1024
MEMORY_BOUND_BYTES = 700 * MIB
"""Resident at any moment of an attack: a request of 100 MiB, what is made of it, and the budget of 512 MiB unused."""
NODE_ID = "715517"
"""One that no damaged request hits by chance: brokers can be unregistered by it, and their configs changed."""


class UnderAttack(NamedTuple):
    """A broker and its honest client."""

    broker: WatchedBroker
    bystander: Bystander

    @contextmanager
    def holds(self) -> Iterator[None]:
        """Check the rules that must hold when the attack inside is over."""
        broker, bystander = self
        assert broker.is_alive, "an earlier test ended the broker"
        turns, log_position = bystander.turns, broker.log_position()
        sockets = broker.sockets()
        broker.forget_peak()
        bystander.go_on()
        yield
        assert broker.is_alive, f"the broker ended: {broker.tail()}"
        assert not broker.defects_since(log_position)
        eventually(lambda: broker.sockets() <= sockets, "every connection of the attackers is closed")
        eventually(lambda: bystander.turns > turns or bystander.failure is not None, "the honest client is served")
        failure = bystander.take_failure()
        assert failure is None, f"the honest client failed: {failure!r}"
        bystander.rest()  # it lives as long as the whole suite, whose other tests need the processor
        peak_bytes = broker.peak_memory_bytes()
        assert peak_bytes < MEMORY_BOUND_BYTES, f"{peak_bytes / MIB:.0f} MiB were resident"
