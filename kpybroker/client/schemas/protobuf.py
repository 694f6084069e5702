"""Schemas of Protobuf, by Google's library: the messages in the descriptors of files.

Confluent's serializer writes, behind the five bytes, the path of the message in its file: the number of indexes and
each index, as zigzag varints. A single zero is the first message.
"""

import base64
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pool import DescriptorPool

from kpybroker.client.schemas.registry import Schema
from kpybroker.machines.schemas.errors import Unknown, one_line
from kpywire.errors import Malformed
from kpywire.varint import decode_varint

Path = tuple[int, ...]

SHIPPED: Final = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
}
"""The files that every schema may import."""
OPTIONS_ONLY: Final = "confluent/meta.proto"
"""A file of options alone. Registries do not give it, and values do not need it: an empty one takes its place."""
DEEPEST_PATH: Final = 32


class NotDescriptors(Exception):
    """A registry gives the text of a file in place of its descriptor."""


class ProtobufFile:
    """A file of a registry, with the files that it imports."""

    def __init__(self, name: str, schema: Schema) -> None:
        """Unknown if the file cannot be used; NotDescriptors."""
        self.name = name
        files: dict[str, Any] = {}
        try:
            self._file = _gathered("", schema, files)
        except ValueError:
            raise NotDescriptors("does not give Protobuf as descriptors (format=serialized)") from None
        self.pool = pool_of(files, name)

    def message_at(self, path: Path) -> str:
        """The full name of the message at a path. Unknown."""
        return message_at(self._file, path, self.name)

    def json_of(self, message: Any) -> str:
        """A message of this file as JSON, with the names of the file."""
        text: str = json_format.MessageToJson(
            message, preserving_proto_field_name=True, indent=2, ensure_ascii=False, descriptor_pool=self.pool
        )
        return text


class Message:
    """A message of a pool."""

    def __init__(self, name: str, pool: DescriptorPool, message: str) -> None:
        """Unknown if there is no such message."""
        self.name = f"{name}, {message}"
        try:
            self.descriptor: Any = pool.FindMessageTypeByName(message)
        except KeyError:
            raise Unknown(f"{name} has no message {message}") from None
        self._class: Any = message_factory.GetMessageClass(self.descriptor)

    def read(self, content: bytes) -> Any:
        """The message in these bytes. Any exception says that they are none."""
        message = self._class()
        message.ParseFromString(content)
        if not message.IsInitialized():
            raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        return message


def _gathered(name: str, schema: Schema, files: dict[str, Any]) -> Any:
    """Add the files of a schema and its references, which have the names by which others import them. ValueError."""
    for imported, reference in schema.references:
        _gathered(imported, reference, files)
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(schema.text, validate=True))
    except Exception as error:  # DecodeError is no ValueError
        raise ValueError(one_line(error)) from None
    file.name = name or "the schema of the registry"
    files[file.name] = file
    return file


def message_path(value: bytes, position: int) -> tuple[Path, int]:
    """The path of a message and the position behind it. Unknown."""
    try:
        count, position = decode_varint(value, position)
        if not 0 <= count <= DEEPEST_PATH:
            raise Unknown(f"no Protobuf of a registry: {count} message indexes")
        path = []
        for _ in range(count):
            index, position = decode_varint(value, position)
            path.append(index)
    except Malformed as error:
        raise Unknown(f"no Protobuf of a registry: the message indexes are cut off ({error})") from None
    return tuple(path) or (0,), position


def message_at(file: Any, path: Path, name: str) -> str:
    """The full name of the message at this path of indexes. Unknown."""
    names = [file.package] if file.package else []
    here = file.message_type
    for index in path:
        if not 0 <= index < len(here):
            raise Unknown(f"{name} has no message at {'.'.join(map(str, path))}")
        names.append(here[index].name)
        here = here[index].nested_type
    return ".".join(names)


def pool_of(files: dict[str, Any], name: str) -> DescriptorPool:
    """A pool of these files and those that they import. Unknown."""
    pool = DescriptorPool()
    added: set[str] = set()

    def add(wanted: str, importing: Iterable[str]) -> None:
        if wanted in added:
            return
        if wanted in importing:
            raise Unknown(f"{name} imports {wanted} within itself")
        file = files.get(wanted) or _shipped(wanted)
        if file is None:
            raise Unknown(f"{name} imports {wanted}, which is neither a reference nor a file of Google's library")
        for each in file.dependency:
            add(each, {*importing, wanted})
        try:
            pool.Add(file)
        except TypeError as error:
            raise Unknown(f"{name} cannot be used: {one_line(error)}") from None
        added.add(wanted)

    for wanted in files:
        add(wanted, ())
    return pool


def _shipped(wanted: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=wanted)
    if wanted in SHIPPED:
        SHIPPED[wanted].CopyToProto(file)
    return file if wanted in SHIPPED or wanted == OPTIONS_ONLY else None
