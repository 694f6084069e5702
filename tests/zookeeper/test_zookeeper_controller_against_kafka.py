"""Our controller against what Apache Kafka 3.9's did when it was recorded, step by step: `controller_twins`.

It needs no Java. `--record-kafka` plays the histories beside Kafka again, and writes what it sent and wrote.
"""

import pytest
from controller_twins import AskedKafka, played

from oracle.recorded import Play


@pytest.mark.parametrize("seed", [100, 101, 102, 104, 105])
def test_the_same_events_give_what_kafka_sent_and_wrote(recorded: Play, seed: int) -> None:
    played(recorded(AskedKafka), seed)
