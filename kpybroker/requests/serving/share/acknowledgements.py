"""The acknowledgements of a request, as ShareFetch and ShareAcknowledge carry them: checked, then taken.

(Kafka: ``KafkaApis.handleAcknowledgements``, ``validateAcknowledgementBatches``.)
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.share.acknowledging import REJECT, RENEW, Acknowledgement
from kpybroker.machines.share.sessions import Partition, SessionKey
from kpybroker.requests.serving.permissions import may
from kpybroker.requests.serving.share.share_leader import ShareLeader
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes

RENEWS_FROM: Final = 2


class AcknowledgementOutcome(NamedTuple):
    """The outcome of the acknowledgements in one partition."""

    error_code: int
    text: str | None = None


Outcomes = dict[Partition, AcknowledgementOutcome]


class Acknowledging:
    """The acknowledgements of one request."""

    __slots__ = ("_call", "_is_renewal", "_key", "_leader")

    def __init__(self, leader: ShareLeader, key: SessionKey, call: Call, *, is_renewal: bool) -> None:
        """``is_renewal``: the request says that it renews locks."""
        self._leader = leader
        self._key = key
        self._call = call
        self._is_renewal = is_renewal

    def take(self, topics: Iterable[Any]) -> "Outcomes | Pending":
        """Take the acknowledgements of these topics of a request. The outcomes, or a `Pending` of them."""
        outcomes: Outcomes = {}
        asked: dict[Partition, list[Acknowledgement]] = {}
        for topic in topics:
            for each in topic.partitions:
                partition = (topic.topic_id, each.partition_index)
                batches = [
                    Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in each.acknowledgement_batches
                ]
                code = self._refusal(partition, batches)
                if code or not batches:
                    outcomes[partition] = AcknowledgementOutcome(code)
                else:
                    asked[partition] = batches
        if not asked:
            return {partition: each for partition, each in outcomes.items() if each.error_code}
        return self._ask(asked, outcomes)

    def _ask(self, asked: dict[Partition, list[Acknowledgement]], outcomes: Outcomes) -> "Outcomes | Pending":
        missing = len(asked)
        pending: Pending | None = None

        def stored(partition: Partition, code: int, text: str | None) -> None:
            nonlocal missing
            outcomes[partition] = AcknowledgementOutcome(code, text)
            missing -= 1
            if code == error_codes.NONE:
                for each in asked[partition]:
                    self._leader.metrics.count(each.types, each.last_offset - each.first_offset + 1)
            if not missing and pending is not None:
                pending.resolve(outcomes)

        for partition, batches in asked.items():
            self._acknowledge(partition, batches, partial(stored, partition))
        if not missing:
            return outcomes
        pending = Pending()
        return pending

    def _acknowledge(
        self, partition: Partition, batches: Sequence[Acknowledgement], stored: Callable[[int, str | None], None]
    ) -> None:
        led = self._leader.find(self._key.group_id, partition)
        if led is None:
            code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            stored(code, error_codes.message(code))
            return
        led.acknowledge(self._key.member_id, batches, stored)
        led.wake()

    def _refusal(self, partition: Partition, batches: Sequence[Acknowledgement]) -> int:
        broker = self._leader.broker
        topic = broker.image.topics_by_id.get(partition[0])
        if topic is None:
            return error_codes.UNKNOWN_TOPIC_ID
        if not self._are_right(batches):
            return error_codes.INVALID_REQUEST
        if not may(broker, self._call, AclOperation.READ, ResourceType.TOPIC, topic.name):
            return error_codes.TOPIC_AUTHORIZATION_FAILED
        if partition[1] not in topic.partitions:
            return error_codes.UNKNOWN_TOPIC_OR_PARTITION
        return error_codes.NONE

    def _are_right(self, batches: Sequence[Acknowledgement]) -> bool:
        last_type = RENEW if self._call.api_version >= RENEWS_FROM else REJECT
        before = -1
        for first, last, types in batches:
            if first > last or first < before or not types:
                return False
            if len(types) > 1 and len(types) != last - first + 1:
                return False
            if not all(0 <= each <= last_type for each in types) or (RENEW in types and not self._is_renewal):
                return False
            before = last
        return True
