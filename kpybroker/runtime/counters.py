"""The counters of served requests: plain integers, so that counting costs next to nothing.

A time is counted in one bucket per half octave of nanoseconds, ``(ns * ns).bit_length()``. No bounds have to be chosen,
no table is searched, and a quantile read from the buckets is off by less than half. Metrics are not known here.

Invariant: counts only grow.
"""

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final

BUCKETS: Final = 160
"""The number of buckets. The last one is for more than 300 000 years."""
BRIEF_NS: Final = 50_000
"""A wait up to this long is not counted."""


class ApiCounters:
    """The counters of one api key, over all its versions and connections. The lists count requests by the time that
    they spent:

    - ``queue``: readable, while others were served
    - ``local``: being decoded, handled and encoded
    - ``remote``: parked, for records or for a commit
    - ``waiting``: answered, while earlier answers of their connection were due
    - ``send``: until the socket had taken the last byte
    - ``total``: all of these together

    ``local`` and ``total`` count every request. The others count only requests that spent more than `BRIEF_NS` there,
    which most do not. So most requests are counted only twice.
    """

    __slots__ = (
        "error_codes",
        "failures",
        "local",
        "local_ns",
        "queue",
        "remote",
        "request_bytes",
        "response_bytes",
        "send",
        "total",
        "waiting",
    )

    def __init__(self) -> None:
        self.failures = 0
        """The number of requests that ended their connection."""
        self.error_codes: dict[int, int] = {}
        """The number of answers with each of Kafka's error codes."""
        self.request_bytes = self.response_bytes = self.local_ns = 0
        self.queue: list[int] = []
        self.local: list[int] = []
        self.remote: list[int] = []
        self.waiting: list[int] = []
        self.send: list[int] = []
        self.total: list[int] = []

    def prepare(self) -> "ApiCounters":
        """Allocate the lists, before the first request is counted. So api keys that are never used cost no memory."""
        if not self.total:
            self.queue, self.local, self.remote, self.waiting, self.send, self.total = ([0] * BUCKETS for _ in range(6))
        return self

    def count_error(self, code: int) -> None:
        """Count an answer with this error."""
        self.error_codes[code] = self.error_codes.get(code, 0) + 1


Due = tuple[ApiCounters, int, int, int]
"""A request whose answer is being sent: its counters, and the times when it became readable, when it was parked, and
when it was answered, in ns of ``perf_counter_ns``. The last two are the same if it was answered at once."""


def count_sent(unsent: Sequence[Due], began_ns: int) -> None:
    """Count requests whose answers were just sent together, and so took the same time to send."""
    now_ns = perf_counter_ns()
    send_ns = now_ns - began_ns
    sent_bucket = (send_ns * send_ns).bit_length()
    for counters, arrived_ns, parked_ns, answered_ns in unsent:
        remote_ns = answered_ns - parked_ns
        if remote_ns > 0:
            counters.remote[(remote_ns * remote_ns).bit_length()] += 1
        waiting_ns = began_ns - answered_ns
        if waiting_ns > BRIEF_NS:
            counters.waiting[(waiting_ns * waiting_ns).bit_length()] += 1
        if send_ns > BRIEF_NS:
            counters.send[sent_bucket] += 1
        total_ns = now_ns - arrived_ns
        counters.total[(total_ns * total_ns).bit_length()] += 1


UNCOUNTED: Final = ApiCounters().prepare()
"""The counters of requests that no dispatcher serves."""
