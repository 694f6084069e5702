"""The node that tests back up."""

from collections.abc import Iterator

import pytest

from tests.broker.running_node import RunningNode, start


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    made = start(tmp_path_factory.mktemp("source"), offsets_topic_num_partitions="3")
    yield made
    made.stop()
