"""Apache Kafka's group coordinator beside ours: the same requests and records to both, in one order for comparison."""

from collections.abc import Sequence
from typing import Any

from kpybroker.machines.groups.record import FORMAT
from kpybroker.machines.groups.share.events import DeleteStates, Initialize
from kpywire import api
from kpywire.codec import encode
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kpywire.messages.delete_groups import DeleteGroupsResponse
from kpywire.messages.describe_groups import DescribeGroupsResponse
from kpywire.messages.list_groups import ListGroupsResponse
from kpywire.messages.offset_fetch import OffsetFetchResponse
from kpywire.messages.share_group_describe import ShareGroupDescribeResponse
from kpywire.messages.streams_group_describe import StreamsGroupDescribeResponse
from oracle.asked import AskedOracle
from oracle.recorded import Asked


def started() -> AskedOracle:
    """Kafka's coordinator in a JVM, by lines of text (``GroupOracle.java``)."""
    return AskedOracle(
        "GroupOracle.java",
        "org.apache.kafka.coordinator.group.GroupOracle",
        "ShareGroupRequests.java",
        "StreamsGroupRequests.java",
    )


class KafkaShard:
    """Kafka's coordinator, or what it answered once; ``reset`` makes a new one."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def ask(self, *words: object) -> str:
        return self._asked.ask_for_line(*words)

    def close(self) -> None:
        self._asked.close()


class Outcome:
    """The answer of Kafka to one step, and how its group is afterwards."""

    def __init__(self, line: str) -> None:
        self.answers: dict[int, bytes] = {}
        self.records: list[tuple[bytes, bytes | None]] = []
        self.leader_id = ""
        self.member_ids: list[str] = []
        self.states = ""
        """The states of share partitions that are to be initialised or deleted."""
        self.missing: list[str] = []
        """The internal topics that a streams group lacks."""
        for word in line.split("\t"):
            kind, _, rest = word.partition(" ")
            if kind == "A":
                ticket, body = rest.split(" ")
                assert int(ticket) not in self.answers
                self.answers[int(ticket)] = bytes.fromhex(body)
            elif kind == "W":
                key, value = rest.split(" ")
                self.records.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
            elif kind == "S":
                self.states = rest
            elif kind == "L":
                self.leader_id = rest
            elif kind == "T":
                self.missing.append(rest)
            elif kind == "M":
                self.member_ids = [each for each in rest.split(",") if each]


def wrapped(response: Any, key: int, version: int) -> bytes:
    """The whole response around the part that the coordinator answers."""
    if isinstance(response, Initialize | DeleteStates):
        response = response.response
    if key == api.OFFSET_FETCH:
        response = OffsetFetchResponse(groups=[response])
    elif key == api.DESCRIBE_GROUPS:
        response = DescribeGroupsResponse(groups=[response])
    elif key == api.CONSUMER_GROUP_DESCRIBE:
        response = ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=[response])
    elif key == api.SHARE_GROUP_DESCRIBE:
        response = ShareGroupDescribeResponse(throttle_time_ms=0, groups=[response])
    elif key == api.STREAMS_GROUP_HEARTBEAT:
        response = response.response
    elif key == api.STREAMS_GROUP_DESCRIBE:
        response = StreamsGroupDescribeResponse(throttle_time_ms=0, groups=[response])
    elif key == api.LIST_GROUPS:
        response = ListGroupsResponse(error_code=0, groups=response)
    elif key == api.DELETE_GROUPS:
        response = DeleteGroupsResponse(throttle_time_ms=0, results=[response])
    return encode(response, version)


def normal(message: Any) -> Any:
    """A message whose lists have one order: Kafka's is that of its hash tables."""
    for name in message.__slots__:
        value = getattr(message, name)
        if isinstance(value, list):
            for each in value:
                if hasattr(each, "__slots__"):
                    normal(each)
            value.sort(key=repr)
        elif hasattr(value, "__slots__"):
            normal(value)
    return message


def canonical(records: Sequence[tuple[bytes, bytes | None]]) -> list[str]:
    """The written records, without an order. Kafka forgets a position once for each transaction that has it pending."""
    found = set()
    for key_bytes, value_bytes in records:
        key = FORMAT.decode_key(key_bytes)
        version = None if value_bytes is None else value_bytes[:2]
        value = None if value_bytes is None else normal(FORMAT.decode_value(key.KEY, value_bytes))
        found.add(repr((key, version, value)))
    return sorted(found)
