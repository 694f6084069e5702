"""kafka-get-offsets and kafka-delete-records."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal, cluster_of, is_internal, pattern_of
from kpybroker.client import offset_requests, resets, topic_requests
from kpybroker.client.client import Client, OffsetAndTimestamp, Spot
from kpybroker.machines.errors import KafkaError

TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
Chosen = Callable[[str, int], bool]


def get_offsets_options() -> ToolOptions:
    """The options of kafka-get-offsets."""
    options = ToolOptions("kafka-get-offsets", "An interactive shell for getting topic-partition offsets.")
    options.of_cluster()
    options.flags("exclude-internal-topics")
    options.texts("topic", "partitions", "time", "topic-partitions")
    return options


def get_offsets(options: ToolOptions, found: Found) -> None:
    """kafka-get-offsets: prints TOPIC:PARTITION:OFFSET of each partition that has one. Raises KafkaError, Refusal."""
    if found.topic_partitions is not None and (found.topic is not None or found.partitions is not None):
        options.error("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _time(found.time)
    if found.topic_partitions is None:
        is_chosen = _by_topic(found.topic, found.partitions)
    else:
        is_chosen = _by_spots(found.topic_partitions)
    with cluster_of(found) as client:
        spots = [
            Spot(topic.name or "", each.partition_index)
            for topic in topic_requests.existing(client)
            for each in topic.partitions
            if not (found.exclude_internal_topics and is_internal(topic.name or ""))
            and is_chosen(topic.name or "", each.partition_index)
        ]
        if not spots:
            raise ToolRefusal("Error occurred: Could not match any topic-partitions with the specified filters")
        for spot, position in sorted(_find(client, spots, timestamp).items()):
            if position.offset >= 0:
                print(f"{spot.topic}:{spot.partition}:{position.offset}")


def _find(client: Client, spots: list[Spot], timestamp: int) -> dict[Spot, OffsetAndTimestamp]:
    """The offsets of partitions. One with an error, such as without a leader, is passed over with a line on stderr."""
    try:
        return client.find_offsets(dict.fromkeys(spots, timestamp))
    except KafkaError:
        found: dict[Spot, OffsetAndTimestamp] = {}
    for spot in spots:
        try:
            found |= client.find_offsets({spot: timestamp})
        except KafkaError as error:
            print(f"Skip getting offsets for topic-partition {spot} due to error: {error}", file=sys.stderr)
    return found


def _time(text: str | None) -> int:
    if text is None:
        return TIMES["latest"]
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        names = ", ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise ToolRefusal(
            f"Error occurred: Malformed time argument {text}. Please use {names}, or a timestamp"
        ) from None


def _by_topic(topic: str | None, partitions: str | None) -> Chosen:
    is_topic = (lambda _name: True) if topic is None else pattern_of(topic)
    if not partitions:
        return lambda name, _partition: is_topic(name)
    numbers = [each.strip() for each in partitions.split(",") if each.strip()]
    if not all(each.isdecimal() for each in numbers):
        raise ToolRefusal(
            "Error occurred: --partitions expects a comma separated list of numeric partition ids, but received: "
            f"{partitions}"
        )
    wanted = set(map(int, numbers))
    return lambda name, partition: partition in wanted and is_topic(name)


def _by_spots(text: str) -> Chosen:
    """The partitions of ``topic:0``, ``topic:1-3`` (without 3), ``topic:2-``, ``topic:-2``, ``:0``, ``topic``."""
    parts = [_one_of_spots(each) for each in text.split(",")]
    return lambda name, partition: any(part(name, partition) for part in parts)


def _one_of_spots(text: str) -> Chosen:
    topic, colon, listed = text.partition(":")
    first, dash, last = listed.partition("-")
    numbers = [each for each in (first, last) if each]
    if (colon and not listed) or listed == "-" or not all(each.isdecimal() for each in numbers):
        raise ToolRefusal(
            f"Error occurred: Invalid topic-partition {text}; write topic:0, topic:1-3, topic:2- or topic:-2"
        )
    is_topic = pattern_of(topic) if topic else lambda _name: True
    if not listed:
        return lambda name, _partition: is_topic(name)
    least = int(first or 0)
    end = least + 1 if not dash else int(last) if last else None
    return lambda name, partition: is_topic(name) and partition >= least and (end is None or partition < end)


def delete_records_options() -> ToolOptions:
    """The options of kafka-delete-records."""
    options = ToolOptions("kafka-delete-records", "Deletes records of partitions down to an offset.")
    options.of_cluster()
    options.texts("offset-json-file")
    return options


def delete_records(options: ToolOptions, found: Found) -> None:
    """kafka-delete-records: deletes the records below the offsets of a JSON file. Raises KafkaError, Refusal."""
    options.require(found, "offset-json-file")
    try:
        plan = resets.parse_delete_records(Path(found.offset_json_file).read_text())
    except (ValueError, OSError) as error:
        raise ToolRefusal(f"{found.offset_json_file}: {error}") from None
    with cluster_of(found) as client:
        print("Executing records delete operation")
        lows: dict[Spot, int | KafkaError] = {}
        for spot, offset in plan.items():
            try:
                lows[spot] = offset_requests.delete_records(client, {spot: offset})[spot]
            except KafkaError as error:
                lows[spot] = error
    print("Records delete operation completed:")
    for spot, low in lows.items():
        if isinstance(low, KafkaError):
            print(f"partition: {spot}\terror: {low}")
        else:
            print(f"partition: {spot}\tlow_watermark: {low}")
