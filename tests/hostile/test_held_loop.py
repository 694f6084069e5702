"""No client holds the loop, whichever API it uses and whether it is logged in: the largest requests of every API.

In continuous integration they are small, and the bound is one that only work in proportion to the square of a request
exceeds. ``make hostile`` sends the largest ones that are accepted.
"""

import struct
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest
from attacker import Attacker, create_topic
from held_loop import TOPIC, HonestClient
from largest import Large, largest
from login_crowds import handshake, token
from secured_broker import LOGIN, SecuredBroker
from watched import wait_until

from kpybroker.handlers import served_versions
from kpybroker.sasl.jaas import PLAIN_MODULE
from kpybroker.sasl.plain import PlainClient
from kpywire import api, error_codes
from kpywire.codec import decode
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateResponse

NAME = "t"
"""The topic, the group and the transactional id that the requests name."""
KINDS = dict.fromkeys((api.DESCRIBE_CONFIGS, api.ALTER_CONFIGS, api.INCREMENTAL_ALTER_CONFIGS), (0, 2, 4, 32))
KINDS[api.FIND_COORDINATOR] = (0, 1)
"""Numbers that decide what a request is about: types of resources, of coordinators."""
OLDER = {
    api.ADD_PARTITIONS_TO_TXN: 3, api.FETCH: 12, api.OFFSET_COMMIT: 9, api.OFFSET_FETCH: 9, api.PRODUCE: 12,
}  # fmt: skip
"""Versions of clients, or with names of topics, where the newest is for brokers or has ids."""
MAY_WAIT = frozenset({api.FETCH, api.JOIN_GROUP, api.SYNC_GROUP, api.SHARE_FETCH})
COORDINATORS = (0, 1)
"""The types of coordinators: of groups and of transactions. Without them most requests are refused at once."""
ENOUGH_ROUNDS = 20
LOGIN_BYTES = 524_288
MOST_LOG_BYTES = 80_000
GROUP_TYPE, TRANSACTIONAL_ID_TYPE, LITERAL, ALL, ALLOW = 3, 5, 3, 2, 3
USERS = {"eve": "nothing is allowed", "alice": "groups are allowed"}
BEFORE_LOGIN, WITHOUT_RIGHTS, WITH_FEW_RIGHTS, WITH_RIGHTS = "before a login", "without", "with few", "with"
ONE_OF = {BEFORE_LOGIN: 10, WITHOUT_RIGHTS: 6, WITH_FEW_RIGHTS: 1, WITH_RIGHTS: 3}
"""The APIs that are played in continuous integration: each third, each sixth and so on."""
SENDERS = {WITHOUT_RIGHTS: "eve", WITH_FEW_RIGHTS: "alice"}


class Pace(NamedTuple):
    """The part of the largest request that is sent, and the longest time that an honest request may wait for it."""

    share: float
    most_s: float
    is_full: bool


@pytest.fixture(scope="module")
def pace(rounds: int) -> Pace:
    return Pace(1.0, 0.1, is_full=True) if rounds >= ENOUGH_ROUNDS else Pace(0.02, 0.3, is_full=False)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with an authorizer. Everybody on its plain listener is a super user; alice may use one group."""
    properties = {
        "auto.create.topics.enable": "false",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "listener.name.login.plain.sasl.jaas.config": f"{PLAIN_MODULE} required "
        + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        + ";",
    }
    with SecuredBroker(properties, directory=tmp_path_factory.mktemp("held")) as broker:
        with Attacker(broker.port) as client:
            create_topic(client, TOPIC)
            create_topic(client, NAME, 3)
            creations = [
                AclCreation(
                    resource_type=kind, resource_name=NAME, resource_pattern_type=LITERAL, principal="User:alice",
                    host="*", operation=ALL, permission_type=ALLOW,
                )
                for kind in (GROUP_TYPE, TRANSACTIONAL_ID_TYPE)
            ]  # fmt: skip
            for result in client.call(CreateAclsRequest(creations=creations), 3).results:
                assert result.error_code == error_codes.NONE
            for kind in COORDINATORS:
                wait_until(partial(_is_there, client, kind), f"the coordinators of type {kind} are there")
        yield broker
        assert broker.is_alive, broker.tail()
        assert not broker.defects_since(0)


def _is_there(client: Attacker, kind: int) -> bool:
    (found,) = client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[NAME]), 4).coordinators
    return bool(found.error_code == error_codes.NONE)


@pytest.fixture(scope="module")
def honest(guarded: SecuredBroker) -> Iterator[HonestClient]:
    assert guarded.pid is not None
    with HonestClient(guarded.port, guarded.pid) as client:
        yield client


def sender(broker: SecuredBroker, state: str) -> Attacker:
    """A connection of a client that has come so far."""
    if state == WITH_RIGHTS:
        return Attacker(broker.port, timeout_s=300)
    client = Attacker(broker.ports[LOGIN], timeout_s=300)
    client.sock.sendall(handshake())
    client.read_frame()
    if state != BEFORE_LOGIN:
        user = SENDERS[state]
        client.sock.sendall(token(PlainClient(user, USERS[user]).first()))
        answer = decode(SaslAuthenticateResponse, 2, client.read_frame(), 5)
        assert answer.error_code == error_codes.NONE, answer
    return client


def answer_bytes(client: Attacker, payload: bytes) -> int:
    """The size of the answer to a request, which is read and forgotten; 0 if the connection is closed instead."""
    try:
        client.send_frame(payload)
        (size,) = struct.unpack(">i", client._read(4))
        left = size
        while left:
            left -= len(client.sock.recv(min(left, 1 << 20))) or left
    except ConnectionError:
        return 0
    except TimeoutError:
        return -1
    return int(size)


def requests(key: int, state: str, pace: Pace) -> Iterator[Large]:
    kinds = KINDS.get(key, (0,)) if pace.is_full or key == api.FIND_COORDINATOR else (KINDS.get(key, (0,))[-1],)
    for version in {api.API_KEYS[key].max_version, OLDER.get(key, api.API_KEYS[key].max_version)}:
        for large in largest(key, version, pace.share, NAME, kinds, both=pace.is_full):
            if state == BEFORE_LOGIN and len(large.payload) > LOGIN_BYTES:
                yield large._replace(payload=large.payload[:LOGIN_BYTES])
            else:
                yield large


@pytest.mark.parametrize("state", [BEFORE_LOGIN, WITHOUT_RIGHTS, WITH_FEW_RIGHTS, WITH_RIGHTS])
@pytest.mark.parametrize("key", sorted(served_versions()), ids=lambda key: api.API_KEYS[key].name)
def test_an_honest_request_waits_for_no_large_one(
    guarded: SecuredBroker, honest: HonestClient, pace: Pace, key: int, state: str
) -> None:
    if not pace.is_full and key % ONE_OF[state]:
        pytest.skip("sent by `make hostile`")
    for large in requests(key, state, pace):
        position = guarded.log_position()
        with sender(guarded, state) as client:
            if key in MAY_WAIT:
                client.sock.settimeout(2)
            honest.most_s()
            answered = answer_bytes(client, large.payload)
            held_s = honest.most_s()
        assert held_s < pace.most_s, f"{large}: an honest request waited for {held_s:.3f} s of the loop's work"
        assert answered >= 0 or key in MAY_WAIT, f"{large}: neither an answer nor an end"
        logged = guarded.log_position() - position
        assert logged < MOST_LOG_BYTES, f"{large}: {logged} bytes of log"
        assert guarded.is_alive, f"{large}: {guarded.tail()}"
