"""Faults on purpose: what a test asked for, and the interceptor in front of the handlers that causes it.

A fault is for requests of an API, a topic or a client, for a number of times. The first rule that matches a request
counts it. Requests of this package's own client are left alone, so that a test can look at a broker it has broken.

Invariant: a request that is answered with an error has had no effect for the topics that the error is about.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kpybroker.machines.failed_response import OF_A_FETCH_SESSION, failed_response
from kpybroker.runtime.calls.call import Call, Handle
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.pending import Pending
from kpybroker.testing.request_topics import merged, names_a_topic, split
from kpywire import api, error_codes
from kpywire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchTopic, PartitionData
from kpywire.produce import Produce, codec_for

OWN_CLIENT_ID = "kpybroker-testing"
ANY_API = -1
FAIL, DELAY, DISCONNECT, DROP = "fail", "delay", "disconnect", "drop"


class FaultSpec(NamedTuple):
    """The description of a fault: what happens to which requests. Every value can be written as JSON, for a broker in a
    child process."""

    action: str
    api_key: int
    topic: str | None = None
    client_id: str | None = None
    times: int | None = None
    """The number of requests that it affects; None for no limit."""
    skip: int = 0
    """The number of requests that pass first."""
    error_code: int = error_codes.NONE
    delay_ms: float = 0.0
    served: bool = False
    """Whether the connection is closed only after the request has had its effect."""


class FaultRule:
    """A fault with the number of requests that it has affected."""

    def __init__(self, spec: FaultSpec) -> None:
        self.spec = spec
        self.seen = 0
        self.hits = 0

    def takes(self, broker: Any, request: Any, call: Call) -> bool:
        """Whether this request is affected. If so, it is counted."""
        spec = self.spec
        if spec.api_key not in (call.api_key, ANY_API) or (spec.times is not None and self.hits >= spec.times):
            return False
        if call.client_id != spec.client_id and (spec.client_id is not None or call.client_id == OWN_CLIENT_ID):
            return False
        if spec.topic is not None and not _names(broker, request, spec.topic):
            return False
        self.seen += 1
        if self.seen <= spec.skip:
            return False
        self.hits += 1
        return True


class BrokerFaults:
    """All faults of one broker, and the interceptor for `kpybroker.node.node.Node`."""

    def __init__(self) -> None:
        self.rules: dict[int, FaultRule] = {}
        self._next_id = 1

    def add(self, spec: FaultSpec) -> int:
        """Add a fault. Return its number."""
        number, self._next_id = self._next_id, self._next_id + 1
        self.rules[number] = FaultRule(spec)
        return number

    def intercept(self, _api_key: int, handle: Handle) -> Handle:
        """The function that is called in place of a handler."""

        def faulty(broker: Any, request: Any, call: Call) -> Any:
            if self.rules:
                for rule in self.rules.values():
                    if rule.takes(broker, request, call):
                        return _Meeting(rule, handle, broker, request, call).answer()
            return handle(broker, request, call)

        return faulty


def _names(broker: Any, request: Any, topic: str) -> bool:
    """Whether a request is about a topic, also where it gives the id or where its fetch session contains the topic."""
    wanted = (topic, _id_of(broker, topic))
    if isinstance(request, Produce):
        return any(key in wanted for key, _ in request.topics)
    if isinstance(request, FetchRequest) and request.session_id:
        session = broker.fetch_sessions.sessions.get(request.session_id)
        if session is not None and any(entry.topic in wanted for entry in session.entries.values()):
            return True
    return split(request, lambda key: key in wanted)[0] is not None


def _id_of(broker: Any, name: str) -> bytes | None:
    topic = broker.image.topics.get(name)
    return None if topic is None else topic.id


class _Meeting:
    """A fault and a request that it affects."""

    def __init__(self, rule: FaultRule, handle: Handle, broker: Any, request: Any, call: Call) -> None:
        self.rule = rule
        self.spec = rule.spec
        self.handle = handle
        self.broker = broker
        self.request = request
        self.call = call

    def answer(self) -> Any:
        """The answer for the dispatcher: a response, a `Pending` or nothing. Raises CloseConnection."""
        action = self.spec.action
        if action == FAIL:
            return self._fail()
        if action == DISCONNECT and not self.spec.served:
            raise CloseConnection("a test asked for this fault")
        if action == DELAY:
            return self._later(self._delayed)
        if action == DROP:
            return self._later(lambda _pending, _answer: None)
        return self._later(lambda _pending, _answer: self.call.peer.close())

    def _serve(self, request: Any) -> Any:
        return self.handle(self.broker, request, self.call)

    def _later(self, then: Callable[[Pending, Any], object]) -> Pending | None:
        """Serve the request, and let ``then`` decide about its answer."""
        answer = self._serve(self.request)
        if answer is None:
            return None
        if not isinstance(answer, Pending):
            pending = Pending(overlaps=self.call.api_key == api.PRODUCE)
            self.broker.scheduler.call_soon(then, pending, answer)
            return pending
        return _after(answer, then)

    def _delayed(self, pending: Pending, answer: Any) -> None:
        timer = self.broker.scheduler.call_later(self.spec.delay_ms, pending.resolve, answer)
        pending.when_cancelled(timer.cancel)

    # Errors

    def _fail(self) -> Any:
        if isinstance(self.request, Produce):
            return self._fail_produce(self.request)
        code, version = self.spec.error_code, self.call.api_version
        if self.call.api_key == api.FETCH and code not in OF_A_FETCH_SESSION:
            return self._fail_fetch()
        if self.spec.topic is None:
            return failed_response(self.request, version, code)
        chosen, rest = split(self.request, self._is_meant)
        failed = failed_response(chosen, version, code)
        if rest is None:
            return failed
        answer = self._serve(rest)
        if isinstance(answer, Pending):
            return _after(answer, lambda pending, late: pending.resolve(merged(late, failed, version)))
        return merged(answer, failed, version)

    def _is_meant(self, key: str | bytes) -> bool:
        topic = self.spec.topic
        return topic is None or key == topic or (isinstance(key, bytes) and key == _id_of(self.broker, topic))

    def _fail_produce(self, request: Produce) -> Any:
        code = self.spec.error_code
        meant = [topic for topic in request.topics if self._is_meant(topic[0])]
        others = [topic for topic in request.topics if not self._is_meant(topic[0])]
        if request.acks == 0:
            raise CloseConnection("a test asked for an error, and the client for no answer")
        refusal = codec_for(self.call.api_version).refusal
        failed = [(key, [refusal(index, code, None) for index, _ in parts]) for key, parts in meant]
        if not others:
            return failed
        answer = self._serve(request._replace(topics=others))
        if isinstance(answer, Pending):
            return _after(answer, lambda pending, late: pending.resolve([*late, *failed]))
        return [*answer, *failed]

    def _fail_fetch(self) -> Any:
        """Serve the Fetch at once, so that its session continues, and put the error in place of the records."""
        self.request.max_wait_ms = 0
        self.request.topics = [
            FetchTopic(topic=each.topic, topic_id=each.topic_id, partitions=each.partitions)
            for each in self.request.topics
        ]
        session = self.broker.fetch_sessions.sessions.get(self.request.session_id)
        answer = self._serve(self.request)
        meant = [] if session is None else [one for one in session.entries.values() if self._is_meant(one.topic)]
        named = [topic for topic in answer.responses if names_a_topic(topic, self._is_meant)]
        for topic in named:
            topic.partitions = [self._failed_partition(one.partition_index) for one in topic.partitions]
        named_partitions = {
            (topic.topic or topic.topic_id, one.partition_index) for topic in named for one in topic.partitions
        }
        for entry in meant:
            if (entry.topic, entry.index) not in named_partitions:
                more = FetchableTopicResponse(partitions=[self._failed_partition(entry.index)])
                setattr(more, "topic_id" if isinstance(entry.topic, bytes) else "topic", entry.topic)
                answer.responses.append(more)
        return answer

    def _failed_partition(self, index: int) -> PartitionData:
        return PartitionData(
            partition_index=index,
            error_code=self.spec.error_code,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )


def _after(answer: Pending, then: Callable[[Pending, Any], object]) -> Pending:
    """A `Pending` in place of ``answer``, which ``then`` resolves when that is resolved."""
    pending = Pending(overlaps=answer.overlaps)
    pending.when_cancelled(answer.cancel)

    def resolved(late: Any) -> None:
        then(pending, late)

    answer.when_resolved(resolved)
    return pending
