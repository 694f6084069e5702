"""An ordinary client that goes on working while the broker is attacked, and notices when it is not served.

It produces numbered records, reads them back and asks for metadata, in turns, each answer checked. It asserts answers,
and of time only that none takes longer than a patient client would wait.
"""

import threading
import time

from kpywire import api, error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient

PRODUCE_VERSION = 9
FETCH_VERSION = 12
METADATA_VERSION = 9
PAUSE_S = 0.02
RESTING_S = 5.0


class Bystander:
    """One client on one connection in a thread. ``topic`` must exist, with a partition that nobody else writes to."""

    def __init__(self, port: int, topic: str, patience_s: float, pause_s: float = PAUSE_S) -> None:
        self.port = port
        self.topic = topic
        self.patience_s = patience_s
        self.pause_s = pause_s
        self.turns = 0
        self.durations_s: list[float] = []
        self.failure: BaseException | None = None
        self._stopped = threading.Event()
        self._at_work = threading.Event()
        self.go_on()
        self._begin()

    def _begin(self) -> None:
        self._client = RawClient(self.port, client_id="bystander", timeout_s=self.patience_s)
        self._thread = threading.Thread(target=self._work, name="bystander", daemon=True)
        self._thread.start()

    def take_failure(self) -> BaseException | None:
        """The failure, if there was one; it starts again then, so that the next test is judged by itself."""
        failure, self.failure = self.failure, None
        if failure is not None:
            self._thread.join()
            self._client.sock.close()
            self._begin()
        return failure

    def rest(self) -> None:
        """Take only as many turns as keep the connection from idling, until `go_on`."""
        self._at_work.clear()

    def go_on(self) -> None:
        self._at_work.set()

    def stop(self) -> None:
        """Let it finish its turn and leave."""
        self._stopped.set()
        self._at_work.set()
        self._thread.join()
        self._client.sock.close()

    def _work(self) -> None:
        try:
            while not self._stopped.wait(self.pause_s):
                self._at_work.wait(RESTING_S)
                began = time.monotonic()
                self._turn(self.turns)
                self.durations_s.append(time.monotonic() - began)
                self.turns += 1
        except BaseException as failure:
            self.failure = failure

    def _turn(self, number: int) -> None:
        value = b"record %d" % number
        batch = build_batch([Record(timestamp=int(time.time() * 1000), value=value)])
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=self.topic, partition_data=[data])
        produced = self._client.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), PRODUCE_VERSION)
        answer = produced.responses[0].partition_responses[0]
        assert answer.error_code == error_codes.NONE, answer
        assert self._read(answer.base_offset) == value
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)])
        metadata = self._client.call(request, METADATA_VERSION)
        assert metadata.topics[0].error_code == error_codes.NONE, metadata

    def _read(self, offset: int) -> bytes | None:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
        topic = FetchTopic(topic=self.topic, partitions=[partition])
        request = FetchRequest(max_wait_ms=30_000, min_bytes=1, topics=[topic])
        self._client.send(request, FETCH_VERSION)
        fetched = self._client.receive(api.FETCH, FETCH_VERSION)
        answer = fetched.responses[0].partitions[0]
        assert answer.error_code == error_codes.NONE, answer
        return next(record.value for record in read_records(answer.records) if record.offset == offset)
