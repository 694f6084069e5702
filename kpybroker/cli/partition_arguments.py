"""Partitions on the command line: ``orders`` for all of a topic, ``orders:0,1`` for some."""

from collections.abc import Collection, Iterable
from typing import Any

import click

from kpybroker.client.client import Client, Spot
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


def scope_of(_context: click.Context, _option: click.Parameter, texts: Collection[str]) -> tuple[Any, ...]:
    """The parts of ``("orders:0,1",)``; click.BadParameter for a text that is not a topic."""
    if not texts:
        return ()
    from kpybroker.client import resets  # only where partitions are named

    try:
        return tuple(resets.parse_spots(text) for text in texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def partitions_of(client: Client, topics: Iterable[tuple[str, tuple[int, ...]]]) -> list[Spot]:
    """The partitions that were named, all of a topic where none was. Raises KafkaError for one that does not exist."""
    spots = set()
    for topic, indexes in topics:
        there = [each.partition_index for each in client.topic(topic).partitions]
        missing = set(indexes) - set(there)
        if missing:
            text = f"topic {topic} has no partition {min(missing)}, only 0 to {len(there) - 1}"
            raise KafkaError(error_codes.INVALID_PARTITIONS, text)
        spots |= {Spot(topic, index) for index in indexes or there}
    return sorted(spots)
