"""``partition.metadata``: the id of the topic a log belongs to (KIP-516). Two lines, no newline after the second."""

from kpystorage.errors import CorruptFile
from kpywire import uuid

VERSION = 0
_BEGINNING = f"version: {VERSION}\ntopic_id: ".encode()
_WHOLE_BYTES = len(_BEGINNING) + len(uuid.to_string(bytes(16)))


def render(topic_id: bytes) -> bytes:
    return f"version: {VERSION}\ntopic_id: {uuid.to_string(topic_id)}".encode()


def parse(data: bytes, path: str) -> bytes | None:
    """The topic id; None for a file that is empty or ends early, as a crash right after the log's creation leaves it.

    Raises:
        CorruptFile: it is neither.
    """
    written = data.rstrip(b"\0")
    if len(written) < _WHOLE_BYTES and _BEGINNING.startswith(written[: len(_BEGINNING)]):
        return None
    lines = data.decode("latin-1").splitlines()
    if len(lines) != 2 or lines[0] != f"version: {VERSION}" or not lines[1].startswith("topic_id: "):
        raise CorruptFile(f"{path}: not a partition.metadata of version {VERSION}")
    try:
        return uuid.from_string(lines[1].removeprefix("topic_id: "))
    except ValueError:
        raise CorruptFile(f"{path}: its topic id is none: {lines[1][:60]!r}") from None
