"""The offsets in a checkpoint of Spark's Kafka source: where a query that changes the source goes on.

A checkpoint is a directory with ``commits/N`` for each batch that ended and ``offsets/N`` for its end: a version, a
line of metadata, and a line for each source of the query.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.ranges import Spot
from kpybroker.machines.scan.stream_offsets import from_json

VERSION: Final = "v1"


def offsets_in(directory: str, topics: Collection[str]) -> dict[Spot, int]:
    """The end of the last batch that was committed, of the source that read these topics. Raises BadOption."""
    address = urlparse(directory)
    if address.scheme not in ("", "file"):
        raise BadOption(
            f"startingOffsetsFromCheckpoint: {directory} is not a local directory; copy offsets/ and commits/"
        )
    root = Path(unquote(address.path))
    try:
        batches = [int(path.name) for path in (root / "commits").iterdir() if path.name.isdigit()]
        if not batches:
            raise BadOption(f"startingOffsetsFromCheckpoint: no batch of {directory} was committed")
        version, _, *sources = (root / "offsets" / str(max(batches))).read_text().splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadOption(f"startingOffsetsFromCheckpoint: {directory} is no checkpoint of Spark: {error}") from None
    if version != VERSION:
        raise BadOption(f"startingOffsetsFromCheckpoint: {directory} has the format {version}, only {VERSION} is known")
    found = [
        offsets for line in sources if (offsets := _offsets(line)) and {spot[0] for spot in offsets} <= set(topics)
    ]
    if len(found) != 1:
        raise BadOption(
            f"startingOffsetsFromCheckpoint: {len(found)} sources of {directory} read no other topics than "
            f"{', '.join(sorted(topics))}, and one is needed"
        )
    return found[0]


def _offsets(line: str) -> dict[Spot, int]:
    """The offsets of a source; none if it was no Kafka source."""
    try:
        found = json.loads(line)
        return dict(from_json(found).offsets) if isinstance(found, dict) else {}
    except Exception:  # a source of another kind has a form of its own
        return {}
