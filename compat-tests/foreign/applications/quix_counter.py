"""An application of Quix Streams: it numbers the records of each key, exactly once, with its counts in a state store.

Run with the broker, the group, both topics and the directory of its state; it ends at a signal.
"""

import faulthandler
import sys
from typing import Any

from quixstreams import Application, State


def number(value: dict[str, Any], state: State) -> dict[str, Any]:
    """The record with the count of those before it that had the same key."""
    count = int(state.get("count", 0))
    state.set("count", count + 1)
    return {**value, "count": count}


def main(broker: str, group: str, source: str, sink: str, state_dir: str) -> None:
    application = Application(
        broker_address=broker,
        consumer_group=group,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.3,
        state_dir=state_dir,
        consumer_extra_config={"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500},
    )
    counted = application.dataframe(application.topic(source, key_deserializer="str", value_deserializer="json"))
    counted = counted.apply(number, stateful=True)
    counted.to_topic(application.topic(sink, key_serializer="str", value_serializer="json"))
    application.run()


if __name__ == "__main__":
    faulthandler.enable()
    main(*sys.argv[1:])
