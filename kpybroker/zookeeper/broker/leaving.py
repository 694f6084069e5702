"""The leave of a broker from its cluster: its controller moves leaderships away first (ControlledShutdown)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from kpybroker.zookeeper.broker.registration import ZooKeeperRegistration
from kpywire import error_codes
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest

log = logging.getLogger("kpybroker")


class Attempts(NamedTuple):
    """How often the controller is asked."""

    most: int
    """``controlled.shutdown.max.retries``."""
    backoff_ms: int


async def let_leaderships_go(
    registration: ZooKeeperRegistration,
    broker_id: int,
    send: Callable[[Any, Callable[[Any], object]], object],
    attempts: Attempts,
) -> None:
    """Ask the controller until no partition is led here, or as often as configured. A broker that never registered
    does not ask."""
    if registration.broker_epoch < 0:
        return
    registration.leaving()
    for attempt in range(attempts.most):
        if attempt:
            await asyncio.sleep(attempts.backoff_ms / 1000)
        request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=registration.broker_epoch)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        send(request, lambda response, to=answered: None if to.done() else to.set_result(response))  # type: ignore[misc]
        response = await answered
        if response.error_code == error_codes.NONE and not response.remaining_partitions:
            log.info("Controlled shutdown request returned successfully after %d attempts", attempt + 1)
            return
        log.info(
            "The controlled shutdown is tried again: error %s, %d partitions are still led here",
            error_codes.name(response.error_code),
            len(response.remaining_partitions),
        )
    log.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")
