"""``meta.properties``: the owner of this log directory (Kafka's MetaProperties), as a Java properties file.

Version 1 has ``cluster.id``, ``node.id`` and ``directory.id``; version 0, from the time of ZooKeeper, had
``broker.id``.
"""

from typing import NamedTuple

from kpystorage import names
from kpystorage.checkpoint import write_atomically
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire import uuid

VERSION = 1


class MetaProperties(NamedTuple):
    """The owner of a log directory. ``directory_id`` is 16 bytes, None where a Kafka before 3.7 formatted the
    directory."""

    cluster_id: str | None
    node_id: int | None
    directory_id: bytes | None
    version: int = VERSION


def render(properties: MetaProperties) -> bytes:
    """The file's bytes. Kafka adds a comment with the date, which no reader uses."""
    lines = []
    if properties.node_id is not None:
        lines.append(f"{'node.id' if properties.version else 'broker.id'}={properties.node_id}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={uuid.to_string(properties.directory_id)}")
    lines.append(f"version={properties.version}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={_escape(properties.cluster_id)}")
    return "".join(f"{line}\n" for line in ["#", *lines]).encode("latin-1", "replace")


def parse(data: bytes, path: str) -> MetaProperties:
    """Parse the bytes of the file. CorruptFile, naming ``path``, if they are not such properties."""
    found: dict[str, str] = {}
    for line in data.decode("latin-1").splitlines():
        text = line.strip()
        if text and text[0] not in "#!":
            key, separator, value = text.partition("=") if "=" in text else text.partition(":")
            if not separator:
                raise CorruptFile(f"{path}: expected 'key=value', found {text[:80]!r}")
            found[key.strip()] = value.strip().replace("\\", "")
    version = _integer(found.get("version"), "version", path)
    if version not in (0, 1):
        raise CorruptFile(f"{path}: version {version} is not known")
    node_id = found.get("node.id" if version else "broker.id")
    directory_id = found.get("directory.id")
    try:
        directory = None if directory_id is None else uuid.from_string(directory_id)
    except ValueError:
        raise CorruptFile(f"{path}: directory.id is not an id: {directory_id!r}") from None
    if version and (node_id is None or "cluster.id" not in found):
        raise CorruptFile(f"{path}: cluster.id or node.id is missing")
    number = None if node_id is None else _integer(node_id, "node.id", path)
    return MetaProperties(found.get("cluster.id"), number, directory, version)


def read(disk: Disk, directory: str) -> MetaProperties | None:
    """The properties of a log directory; None if it has not been formatted. CorruptFile if the file is malformed."""
    path = f"{directory}/{names.META_PROPERTIES}"
    try:
        return parse(disk.read(path), path)
    except FileNotFoundError:
        return None


def write(disk: Disk, directory: str, properties: MetaProperties) -> None:
    """Write (atomically, flushed) the properties of a log directory. May raise OSError."""
    write_atomically(disk, f"{directory}/{names.META_PROPERTIES}", render(properties))


def _escape(value: str) -> str:
    return "".join(f"\\{character}" if character in "=:#! \\" else character for character in value)


def _integer(text: str | None, key: str, path: str) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise CorruptFile(f"{path}: {key} is not a number: {text!r}") from None
