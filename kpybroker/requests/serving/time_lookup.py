"""Finding records by their time. A process beside the loop searches the batches that take long.

A look-up is repeated when the process has answered, since the log may have changed meanwhile. Not a handler.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kpybroker.hosts.labour import tasks
from kpybroker.hosts.labour.tasks import Answer, Located, Overloaded, Oversized
from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes, time_search
from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.time_search import Found, LaboriousSearch, Search, first_not_older
from kpywire.varint import Buffer
from kpywire.walk import OversizedRecord

if TYPE_CHECKING:
    from kpybroker.hosts.labour.labour import Labour

T = TypeVar("T")

AT_ONCE: Final = time_search.SearchLabour(inflated_bytes=9 << 17, parts=1024, records=8192)
"""The work that is done at once: 3 ms."""

_Key = tuple[BatchHeader, int, int, int]


class _Searches:
    """Searches of batches, whose outcomes are remembered if they came from elsewhere."""

    def __init__(self) -> None:
        self.known: dict[_Key, Answer] = {}
        self.wanted: tuple[_Key, tasks.BatchSearch] | None = None
        """The search that is to be made elsewhere."""

    def __call__(
        self, batch: Buffer, header: BatchHeader, timestamp: int, start_offset: int, most_record_bytes: int
    ) -> Found:
        key = header, timestamp, start_offset, most_record_bytes
        answer = self.known.get(key)
        if isinstance(answer, Located):
            return answer.found
        if isinstance(answer, Overloaded):
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, "too many batches wait for their search")
        if isinstance(answer, Oversized):
            raise OversizedRecord(*answer)
        if answer is not None:
            raise Malformed(str(answer))
        try:
            return first_not_older(batch, header, timestamp, start_offset, most_record_bytes, AT_ONCE)
        except LaboriousSearch:
            self.wanted = key, tasks.BatchSearch(bytes(batch), timestamp, start_offset, most_record_bytes)
            raise


def found_in_steps(
    labour: "Labour", party: str, look_up: Callable[[Search], T], charge: Callable[[int], object] | None = None
) -> Generator[Pending | None, Any, T]:
    """The result of ``look_up``, which is called again after each search that was made elsewhere for ``party``.
    ``charge`` is called with the CPU time of each search."""
    searches = _Searches()
    while True:
        try:
            return look_up(searches)
        except LaboriousSearch:
            assert searches.wanted is not None
            key, task = searches.wanted
            searches.known[key] = yield labour.ask(party, task, charge)


def when_found(labour: "Labour", party: str, look_up: Callable[[Search], T], found: Callable[[T], object]) -> None:
    """Call ``found`` with the result of ``look_up``, at once or when the searches that it needs are made."""
    steps = found_in_steps(labour, party, look_up)

    def go_on(answer: Answer | None) -> None:
        try:
            pending = steps.send(answer)
        except StopIteration as end:
            found(end.value)
        else:
            assert pending is not None
            pending.when_resolved(go_on)

    go_on(None)
