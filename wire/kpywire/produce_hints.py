"""Answers to a Produce that name the leaders of partitions that are not led here (KIP-951): not in the fast codec."""

from collections.abc import Sequence
from typing import Any

from kpywire.codec import encode
from kpywire.messages.produce import NodeEndpoint, ProduceResponse

_NO_TOPICS = 1
"""Bytes of an empty array."""


class HintedAnswers(list[Any]):
    """The answers of `kpywire.produce`, and the nodes that they mention. Nodes may be added until the answers are
    sent."""

    __slots__ = ("node_endpoints", "throttle_time_ms")

    def __init__(self, answers: Sequence[Any], node_endpoints: list[NodeEndpoint]) -> None:
        super().__init__(answers)
        self.node_endpoints = node_endpoints
        self.throttle_time_ms = 0

    def tail(self, version: int) -> bytes:
        """The bytes behind the topics in a response of a flexible version."""
        response = ProduceResponse(
            throttle_time_ms=self.throttle_time_ms, responses=[], node_endpoints=self.node_endpoints
        )
        return encode(response, version)[_NO_TOPICS:]
