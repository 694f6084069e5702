"""Many connections that owe nothing send a batch that takes long, all at once: short requests do not wait for them."""

import os
import signal
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from attacker import Attacker, create_topic
from held_loop import TOPIC, HonestClient
from watched import WatchedBroker

from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

PRODUCE_VERSION = 9
CONNECTIONS = 60
GREETINGS = 4
"""The short requests after which a connection owes nothing."""
VALUE_BYTES = 1_100_000
MOST_S = 0.05


@pytest.fixture
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    with WatchedBroker({}, directory=tmp_path_factory.mktemp("burst")) as broker:
        yield broker
        assert broker.is_alive, broker.tail()
