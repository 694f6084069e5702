"""Values that name their schema, as text: tasks, their answers, and the work itself.

The work runs in another process: bytes and schemas may be hostile, and a registry may be slow. Schemas are kept from
one task to the next. A library that is not installed is a reason, and the other kinds of schemas do without it.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kpybroker.client.schemas.registry import AVRO, FIVE_BYTES, JSON, PROTOBUF, Registry, Schema, schema_id
from kpybroker.machines.console.content import ContentBySchema, indented
from kpybroker.machines.schemas.errors import SchemaError, Unknown, one_line

MOST_ASKED: Final = 50
"""The schemas that are asked for one task. Records may name any number of them, and each costs a request."""
MOST_CHARACTERS: Final = 64 * 1024
REQUEST_TIMEOUT_S: Final = 2.0
NAMES: Final = {AVRO: "avro", JSON: "json schema", PROTOBUF: "protobuf"}
EXTRA: Final = "pip install 'kpybroker[schemas]'"


class RegistryAddress(NamedTuple):
    """A registry, and the login there: ``user:password``."""

    url: str
    login: str | None = None

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


class SchemaTask(NamedTuple):
    """Values of which each begins with the id of its schema."""

    address: RegistryAddress
    values: Sequence[bytes]


class DecodedValue(NamedTuple):
    """One value, by its place in the task."""

    place: int
    content: ContentBySchema


class SchemaTrouble(NamedTuple):
    """One line about all values: a library is missing, or the registry is away."""

    line: str
    is_away: bool


class DecodingEnded(NamedTuple):
    """The last answer to a task."""

    reason: str


Answer = DecodedValue | SchemaTrouble | DecodingEnded


class SchemaReader(Protocol):
    """One schema."""

    def text(self, content: bytes) -> tuple[str, str]:
        """The text of a value, and a note about it. Any exception says that the bytes are not of this schema."""


class SchemaDecoder:
    """Does tasks, and keeps the schemas."""

    def __init__(self, open_registry: Callable[[RegistryAddress], Registry] | None = None) -> None:
        self._open = open_registry or _registry
        self._registries: dict[RegistryAddress, Registry] = {}
        self._readers: dict[tuple[RegistryAddress, int], tuple[str, SchemaReader] | Unknown] = {}

    def work(self, task: SchemaTask) -> Iterator[Answer]:
        """Do a task."""
        registry = self._registries.get(task.address)
        if registry is None:
            registry = self._registries[task.address] = self._open(task.address)
        asked = 0
        away = False
        missing: set[str] = set()
        for place, value in enumerate(task.values):
            number = schema_id(value)
            is_known = (task.address, number) in self._readers
            if not is_known and (away or asked >= MOST_ASKED):
                continue
            asked += not is_known
            try:
                form, reader = self._reader(task.address, registry, number)
                yield DecodedValue(place, _content(number, form, reader, value))
            except Unknown as error:
                yield DecodedValue(place, ContentBySchema(number, "", None, str(error)))
            except SchemaError as error:
                away = True
                yield SchemaTrouble(str(error), is_away=True)
            except ImportError as error:
                library = (error.name or "a library").partition(".")[0]
                if library not in missing:
                    missing.add(library)
                    yield SchemaTrouble(f"values of schema {number} need {library}: {EXTRA}", is_away=False)
        yield DecodingEnded("")

    def _reader(self, address: RegistryAddress, registry: Registry, number: int) -> tuple[str, SchemaReader]:
        key = (address, number)
        if key not in self._readers:
            try:
                kind, schema = registry.of_any_kind(number)
                self._readers[key] = NAMES.get(kind, kind), _reader_of(kind, f"schema {number}", schema)
            except Unknown as error:
                self._readers[key] = error
        found = self._readers[key]
        if isinstance(found, Unknown):
            raise found
        return found


def _registry(address: RegistryAddress) -> Registry:
    return Registry(address.url, login=address.login, timeout_s=REQUEST_TIMEOUT_S)


def _content(number: int, form: str, reader: SchemaReader, value: bytes) -> ContentBySchema:
    try:
        text, note = reader.text(value[FIVE_BYTES:])
    except Exception as error:  # hostile bytes raise errors of many kinds in the libraries
        return ContentBySchema(number, form, None, f"not of schema {number}: {one_line(error)}")
    if len(text) > MOST_CHARACTERS:
        text, note = text[:MOST_CHARACTERS], note or "only the beginning of its text"
    return ContentBySchema(number, form, text, note)


def _reader_of(kind: str, name: str, schema: Schema) -> SchemaReader:
    """Unknown, or ImportError if its library is missing."""
    if kind == AVRO:
        return _Avro(name, schema)
    if kind == PROTOBUF:
        return _Protobuf(name, schema)
    if kind == JSON:
        return _Json(name, schema)
    raise Unknown(f"{name} is of a kind that is not read: {kind[:100]}")


class _Avro:
    def __init__(self, name: str, schema: Schema) -> None:
        from kpybroker.client.schemas.avro import AvroSchema

        self._schema = AvroSchema(name, schema.text, [each for _, each in schema.references])

    def text(self, content: bytes) -> tuple[str, str]:
        found = self._schema.read(content)
        return json.dumps(found, indent=2, ensure_ascii=False, default=_plain), ""


def _plain(value: Any) -> str:
    """A value that JSON does not have: bytes in base64, a time or a decimal number as its usual text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class _Protobuf:
    def __init__(self, name: str, schema: Schema) -> None:
        from kpybroker.client.schemas.protobuf import NotDescriptors, ProtobufFile

        try:
            self._file = ProtobufFile(name, schema)
        except NotDescriptors as error:
            raise Unknown(f"{name} cannot be used: the registry {error}") from None

    def text(self, content: bytes) -> tuple[str, str]:
        from kpybroker.client.schemas.protobuf import Message, message_path

        path, start = message_path(content, 0)
        name = self._file.message_at(path)
        message = Message(self._file.name, self._file.pool, name).read(content[start:])
        return self._file.json_of(message), name


class _Json:
    def __init__(self, name: str, schema: Schema) -> None:
        from kpybroker.client.schemas.json_schema import JsonSchema

        self._schema = JsonSchema(name, schema)

    def text(self, content: bytes) -> tuple[str, str]:
        text = content.decode()
        return indented(text), self._schema.reason(json.loads(text)) or ""
