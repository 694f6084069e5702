"""Producer ids from the controller, a block at a time (Kafka's RPCProducerIdManager, KIP-730).

A block is requested at the first need and again when nine tenths of it are used, so that producers do not wait in
between.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest

PREFETCH_AT = 0.9
UNREGISTERED = -1
"""The epoch of a broker that is not registered yet: the controller would give it no ids."""

Receiver = Callable[[int | None], object]
"""Gets a producer id, or None when there is none for now."""


class ProducerIds:
    """Hands out ids that no producer of the cluster ever had. ``send`` is the way to the controller."""

    def __init__(
        self, send: Callable[[Any, Callable[[Any], object]], None], node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._send = send
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._block = range(0)
        self._next_block: range | None = None
        self._used = 0
        self._asking = self._is_outdated = False
        """Whether a block is asked for, and whether it may be one of those that were forgotten."""
        self._waiting: deque[Receiver] = deque()

    def next(self, receive: Receiver) -> None:
        """Call ``receive`` with an id: at once while a block lasts."""
        self._waiting.append(receive)
        self._serve()

    def at_once(self) -> int:
        """Return an id, or -1 if none is available now; then a new block is requested."""
        taken: list[int | None] = []
        if self._next_block is not None or self._used < len(self._block):
            self.next(taken.append)
        else:
            self._ask()
        return -1 if not taken or taken[0] is None else taken[0]

    def forget_blocks(self) -> None:
        """Hand out no more ids of the present blocks: ids go on far away, where no other cluster has them."""
        self._block, self._next_block, self._used = range(0), None, 0
        self._is_outdated = self._asking

    def _serve(self) -> None:
        while self._waiting:
            if self._used == len(self._block):
                if self._next_block is None:
                    break
                self._block, self._next_block, self._used = self._next_block, None, 0
            producer_id = self._block[self._used]
            self._used += 1
            self._waiting.popleft()(producer_id)
        if self._next_block is None and self._used >= PREFETCH_AT * len(self._block):
            self._ask()

    def _ask(self) -> None:
        if self._asking:
            return
        broker_epoch = self._broker_epoch()
        if broker_epoch == UNREGISTERED:
            self._refuse()
            return
        self._asking = True
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=broker_epoch)
        self._send(request, self._answered)

    def _refuse(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for receive in waiting:
            receive(None)

    def _answered(self, response: Any) -> None:
        self._asking = False
        if self._is_outdated:
            self._is_outdated = False
            self._ask()
            return
        if response.error_code != error_codes.NONE:
            self._refuse()
            return
        start = response.producer_id_start
        self._next_block = range(start, start + response.producer_id_len)
        if self._waiting:
            self._serve()
