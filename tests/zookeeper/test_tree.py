"""The contents of znodes, beside those that Apache Kafka 3.9.2 wrote in ``znodes.txt``: a path and a content a line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.zookeeper.client.operations import absolute
from kpybroker.machines.zookeeper.tree import (
    acls,
    brokers,
    cluster,
    configs,
    controller,
    kinds,
    paths,
    requests,
    tokens,
    topics,
)
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode

ZNODES = [line.split(" ", 1) for line in (Path(__file__).with_name("znodes.txt")).read_text().splitlines()]


@contextmanager
def raises_at_most_one_clear_line(path: str) -> Iterator[None]:
    """Only ``InvalidZnode`` may be raised, and it names the path."""
    try:
        yield
    except InvalidZnode as error:
        line = str(error)
    else:
        return
    assert line.startswith(f"The znode {path} cannot be understood: ")


def written_again(value: object, content: bytes) -> bytes:
    """The content that we write for a value that was read."""
    match value:
        case int():
            return controller.encode_epoch(value)
        case str():
            return cluster.encode_cluster_id(value) if content.startswith(b"{") else value.encode()
        case dict():
            return configs.encode_configs(value)
        case list():
            return acls.encode_acls(value)
        case configs.ConfigEntity():
            return configs.encode_change(value)
        case acls.ResourcePattern():
            return value.encode_change()
        case _:
            return value.encode()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("path", "content"), ZNODES)
def test_znodes_written_by_kafka_are_read_and_written_identically(path: str, content: str) -> None:
    kind = kinds.kind_of(path)
    assert kind is not None
    value = kind.decode(path, content.encode())
    assert written_again(value, content.encode()) == content.encode()


def test_the_fixture_has_every_kind_but_those_that_live_for_a_moment() -> None:
    absent = [
        kind.pattern.pattern for kind in kinds.KINDS if not any(kinds.kind_of(path) is kind for path, _ in ZNODES)
    ]
    assert absent == [
        "/brokers/seqid",
        r"/admin/delete_topics/[^/]+",
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        r"/isr_change_notification/isr_change_\d{10}",
        r"/log_dir_event_notification/log_dir_event_\d{10}",
    ]


@given(st.sampled_from([path for path, _ in ZNODES] + ["/admin/reassign_partitions"]), st.data())
def test_any_other_content_gives_a_value_or_one_clear_line(path: str, data: st.DataObject) -> None:
    texts = [content for each, content in ZNODES if each == path] or ['{"version":1,"partitions":[{"topic":"t"}]}']
    content = bytearray(data.draw(st.sampled_from(texts)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    kind = kinds.kind_of(path)
    assert kind is not None
    with raises_at_most_one_clear_line(path):
        kind.decode(path, bytes(content))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_of_another_shape_is_refused_without_a_traceback(value: object) -> None:
    content = json.dumps(value).encode()
    for path, _ in ZNODES:
        kind = kinds.kind_of(path)
        assert kind is not None
        with raises_at_most_one_clear_line(path):
            kind.decode(path, content)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(InvalidZnode, match="it is not JSON"):
        topics.TopicAssignment.decode("t", b'{"partitions":' + b"[" * 100_000)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_sanitized_name_is_one_part_of_a_path_and_comes_back(name: str) -> None:
    sanitized = paths.sanitize(name)
    assert "/" not in sanitized
    assert paths.desanitize(sanitized) == name


@pytest.mark.parametrize(
    ("name", "sanitized"), [("c 1", "c%201"), ("a*b", "a%2Ab"), ("~", "%7E"), ("ä/.-_", "%C3%A4%2F.-_")]
)
def test_names_are_sanitized_as_by_kafka(name: str, sanitized: str) -> None:
    assert paths.sanitize(name) == sanitized


def test_a_registration_without_plaintext_has_no_host_for_old_readers() -> None:
    endpoint = brokers.ZkEndpoint("SSL", "::1", 9093)
    registration = brokers.Registration(3, (endpoint,), {"SSL": "SSL"}, rack="r", timestamp_ms=7)
    assert b'"endpoints":["SSL://[::1]:9093"]' in registration.encode()
    assert b'"port":-1,"host":null' in registration.encode()
    assert brokers.Registration.decode(3, registration.encode()) == registration


def test_a_registration_of_the_oldest_version_has_one_plaintext_endpoint() -> None:
    old = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":9092}'
    assert brokers.Registration.decode(1, old).endpoints == (brokers.ZkEndpoint("PLAINTEXT", "h", 9092),)


def test_a_leader_that_recovers_is_written_and_read() -> None:
    state = topics.LeaderIsrAndControllerEpoch(leader=1, leader_epoch=4, isr=(1,), controller_epoch=2, recovery=1)
    assert state.encode().endswith(b'"leader_recovery_state":1}')
    assert topics.LeaderIsrAndControllerEpoch.decode("/s", state.encode()) == state


def test_requests_in_znodes_come_back() -> None:
    one, two = requests.TopicPartition("t", 0), requests.TopicPartition("u", 3)
    assert requests.decode_partitions("/p", requests.encode_partitions([one, two])) == [one, two]
    targets = {one: (1, 2), two: (3,)}
    assert requests.decode_reassignments(requests.encode_reassignments(targets)) == targets
    assert requests.decode_log_dir_failure("/l", requests.encode_log_dir_failure(4)) == 4


def test_tokens_of_older_versions_belong_to_their_requester() -> None:
    new = tokens.TokenContent("id", "User:a b", "User:c", ("User:d",), 1, 2, 3)
    assert tokens.TokenContent.decode("id", new.encode()) == new
    old = new.encode().replace(b'"version":3', b'"version":2')
    assert tokens.TokenContent.decode("id", old).requester == "User:a b"


@pytest.mark.parametrize(
    ("name", "number"), [("isr_change_0000000012", 12), ("x", None), ("config_change_00000000ab", None)]
)
def test_the_number_of_a_sequential_znode(name: str, number: int | None) -> None:
    assert paths.sequence(name) == number


def test_a_chroot_stands_before_every_path() -> None:
    assert absolute(paths.CONTROLLER, "/kafka") == "/kafka/controller"
    assert absolute("/", "/kafka") == "/kafka"
    assert absolute("/", "") == "/"
