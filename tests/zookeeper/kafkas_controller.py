"""Apache Kafka 3.9 as the controller of brokers that only register, record what it sends, and answer."""

import socketserver
import struct
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient

from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kpywire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from kpywire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from oracle.process import HOST
from oracle.zookeeper import KafkaOnZooKeeper, ZooKeeper
from support.raw_client import RawClient
from support.waiting import NotInTimeError, attempts, eventually

CONTROLLER_ID = 0
QUIET_S = 0.25
CHROOT = "/kafka"


class FakeBroker:
    """A broker with a port and a session. ``failed`` are replicas in a failed directory."""

    def __init__(self, broker_id: int, connect: str) -> None:
        self.id = broker_id
        self.failed: set[TopicPartition] = set()
        self.requests: list[Any] = []
        self._topics: dict[str, bytes] = {}
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while (size := _exactly(self.request, 4)) is not None:
                    frame = _exactly(self.request, struct.unpack(">i", size)[0])
                    if frame is None:
                        return
                    answer = broker.answer(frame)
                    self.request.sendall(struct.pack(">i", len(answer)) + answer)

        self._server = socketserver.ThreadingTCPServer((HOST, 0), Handler, bind_and_activate=True)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        endpoint = ZkEndpoint("PLAINTEXT", HOST, self._server.server_address[1])
        registration = Registration(broker_id, (endpoint,), {"PLAINTEXT": "PLAINTEXT"})
        self._session = KazooClient(hosts=connect)
        self._session.start()
        self._session.create(registration.path, registration.encode(), ephemeral=True)
        self.epoch: int = self._session.get(registration.path)[1].czxid

    def stop(self) -> None:
        self._session.stop()
        self._session.close()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, frame: bytes) -> bytes:
        header = decode_request_header(frame)
        request = codec.decode(api.request_class(header.api_key), header.api_version, frame, header.end)
        response = self._response(request)
        self.requests.append(request)
        start = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        return start + codec.encode(response, header.api_version)

    def _response(self, request: Any) -> Any:
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse(error_code=error_codes.NONE)
        if isinstance(request, LeaderAndIsrRequest):
            topics = [
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(
                            partition_index=each.partition_index,
                            error_code=self._error(topic.topic_name, each.partition_index),
                        )
                        for each in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
            return LeaderAndIsrResponse(error_code=error_codes.NONE, topics=topics)
        assert isinstance(request, StopReplicaRequest)
        errors = [
            StopReplicaPartitionError(
                topic_name=topic.topic_name,
                partition_index=each.partition_index,
                error_code=self._error(topic.topic_name, each.partition_index),
            )
            for topic in request.topic_states
            for each in topic.partition_states
        ]
        return StopReplicaResponse(error_code=error_codes.NONE, partition_errors=errors)

    def _error(self, topic: str, partition: int) -> int:
        failed = TopicPartition(topic, partition) in self.failed
        return error_codes.KAFKA_STORAGE_ERROR if failed else error_codes.NONE


def _exactly(sock: Any, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        try:
            piece = sock.recv(count - len(received))
        except OSError:
            return None
        if not piece:
            return None
        received += piece
    return bytes(received)


class KafkasSide:
    """ZooKeeper, Apache Kafka 3.9 as the controller, and fake brokers."""

    def __init__(self) -> None:
        self._zookeeper = ZooKeeper()
        self._zookeeper.__enter__()
        connect = self._zookeeper.bootstrap_servers + CHROOT
        settings = {"auto.leader.rebalance.enable": "false", "controlled.shutdown.enable": "false"}
        self._controller = KafkaOnZooKeeper(CONTROLLER_ID, connect, settings)
        self._connect = connect
        self._controller.__enter__()
        self.admin = KazooClient(hosts=connect)
        self.admin.start()
        self.client = RawClient(self._controller.port)
        self.brokers: dict[int, FakeBroker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.sock.close()
        for broker_id in list(self.brokers):
            self.kill(broker_id)
        self.admin.stop()
        self.admin.close()
        self._controller.__exit__(kind, error, trace)
        self._zookeeper.__exit__(kind, error, trace)

    def start(self, broker_id: int) -> None:
        self.brokers[broker_id] = FakeBroker(broker_id, self._connect)

    def kill(self, broker_id: int) -> None:
        self.brokers.pop(broker_id).stop()

    def counts(self) -> dict[int, int]:
        return {broker_id: len(broker.requests) for broker_id, broker in self.brokers.items()}

    def wait_for(self, counts: dict[int, int]) -> None:
        """Until each broker has got as many requests, and nothing more comes for a moment."""
        with suppress(NotInTimeError):
            eventually(lambda: all(self.counts().get(each, 0) >= number for each, number in counts.items()))
        before = -1, -1
        for _ in attempts("the controller to rest", every_s=QUIET_S):
            now = sum(self.counts().values()), self._last_zxid()
            if now == before:
                break
            before = now

    def _last_zxid(self) -> int:
        return max(each.pzxid for each in map(self.admin.exists, ("/", paths.TOPICS, paths.DELETE_TOPICS)) if each)

    def tree(self) -> dict[str, tuple[bytes | None, int]]:
        """All znodes: contents and data versions."""
        found: dict[str, tuple[bytes | None, int]] = {}
        pending = ["/"]
        while pending:
            path = pending.pop()
            content, stat = self.admin.get(path)
            found[path] = (content, stat.version)
            pending += [paths.child("" if path == "/" else path, each) for each in self.admin.get_children(path)]
        return found
