"""The names of share partitions in FindCoordinator, read as Kafka reads them."""

import pytest
from share_coordinator_world import TOPIC

from kpybroker.machines.share_coordinator.key import SharePartitionKey, parse
from kpywire.uuid import to_string

ID = to_string(TOPIC)


@pytest.mark.parametrize("group_id", ["g", "a:b", ":a", " g ", "ü"])
def test_a_name_is_read_as_it_is_written(group_id: str) -> None:
    key = SharePartitionKey(group_id, TOPIC, 7)
    assert parse(str(key)) == key


def test_a_partition_is_read_as_a_number() -> None:
    assert parse(f"g:{ID}:+07") == SharePartitionKey("g", TOPIC, 7)
    assert parse(f"g:{ID}:-1:") == SharePartitionKey("g", TOPIC, -1)


@pytest.mark.parametrize(
    "text", ["", "g", f"g:{ID}", f"g:{ID}:", f":{ID}:0", f"  :{ID}:0", "g:x:0", f"g:{ID}:x", f"g:{ID}:2147483648"]
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|empty|not a"):
        parse(text)
