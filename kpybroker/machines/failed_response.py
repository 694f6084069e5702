"""The failure response of any API, made from the declarations of its messages.

Kafka has handwritten code for each API (``AbstractRequest.getErrorResponse``). Here two rules suffice: a response with
an error code for the whole carries it there; any other response carries it in each entry, with one entry for each
topic, partition, group or resource that the request names. Where an API differs, its row in `kpybroker.machines.apis`
says so. Not here: Produce, whose answers have a codec of their own.

A response with many entries is made in steps (`failing`).

Invariant: the response can be written in the version it was made for.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from kpybroker.machines.apis import APIS, Api, Words
from kpywire import api, error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResult
from kpywire.messages.list_partition_reassignments import OngoingPartitionReassignment, OngoingTopicReassignment
from kpywire.schema import Field, fields_of

ERROR_CODE = "error_code"
_PLAIN: Final = Api(None)
"""An API that is not served here, such as those of controllers in ZooKeeper mode."""
OF_A_FETCH_SESSION = frozenset(
    {
        error_codes.FETCH_SESSION_ID_NOT_FOUND,
        error_codes.INVALID_FETCH_SESSION_EPOCH,
        error_codes.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The errors of a Fetch that are about the whole. All others are those of its partitions."""
_NAMES = {
    "name": ("name", "topic", "topic_name"),
    "topic": ("topic", "name", "topic_name"),
    "topic_name": ("topic_name", "topic", "name"),
    "partition": ("partition", "partition_index", "index"),
    "partition_index": ("partition_index", "partition", "index"),
    "partition_id": ("partition_id", "partition_index", "partition"),
    "user": ("user", "name"),
}
"""The names in a request for a field of an answered entry."""
STEP_ENTRIES: Final = 32
"""The number of entries that are made in one step."""


def failed_response(request: Any, api_version: int, code: int, reason: str | None = None) -> Any:
    """The response to ``request`` that carries ``code`` wherever Kafka would, and a message where Kafka has one.

    ``reason`` is the message of the exception, if it has one of its own.
    """
    work = failing(request, api_version, code, reason)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def failing(request: Any, api_version: int, code: int, reason: str | None = None) -> Generator[None, None, Any]:
    """Return what `failed_response` returns, in steps."""
    key = type(request).KEY
    response = api.response_class(key)()
    failure = _Failing(key, api_version, code, reason)
    is_whole = failure.mark(response)
    of_entries = code not in OF_A_FETCH_SESSION if key == api.FETCH else not is_whole or failure.served.fails_twice
    if of_entries:
        yield from failure.fill_lists(request, response)
        if key == api.FETCH:
            response.error_code = error_codes.NONE
    if key in _REPEATS:
        yield from _REPEATS[key](request, response, failure)
    return response


def _repeat_topics(request: Any, response: Any, failure: "_Failing") -> Generator[None, None, None]:
    """ListPartitionReassignments lists what was asked for, without an error in it."""
    response.topics = []
    for topic in request.topics or ():
        partitions: list[OngoingPartitionReassignment] = []
        for index in topic.partition_indexes:
            if failure.is_step():
                yield
            partitions.append(
                OngoingPartitionReassignment(
                    partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                )
            )
        if failure.is_step():
            yield
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))


def _repeat_error(_request: Any, response: Any, failure: "_Failing") -> Generator[None, None, None]:
    """DescribeUserScramCredentials has the error once more, for a user without a name."""
    yield from ()
    response.results = [failure.entry_of(DescribeUserScramCredentialsResult)]


def _repeat_entities(request: Any, response: Any, failure: "_Failing") -> Generator[None, None, None]:
    """AlterClientQuotas names the entities of the request, with the error for each."""
    response.entries = []
    for entry in request.entries:
        entity: list[AlterClientQuotasResponseEntityData] = []
        for part in entry.entity:
            if failure.is_step():
                yield
            entity.append(
                AlterClientQuotasResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            )
        if failure.is_step():
            yield
        response.entries.append(
            AlterClientQuotasResponseEntryData(
                error_code=failure.code, error_message=error_codes.message(failure.code), entity=entity
            )
        )


_REPEATS: Final[dict[int, Callable[[Any, Any, "_Failing"], Generator[None, None, None]]]] = {
    api.LIST_PARTITION_REASSIGNMENTS: _repeat_topics,
    api.ALTER_CLIENT_QUOTAS: _repeat_entities,
    api.DESCRIBE_USER_SCRAM_CREDENTIALS: _repeat_error,
}
"""Responses that have more than the error."""


class _Failing:
    """An error that is written into a response."""

    def __init__(self, key: int, api_version: int, code: int, reason: str | None) -> None:
        self.api_version = api_version
        self.code = code
        self.served = APIS.get(key, _PLAIN)
        words = self.served.words
        is_refused = code == error_codes.CLUSTER_AUTHORIZATION_FAILED and Words.OF_A_REFUSAL in words
        self.message = error_codes.message(code) if is_refused or Words.OF_THE_ERROR in words else None
        if reason is not None and Words.OF_THE_EXCEPTION in words:
            self.message = reason
        self._known: dict[type, list[Field]] = {}
        self._passed = 0

    def mark(self, part: Any) -> bool:
        """Set the error fields of a part of the response. Return whether it has any."""
        marked = False
        for field in self._fields(type(part)):
            if _is_code(field):
                setattr(part, field.name, self.code)
                marked = True
            elif field.name == "error_message":
                setattr(part, field.name, self.message)
            elif field.name in self.served.unknown:
                value = self.served.unknown[field.name]
                setattr(part, field.name, None if value == "" and self.api_version in field.nullable else value)
        return marked

    def entry_of(self, entry_class: type) -> Any:
        """An entry with the error alone."""
        entry = entry_class()
        self.mark(entry)
        return entry

    def is_step(self) -> bool:
        """Count an entry. Return whether it is time for the next step."""
        self._passed += 1
        return self._passed % STEP_ENTRIES == 0

    def fill_lists(self, asked: Any, part: Any) -> Generator[None, None, None]:
        """Give every list of ``part`` that can carry the error an entry for each entry of the request."""
        for field in self._fields(type(part)):
            entry_class = _entry_class(field)
            if entry_class is None or not _can_fail(entry_class):
                continue
            entries: list[Any] = []
            for one in self._asked(asked, entry_class):
                if self.is_step():
                    yield
                if one is None:
                    continue
                entry = self._named(entry_class, one)
                if not self.mark(entry):
                    yield from self.fill_lists(one, entry)
                entries.append(entry)
            setattr(part, field.name, entries)

    def _named(self, entry_class: type, asked: Any) -> Any:
        """An entry with the names of what was asked for."""
        entry = entry_class()
        for field in self._fields(entry_class):
            if _is_of_the_error(field.name):
                continue
            if isinstance(asked, str | int):
                if field.shape.kind == ("string" if isinstance(asked, str) else "i32"):
                    setattr(entry, field.name, asked)
                    break
            elif field.shape.kind not in ("array", "struct"):
                for name in _NAMES.get(field.name, (field.name,)):
                    if name in type(asked).FIELDS:
                        setattr(entry, field.name, getattr(asked, name))
                        break
        return entry

    def _asked(self, asked: Any, entry_class: type) -> Iterator[Any]:
        """The entries of the request that ``entry_class`` answers, and None for others that are passed."""
        if isinstance(asked, str | int):
            return
        answered = [field.name for field in self._fields(entry_class) if not _is_of_the_error(field.name)]
        if isinstance(asked, AlterUserScramCredentialsRequest):  # each user once, whichever list it is in
            named: set[str] = set()
            for user in chain[Any](asked.deletions, asked.upsertions):
                yield None if user.name in named else user
                named.add(user.name)
            return
        for field in self._fields(type(asked)):
            entries: Sequence[Any] | None = getattr(asked, field.name)
            if field.shape.kind != "array" or not entries:
                continue
            in_order = all(_holds_entries(entry_class, name) for name in answered)
            if (
                in_order
                or isinstance(entries[0], str | int)
                or any(_knows(type(entries[0]), name) for name in answered)
            ):
                yield from entries
                return
            for entry in entries:  # they may only say where what is answered belongs
                yield None
                yield from self._asked(entry, entry_class)

    def _fields(self, cls: type) -> list[Field]:
        found = self._known.get(cls)
        if found is None:
            found = self._known[cls] = [field for field in fields_of(cls) if self.api_version in field.versions]
        return found


def _is_code(field: Field) -> bool:
    return field.name in (ERROR_CODE, "partition_error_code")


def _is_of_the_error(name: str) -> bool:
    return name.endswith((ERROR_CODE, "error_message"))


def _holds_entries(entry_class: type, name: str) -> bool:
    """Whether a field is a list: an answer with nothing else answers by its place."""
    return any(field.name == name and field.shape.kind == "array" for field in fields_of(entry_class))


def _knows(asked: type, name: str) -> bool:
    """Whether an entry of a request has what a field of its answer repeats."""
    fields = asked.FIELDS  # type: ignore[attr-defined]
    return any(one in fields for one in _NAMES.get(name, (name,)))


def _entry_class(field: Field) -> type | None:
    return field.shape.element.struct if field.shape.element is not None else None


@cache
def _can_fail(cls: type) -> bool:
    """Whether the class contains an error code."""
    for field in fields_of(cls):
        entry_class = _entry_class(field)
        if _is_code(field) or (entry_class is not None and _can_fail(entry_class)):
            return True
    return False
