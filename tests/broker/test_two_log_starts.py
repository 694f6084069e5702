"""ListOffsets tells the start of a log that clients see from the first offset on this disk (-4, KIP-405)."""

from types import SimpleNamespace
from typing import Any

from kpybroker.requests.handlers.list_offsets import EARLIEST, EARLIEST_LOCAL, _find
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log_offset import LogOffset
from kpywire.time_search import first_not_older


def test_clients_get_the_log_start_that_their_isolation_level_needs() -> None:
    log = SimpleNamespace(log_start_offset=3, local_log_start_offset=10, epochs=LeaderEpochs())
    role: Any = SimpleNamespace(log=log, epoch=1)
    assert _find(role, EARLIEST, LogOffset(15), first_not_older)[1] == 3
    assert _find(role, EARLIEST_LOCAL, LogOffset(15), first_not_older)[1] == 10
