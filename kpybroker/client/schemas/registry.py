"""A schema registry, asked over HTTP for the schemas of ids as Confluent's serializers write them."""

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from kpybroker.machines.schemas.errors import SchemaError, Unknown, one_line

TIMEOUT_S: Final = 10.0
FIVE_BYTES: Final = 5
"""Confluent's prefix: a zero and the schema's id."""
MOST_BYTES: Final = 16 * 1024 * 1024
DEEPEST: Final = 32
"""References to references are followed this far."""
MOST_REFERENCES: Final = 500
"""The most schemas that are asked for because of one: references that double at each level are not followed."""

MOST_KNOWN: Final = 10_000
"""The ids that are remembered: records may name any number that do not exist."""

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


def schema_id(value: bytes) -> int:
    """The id before a value. Unknown if it has none."""
    if not names_schema(value):
        raise Unknown("no schema id: the value does not begin with Confluent's five bytes")
    return int.from_bytes(value[1:FIVE_BYTES], "big")


def names_schema(value: bytes) -> bool:
    """Whether a value begins as one that names its schema; ids are positive numbers of 32 bits in Java."""
    return len(value) >= FIVE_BYTES and value[0] == 0 and value[1] < 0x80


class Schema(NamedTuple):
    """A schema as the registry has it, and those that it refers to, by the names that it uses for them."""

    text: str
    """For Protobuf, the file's descriptor in base64."""
    references: "tuple[tuple[str, Schema], ...]" = ()


Load = Callable[[str], bytes]


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A login is for the server alone that it was given for, so no answer leads elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Report the answer as it is."""


class Registry:
    """The schemas of a registry; each is asked for once."""

    def __init__(
        self, url: str, load: Load | None = None, *, login: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """``login`` is ``user:password``; the URL may hold it, too. SchemaError if the URL is not of http or https."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SchemaError("the schema registry takes a URL such as http://localhost:8081")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        self._opener = urllib.request.build_opener(*([NoRedirects] if login else []))
        if login:
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        self.address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self._load = load or self._get
        self._timeout_s = timeout_s
        self._known: dict[int, tuple[str, Schema] | str] = {}
        """The schemas by id, or why one cannot be used."""
        self._left = 0

    def __repr__(self) -> str:
        return f"Registry({self.address!r})"

    def schema(self, number: int, kind: str) -> Schema:
        """The schema of an id. Unknown if there is none of this id and kind; SchemaError if the registry is away."""
        found, schema = self._found(number, kind)
        if found != kind:
            raise Unknown(f"schema {number} is {found}, not {kind}")
        return schema

    def of_any_kind(self, number: int) -> tuple[str, Schema]:
        """The kind of the schema of an id, and the schema. Unknown; SchemaError."""
        return self._found(number, None)

    def _found(self, number: int, kind: str | None) -> tuple[str, Schema]:
        if number not in self._known:
            self._left = MOST_REFERENCES
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            try:
                asked = self._ask(f"schemas/ids/{number}", kind, DEEPEST)
                self._known[number] = asked or f"schema {number} is not in the registry"
            except Unknown as error:
                self._known[number] = f"schema {number} cannot be used: {error}"
        found = self._known[number]
        if isinstance(found, str):
            raise Unknown(found)
        return found

    def _ask(self, path: str, kind: str | None, depth: int) -> tuple[str, Schema] | None:
        """The schema at a path, with those that it refers to if it is of this kind; None for any kind."""
        if not depth:
            raise Unknown(f"references are nested more than {DEEPEST} deep")
        self._left -= 1
        if self._left < 0:
            raise Unknown(f"there are more than {MOST_REFERENCES} references")
        form = "?format=serialized" if kind == PROTOBUF else ""
        try:
            answer: Any = json.loads(self._load(f"{self.address}/{path}{form}"))
            found, text = answer.get("schemaType", AVRO), answer["schema"]
            wanted = [(each["name"], each["subject"], int(each["version"])) for each in answer.get("references") or ()]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise SchemaError(f"schema registry {self.address} answers {error.code} {error.reason}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise SchemaError(f"schema registry {self.address} cannot be reached: {one_line(reason)}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SchemaError(f"schema registry {self.address} does not answer as one") from None
        if kind is None and found == PROTOBUF:
            return self._ask(path, PROTOBUF, depth)
        if kind not in (None, found):
            return found, Schema(text)
        references = [(name, self._version(subject, version, found, depth - 1)) for name, subject, version in wanted]
        return found, Schema(text, tuple(references))

    def _version(self, subject: str, version: int, kind: str, depth: int) -> Schema:
        """A schema that another one refers to."""
        found = self._ask(f"subjects/{quote(subject, safe='')}/versions/{version}", kind, depth)
        if found is None:
            raise Unknown(f"the registry does not have version {version} of {subject}")
        return found[1]

    def _get(self, url: str) -> bytes:
        request = urllib.request.Request(url, headers=self._headers)
        with self._opener.open(request, timeout=self._timeout_s) as answer:
            found: bytes = answer.read(MOST_BYTES)
        return found
