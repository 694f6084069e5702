"""Requests of the console to other nodes: with the viewer's own login, and a line where there is no way."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from console_node import ConsoleNode, console_node, no_account

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl import scram
from kpybroker.monitoring.console import elsewhere
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.console.viewer_ways import ViewerWay, ViewerWays
from kpybroker.runtime.calls.principal import ANONYMOUS, USER, Principal
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

REQUEST = ListGroupsRequest(states_filter=[], types_filter=[])


def viewer(name: str = "", password: str | None = None) -> Viewer:
    return Viewer(Principal(USER, name) if name else ANONYMOUS, "127.0.0.1", None, password)


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    """A node that is its own other node: users log in to it by SCRAM, and others need not."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "connection_failed_authentication_delay_ms": "1",
    }
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    jaas = {f"listener.name.login.{name.lower()}.sasl.jaas.config": module for name in scram.MECHANISMS}
    with console_node(**settings, **jaas) as made:
        for name, mechanism in (("ann", scram.SCRAM_SHA_512), ("bob", scram.SCRAM_SHA_256)):
            salt = scram.salt_of(b"any salt is right")
            credential = mechanism.credential(mechanism.salted_password("secret", salt, 4096), salt, 4096)
            record = UserScramCredentialRecord(
                name=name,
                mechanism=mechanism.code,
                salt=salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=4096,
            )
            known = {(mechanism.code, name): record}
            made.call(lambda known=known: made.node.image.scram_credentials.update(known))  # type: ignore[misc]
        yield made


def ask(node: ConsoleNode, caller: Viewer, node_id: int = 1) -> int:
    assert node.node.broker is not None
    code: int = node.run(Elsewhere(node.node.broker, no_account).ask(caller, node_id, REQUEST)).error_code
    return code


def test_a_viewer_without_a_login_uses_a_listener_without_one(node: ConsoleNode) -> None:
    assert ask(node, viewer()) == 0


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_viewer_logs_in_there_with_its_own_password_by_the_mechanism_that_it_has(
    node: ConsoleNode, user: str
) -> None:
    assert ask(node, viewer(user, "secret")) == 0
    authorizer: Any = object()
    assert ask(node, viewer(user, "secret")._replace(authorizer=authorizer)) == 0
    with pytest.raises(KafkaError, match="refuses the login"):
        ask(node, viewer(user, "wrong"))


def test_the_loop_does_not_wait_while_a_password_is_hashed(node: ConsoleNode, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    hashed = hashlib.pbkdf2_hmac

    def hash_it(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        threads.append(threading.get_ident())
        return hashed(name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", hash_it)
    assert ask(node, viewer("ann", "secret")) == 0
    assert threads
    assert node.call(threading.get_ident) not in threads


def test_a_login_that_is_refused_is_the_reason_and_the_password_is_in_no_line(node: ConsoleNode) -> None:
    with pytest.raises(KafkaError) as refused:
        ask(node, viewer("ann", "wrong-word"))
    assert "wrong-word" not in str(refused.value)
    assert "wrong-word" not in repr(viewer("ann", "wrong-word"))


def test_a_node_that_is_not_there_is_named(node: ConsoleNode) -> None:
    with pytest.raises(KafkaError, match="its own console"):
        ask(node, viewer(), 7)


def test_a_node_that_does_not_answer_is_waited_for_once(node: ConsoleNode, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.node.broker is not None
    monkeypatch.setattr(elsewhere, "PATIENCE_S", 0.1)
    other = Elsewhere(node.node.broker, no_account)
    caller, another = viewer("ann", "secret"), viewer()
    tried: list[Viewer] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()

        async def to_silence(_ways: ViewerWays, asking: Viewer, _node_id: int) -> ViewerWay:
            tried.append(asking)
            return ViewerWay(*address, None)

        monkeypatch.setattr(ViewerWays, "to", to_silence)
        for each in (caller, caller, another):
            with pytest.raises(KafkaError, match="it does not answer"):
                node.run(other.ask(each, 1, REQUEST))
        assert tried == [caller, another]
        monkeypatch.setattr(elsewhere, "LEFT_ALONE_MS", 0)
        other = Elsewhere(node.node.broker, no_account)
        for _ in range(2):
            with pytest.raises(KafkaError, match="it does not answer"):
                node.run(other.ask(caller, 1, REQUEST))
        assert tried == [caller, another, caller, caller]


def test_a_user_of_a_file_uses_a_listener_without_a_login_where_everybody_may_do_everything() -> None:
    with console_node() as made:
        user = viewer("admin", "of the file")
        assert ask(made, user) == 0
        assert made.node.broker is not None
        authorizer: Any = object()
        with pytest.raises(KafkaError, match="no listener that you can use"):
            ask(made, user._replace(authorizer=authorizer))
