"""A request that a fault fails gets the response that Apache Kafka gives to it."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import oracle
from kpybroker.machines.failed_response import failed_response
from kpybroker.requests import handlers
from kpywire import api, codec, error_codes
from support.plausible_requests import plausible
from tests.wire.message_values import random_message

CODE = error_codes.COORDINATOR_NOT_AVAILABLE
DIFFERENT = {
    api.PRODUCE: "has a codec of its own, which the handler answers with",
    api.CREATE_DELEGATION_TOKEN: "names who asked",
}
CANNOT_SAY = {(api.DESCRIBE_LOG_DIRS, 1), (api.DESCRIBE_LOG_DIRS, 2), (api.LIST_PARTITION_REASSIGNMENTS, 0)}
"""Versions of a response without a place for an error of the whole."""
FETCH_SESSIONS_FROM = 7
"""Kafka fails the session, which clients start again and report to nobody; a fault is about the partitions."""


def requests() -> Iterator[tuple[int, int, Any]]:
    """(api key, version, request) of everything that is served."""
    for key, (first, last) in handlers.served_versions().items():
        for version in range(first, last + 1):
            request = plausible(key, version, "t")
            if request is None:
                request = random_message(api.request_class(key), version, Random(version), size=2)
            yield key, version, codec.decode(api.request_class(key), version, codec.encode(request, version))


def codes_in(message: Any) -> set[int]:
    """Every error code in a message."""
    found: set[int] = set()
    for name in getattr(type(message), "FIELDS", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            found.add(value)
        for one in value if isinstance(value, list) else ():
            found |= codes_in(one)
    return found


def test_every_served_api_can_fail() -> None:
    for key, version, request in requests():
        if key == api.PRODUCE:
            continue
        response = failed_response(request, version, CODE)
        assert codec.decode(api.response_class(key), version, codec.encode(response, version))
        if (key, version) not in CANNOT_SAY:
            assert CODE in codes_in(response), f"{api.API_KEYS[key].name} v{version}"


def test_an_error_of_a_fetch_session_is_of_the_whole_and_any_other_of_its_partitions() -> None:
    request = plausible(api.FETCH, 12, "t")
    of_session = failed_response(request, 12, error_codes.FETCH_SESSION_ID_NOT_FOUND)
    assert (of_session.error_code, of_session.responses) == (error_codes.FETCH_SESSION_ID_NOT_FOUND, [])
    of_partition = failed_response(request, 12, error_codes.NOT_LEADER_OR_FOLLOWER)
    (topic,) = of_partition.responses
    assert of_partition.error_code == error_codes.NONE
    assert [one.error_code for one in topic.partitions] == [error_codes.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.java
def test_failed_responses_have_kafkas_bytes() -> None:
    asked = [
        (key, version, request)
        for key, version, request in requests()
        if key not in DIFFERENT and not (key == api.FETCH and version >= FETCH_SESSIONS_FROM)
    ]
    lines = [f"{key}\t{version}\t{CODE}\t{codec.encode(request, version).hex()}" for key, version, request in asked]
    classes = oracle.compile_java(Path(__file__).with_name("ErrorResponses.java"))
    finished = oracle.java("ErrorResponses", classes=[classes], stdin="\n".join(lines) + "\n", heap="128m")
    assert finished.returncode == 0, finished.stderr
    for (key, version, request), kafkas in zip(asked, finished.stdout.splitlines(), strict=True):
        ours = codec.encode(failed_response(request, version, CODE), version).hex()
        assert ours == kafkas, f"{api.API_KEYS[key].name} v{version}"
