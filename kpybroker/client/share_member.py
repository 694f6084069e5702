"""A member of a share group (KIP-932), for ``kpybroker share``: acquires records and acknowledges each one.

It has a share session with each leader. Between two polls it heartbeats; acknowledgements go with the next poll, or
when it leaves. Invariant: only records that were handed out and finished (`finish`) are acknowledged. All others are
released when their session ends, or when their locks do.
"""

import os
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.client.leaver import Leaver
from kpybroker.client.patience import Patience
from kpybroker.client.reader import ReadRecord
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes, uuid
from kpywire.batch import batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.messages import share_acknowledge, share_fetch
from kpywire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kpywire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from kpywire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kpywire.record import Record, read_batch

GAP: Final = 0
ACKNOWLEDGEMENTS: Final = {"accept": 1, "release": 2, "reject": 3}
RECORD_LIMIT: Final = 1
JOINING: Final = 0
LEAVING: Final = -1
LEAVE_PATIENCE_S: Final = 5.0
MAX_RECORDS: Final = 500
MAX_WAIT_MS: Final = 500
MAX_BYTES: Final = 16 * 1024 * 1024
FENCED: Final = frozenset((error_codes.UNKNOWN_MEMBER_ID, error_codes.FENCED_MEMBER_EPOCH))
OUT_OF_SESSION: Final = frozenset((error_codes.SHARE_SESSION_NOT_FOUND, error_codes.INVALID_SHARE_SESSION_EPOCH))

Answers = dict[Spot, dict[int, int]]
"""The acknowledgement of each offset."""


class AcknowledgementBatch(NamedTuple):
    """Acknowledgements of offsets that follow each other."""

    first: int
    types: list[int]

    @property
    def last(self) -> int:
        return self.first + len(self.types) - 1


class ShareGroupReader(Leaver):
    """A member of ``group`` that reads ``topics`` and acknowledges what it has finished with ``answer``."""

    def __init__(
        self, client: Client, group: str, topics: Iterable[str], answer: int, patience_s: float | None = None
    ) -> None:
        super().__init__(client, group)
        self.topics = sorted(topics)
        self.answer = answer
        self.patience = Patience(client, patience_s)
        self.patience_s = patience_s
        self.member_id = uuid.to_string(uuid.random_uuid(os.urandom(uuid.UUID_BYTES)))
        self.assigned: tuple[Spot, ...] = ()
        self.lost = 0
        """The number of acknowledgements that came too late, or could not be sent."""
        self._epoch = JOINING
        self._heartbeat_at = 0.0
        self._sessions: dict[int, int] = {}
        self._in_session: dict[int, frozenset[Spot]] = {}
        self._answers: Answers = {}

    def keep_up(self) -> bool:
        """Join, or heartbeat if it is time. Return whether the assignment is another one now. Raises KafkaError."""
        if time.monotonic() < self._heartbeat_at:
            return False
        before = self.assigned
        self.client.retrying(self._heartbeat, self.patience_s)
        return self.assigned != before

    def _heartbeat(self) -> None:
        answer = self._beat(self._epoch)
        if answer.error_code in FENCED:
            self._epoch = JOINING
            self.assigned = ()
            answer = self._beat(JOINING)
        raise_for(answer.error_code, f"group {self.group}", answer.error_message)
        self._epoch = answer.member_epoch
        self._heartbeat_at = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self.assigned = tuple(sorted(self._spots(answer.assignment.topic_partitions)))

    def _beat(self, epoch: int) -> Any:
        topics = self.topics if epoch == JOINING else None
        request = ShareGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch, subscribed_topic_names=topics
        )
        return self.client.call_coordinator(self.group, request)

    def _spots(self, topics: Iterable[Any]) -> Iterator[Spot]:
        names = self._names()
        for topic in topics:
            if topic.topic_id in names:
                yield from (Spot(names[topic.topic_id], index) for index in topic.partitions)

    def _names(self) -> dict[bytes, str]:
        return {self.client.topic(name).topic_id: name for name in self.topics}

    def poll(self, most: int | None = None) -> Iterator[ReadRecord]:
        """The records of one round, about ``most`` of them, none if nothing came for a while. Each is acknowledged
        once it is finished. Raises KafkaError, Unreachable."""
        wait_s = self._heartbeat_at - time.monotonic()
        wait_ms = max(min(MAX_WAIT_MS, int(wait_s * 1000)), 0)
        trouble: KafkaError | Unreachable | None = None
        try:
            led = self.client.by_leader(self.assigned)
        except (KafkaError, Unreachable) as error:
            self.patience.settle(self.patience.passing(error))
            return
        if not led:
            time.sleep(wait_ms / 1000)
        for node_id in {**led, **self._sessions}:
            try:
                answers = self._fetch(node_id, led.get(node_id, []), wait_ms // max(len(led), 1), most)
            except (KafkaError, Unreachable) as error:
                trouble = self.patience.passing(error)
                self._end_session(node_id)
                continue
            for spot, answer in answers:
                trouble = self._trouble_of(spot, answer.error_code) or trouble
                for record in self._records(spot, answer):
                    yield ReadRecord(spot, record)
        self.patience.settle(trouble)

    def _trouble_of(self, spot: Spot, code: int) -> KafkaError | None:
        try:
            raise_for(code, f"partition {spot}")
        except KafkaError as error:
            self.patience.passing(error)
            return error
        return None

    def _fetch(self, node_id: int, spots: list[Spot], wait_ms: int, most: int | None) -> list[tuple[Spot, Any]]:
        epoch = self._sessions.get(node_id, 0)
        session = self._in_session.get(node_id, frozenset())
        answers = self._taken(session)
        gone = session.difference(spots)
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=MAX_RECORDS if most is None else min(most, MAX_RECORDS),
            batch_size=MAX_RECORDS,
            share_acquire_mode=0 if most is None else RECORD_LIMIT,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=[_fetched(spot, answers) for spot in of_topic])
                for topic_id, of_topic in self._by_topic({*spots, *answers})
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=[spot.partition for spot in of_topic])
                for topic_id, of_topic in self._by_topic(gone)
            ],
        )
        try:
            response = self.client.call_node(node_id, request, wait_s=wait_ms / 1000)
        except Unreachable:
            self._count_lost(answers)
            raise
        if response.error_code:
            self._count_lost(answers)
        if response.error_code in OUT_OF_SESSION:
            self._end_session(node_id)
            return []
        raise_for(response.error_code, f"group {self.group}", response.error_message)
        self._sessions[node_id] = epoch + 1
        self._in_session[node_id] = frozenset(spots)
        found = list(self._answered(response.responses))
        for spot, answer in found:
            if answer.acknowledge_error_code:
                self._count_lost({spot: answers.get(spot, {})})
        return found

    def _by_topic(self, spots: Iterable[Spot]) -> Iterator[tuple[bytes, list[Spot]]]:
        for topic, of_topic in groupby(sorted(spots), lambda spot: spot.topic):
            yield self.client.topic(topic).topic_id, list(of_topic)

    def _answered(self, topics: Iterable[Any]) -> Iterator[tuple[Spot, Any]]:
        names = self._names()
        for topic in topics:
            if topic.topic_id in names:
                for answer in topic.partitions:
                    yield Spot(names[topic.topic_id], answer.partition_index), answer

    def _records(self, spot: Spot, answer: Any) -> Iterator[Record]:
        """The records that are acquired. Offsets without a record, as of control records, are acknowledged as gaps."""
        if not answer.acquired_records:
            return
        left = {offset for each in answer.acquired_records for offset in range(each.first_offset, each.last_offset + 1)}
        data = answer.records or b""
        found = []
        try:
            for position, header in batch_headers(data):
                if not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not header.is_control:
                    found += [record for record in read_batch(data, header, position) if record.offset in left]
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None
        gaps = left.difference(record.offset for record in found)
        if gaps:
            self._answers.setdefault(spot, {}).update(dict.fromkeys(gaps, GAP))
        yield from found

    def finish(self, spot: Spot, next_offset: int) -> None:
        """Note that the record before ``next_offset`` is finished and may be acknowledged."""
        self._answers.setdefault(spot, {})[next_offset - 1] = self.answer

    def forget(self) -> None:
        """Forget what was finished since the last poll: it did not reach the output, and is released."""
        self._answers.clear()

    def _taken(self, spots: Iterable[Spot]) -> Answers:
        return {spot: self._answers.pop(spot) for spot in spots if spot in self._answers}

    def _count_lost(self, answers: Answers) -> None:
        self.lost += sum(answer != GAP for each in answers.values() for answer in each.values())

    def _end_session(self, node_id: int) -> None:
        """Forget a session, and what was acquired in it: it is released."""
        self._sessions.pop(node_id, None)
        self._count_lost(self._taken(self._in_session.pop(node_id, ())))

    def leave(self) -> None:
        """Acknowledge, release all else, and leave.

        A command that ends does not wait long for a broker that is gone.
        """
        if self._epoch == JOINING:
            return
        self.client.hurry(LEAVE_PATIENCE_S)
        try:
            for node_id in list(self._sessions):
                self._close(node_id)
        finally:
            self._epoch = JOINING
            self._beat(LEAVING)

    def _close(self, node_id: int) -> None:
        del self._sessions[node_id]
        answers = self._taken(self._in_session.pop(node_id))
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=LEAVING,
            topics=[
                AcknowledgeTopic(topic_id=topic_id, partitions=[_acknowledged(spot, answers) for spot in of_topic])
                for topic_id, of_topic in self._by_topic(answers)
            ],
        )
        try:
            response = self.client.call_node(node_id, request)
        except (KafkaError, Unreachable):
            self._count_lost(answers)
            raise
        if response.error_code:
            self._count_lost(answers)
        raise_for(response.error_code, f"group {self.group}", response.error_message)
        for spot, answer in self._answered(response.responses):
            if answer.error_code:
                self._count_lost({spot: answers.get(spot, {})})


def _fetched(spot: Spot, answers: Answers) -> FetchPartition:
    return FetchPartition(
        partition_index=spot.partition,
        acknowledgement_batches=[
            share_fetch.AcknowledgementBatch(
                first_offset=each.first, last_offset=each.last, acknowledge_types=each.types
            )
            for each in batches(answers.get(spot, {}))
        ],
    )


def _acknowledged(spot: Spot, answers: Answers) -> AcknowledgePartition:
    return AcknowledgePartition(
        partition_index=spot.partition,
        acknowledgement_batches=[
            share_acknowledge.AcknowledgementBatch(
                first_offset=each.first, last_offset=each.last, acknowledge_types=each.types
            )
            for each in batches(answers[spot])
        ],
    )


def batches(answers: dict[int, int]) -> list[AcknowledgementBatch]:
    """The acknowledgements as requests have them."""
    found: list[AcknowledgementBatch] = []
    for offset, answer in sorted(answers.items()):
        if found and found[-1].last == offset - 1:
            found[-1].types.append(answer)
        else:
            found.append(AcknowledgementBatch(offset, [answer]))
    return found
