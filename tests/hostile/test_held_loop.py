"""No client holds the loop, whichever API it uses and whether it is logged in: the largest requests of every API.

In continuous integration they are small, and the bound is one that only work in proportion to the square of a request
exceeds. ``make hostile`` sends the largest ones that are accepted, to brokers and to controllers.
"""

import struct
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from attacker import Attacker, create_topic
from held_loop import TOPIC, HonestClient
from largest import Large, largest
from login_crowds import handshake, token
from secured_broker import LOGIN, SecuredBroker

from kpybroker.machines.sasl.jaas import PLAIN_MODULE
from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.requests.handlers import controller_versions, served_versions
from kpywire import api, error_codes
from kpywire.codec import decode
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateResponse
from oracle import free_port
from support.waiting import eventually

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
LEAVES_AFTER_S = 0.5
TRIES = 3
"""The times that a request is sent until an honest one waits for less than the bound: the first of its kind loads code,
and the machine may count the time of others."""
CONTROLLER, CONTROLLER_LOGIN = "CONTROLLER", "CONTROLLER_LOGIN"
"""The listeners of the controller: a plain one, and one with logins."""


class Pace(NamedTuple):
    """The part of the largest request that is sent, and the longest time that an honest request may wait for it."""

    share: float
    most_s: float
    is_full: bool


@pytest.fixture(scope="module")
def pace(rounds: int) -> Pace:
    return Pace(1.0, 0.01, is_full=True) if rounds >= ENOUGH_ROUNDS else Pace(0.02, 0.05, is_full=False)


class GuardedNode(SecuredBroker):
    """A broker and controller with an authorizer. Everybody on its plain listeners is a super user; alice may use one
    group."""

    def __init__(self, *, directory: Path) -> None:
        super().__init__(directory=directory)
        self.ports |= {name: free_port() for name in (CONTROLLER, CONTROLLER_LOGIN)}
        properties = self.properties
        logins = f"{PLAIN_MODULE} required " + " ".join(f'user_{name}="{word}"' for name, word in USERS.items()) + ";"
        properties |= {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "controller.listener.names": f"{CONTROLLER},{CONTROLLER_LOGIN}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},"
            f"{CONTROLLER_LOGIN}:SASL_PLAINTEXT",
            f"listener.name.{CONTROLLER_LOGIN.lower()}.sasl.enabled.mechanisms": "PLAIN",
            "auto.create.topics.enable": "false",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": logins for name in (LOGIN, CONTROLLER_LOGIN)},
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with GuardedNode(directory=tmp_path_factory.mktemp("held")) as broker:
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
                eventually(partial(_is_there, client, kind), f"the coordinators of type {kind} are there")
        yield broker
        assert broker.is_alive, broker.tail()
        assert not broker.defects_since(0)


def _is_there(client: Attacker, kind: int) -> bool:
    (found,) = client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[NAME]), 4).coordinators
    return bool(found.error_code == error_codes.NONE)


@pytest.fixture(scope="module")
def honest(guarded: GuardedNode) -> Iterator[HonestClient]:
    assert guarded.pid is not None
    with HonestClient(guarded.port, guarded.pid) as client:
        yield client


def sender(broker: SecuredBroker, state: str, plain: str = "PLAINTEXT", login: str = LOGIN) -> Attacker:
    """A connection of a client that has come so far, to one of these listeners."""
    if state == WITH_RIGHTS:
        return Attacker(broker.ports[plain], timeout_s=300)
    client = Attacker(broker.ports[login], timeout_s=300)
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
    guarded: GuardedNode, honest: HonestClient, pace: Pace, key: int, state: str
) -> None:
    if not pace.is_full and key % ONE_OF[state]:
        pytest.skip("sent by `make hostile`")
    _delays_no_other(guarded, honest, pace, key, state)


@pytest.mark.parametrize("state", [BEFORE_LOGIN, WITHOUT_RIGHTS, WITH_RIGHTS])
@pytest.mark.parametrize("key", sorted(controller_versions()), ids=lambda key: api.API_KEYS[key].name)
def test_an_honest_request_waits_for_no_large_one_to_a_controller(
    guarded: GuardedNode, honest: HonestClient, pace: Pace, key: int, state: str
) -> None:
    if not pace.is_full and key % ONE_OF[state]:
        pytest.skip("sent by `make hostile`")
    _delays_no_other(guarded, honest, pace, key, state, (CONTROLLER, CONTROLLER_LOGIN))


@pytest.mark.parametrize(
    "key", [api.FETCH, api.LIST_OFFSETS, api.DELETE_TOPICS], ids=lambda key: api.API_KEYS[key].name
)
def test_an_honest_request_waits_for_no_client_that_leaves_during_a_large_one(
    guarded: GuardedNode, honest: HonestClient, pace: Pace, key: int
) -> None:
    for large in requests(key, WITH_RIGHTS, pace):
        held_s: list[float] = []
        while len(held_s) < TRIES and min(held_s, default=pace.most_s) >= pace.most_s:
            held_s.append(_leaving(guarded, honest, large))
        assert min(held_s) < pace.most_s, f"{large}: an honest request waited for {held_s} s of the loop's work"


def _leaving(guarded: GuardedNode, honest: HonestClient, large: Large) -> float:
    """The longest wait of an honest request while a client sends a large one, leaves, and all that is left is freed."""
    honest.most_s()
    with sender(guarded, WITH_RIGHTS) as client:
        client.send_frame(large.payload)
        time.sleep(LEAVES_AFTER_S)
    time.sleep(LEAVES_AFTER_S)
    return honest.most_s()


def _delays_no_other(
    guarded: GuardedNode,
    honest: HonestClient,
    pace: Pace,
    key: int,
    state: str,
    listeners: tuple[str, str] = ("PLAINTEXT", LOGIN),
) -> None:
    for large in requests(key, state, pace):
        position = guarded.log_position()
        held_s: list[float] = []
        while len(held_s) < TRIES and min(held_s, default=pace.most_s) >= pace.most_s:
            with sender(guarded, state, *listeners) as client:
                if key in MAY_WAIT:
                    client.sock.settimeout(2)
                honest.most_s()
                answered = answer_bytes(client, large.payload)
                held_s.append(honest.most_s())
            assert answered >= 0 or key in MAY_WAIT, f"{large}: neither an answer nor an end"
        assert min(held_s) < pace.most_s, f"{large}: an honest request waited for {held_s} s of the loop's work"
        logged = guarded.log_position() - position
        assert logged < MOST_LOG_BYTES * len(held_s), f"{large}: {logged} bytes of log"
        assert guarded.is_alive, f"{large}: {guarded.tail()}"
