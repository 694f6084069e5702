"""Clients of TLS that a listener must not serve, and strange ones that it may: handshakes in memory."""

import ssl
import warnings
from collections.abc import Sequence

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from test_contexts import inline, shake_hands, trusting

from kpybroker.security.tls.contexts import client_context, server_context
from support.certificates import Authority, Certificate

AUTHORITY = Authority()
BROKER = AUTHORITY.issue("broker")


def server(**more: object) -> ssl.SSLContext:
    return server_context(inline(BROKER, AUTHORITY, **more))


def stranger(ciphers: str = "ALL:eNULL:@SECLEVEL=0") -> ssl.SSLContext:
    """A client that accepts everything, also what nobody should."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(ciphers)
    return context


def refuses(server_side: ssl.SSLContext, client_side: ssl.SSLContext) -> str:
    """The reason for which a handshake fails."""
    with pytest.raises(ssl.SSLError) as failed:
        shake_hands(server_side, client_side)
    return str(failed.value)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=["1.0", "1.1"])
@pytest.mark.parametrize("allowed", [("TLSv1.2", "TLSv1.3"), ("TLSv1.1", "TLSv1.2")])
def test_versions_before_1_2_are_never_spoken(version: ssl.TLSVersion, allowed: Sequence[str]) -> None:
    client = stranger()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client.minimum_version = client.maximum_version = version
    assert "protocol" in refuses(server(enabled_protocols=tuple(allowed)), client).lower()


@pytest.mark.parametrize("suites", ["eNULL", "aNULL", "RC4", "3DES", "EXPORT", "MD5", "PSK", "kRSA+AES128"])
def test_weak_suites_are_refused(suites: str) -> None:
    """Without encryption, without authentication, broken ones, and those for keys of another kind."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        client.set_ciphers(f"{suites}:@SECLEVEL=0")
    except ssl.SSLError:
        assert suites in ("RC4", "3DES", "EXPORT", "MD5"), "this OpenSSL knows no such suite, neither as a client"
        return
    refuses(server(), client)


def chained(length: int) -> Certificate:
    """A client certificate with as many authorities above it."""
    issuer = AUTHORITY
    for number in range(length):
        issuer = Authority(f"between {number}", issuer)
    return issuer.issue("alice", ())


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (AUTHORITY.issue("old", (), days=(-3, -1)), "certificate has expired"),
        (AUTHORITY.issue("early", (), days=(1, 3)), "certificate is not yet valid"),
        (AUTHORITY.issue("host", (), usage=(ExtendedKeyUsageOID.SERVER_AUTH,)), "unsuitable certificate purpose"),
        (Authority("Test authority").issue("eve", ()), "certificate signature failure"),
        (chained(120), "chain too long"),
    ],
    ids=["expired", "not yet valid", "of a server only", "of an authority with the same name", "too long a chain"],
)
def test_client_certificates_that_are_not_in_order_are_refused(certificate: Certificate, reason: str) -> None:
    for client_auth in ("required", "requested"):
        client = client_context(inline(certificate, AUTHORITY))
        failure = refuses(server(client_auth=client_auth), client).lower()
        assert reason in failure or "certificate verify failed" in failure or "too long" in failure, failure


def test_a_chain_of_usual_length_is_accepted() -> None:
    alice = chained(3)
    served, _ = shake_hands(server(client_auth="required"), client_context(inline(alice, AUTHORITY)))
    assert served.getpeercert(binary_form=True) == alice.der


@pytest.mark.parametrize("name", ["x" * 63 + ".example", "not-the-broker.example", "xn--strae-oqa.example"])
def test_an_unknown_server_name_changes_nothing(name: str) -> None:
    _, client = shake_hands(server(), stranger("DEFAULT"), host=name)
    assert client.getpeercert(binary_form=True) == BROKER.der


def test_protocols_that_a_client_offers_for_the_application_are_ignored() -> None:
    client = client_context(trusting(AUTHORITY))
    client.set_alpn_protocols(["h2", "http/1.1", "kafka"])
    served, _ = shake_hands(server(), client)
    assert served.selected_alpn_protocol() is None


def is_resumed(session: ssl.SSLSession | None, client_side: ssl.SSLContext, server_side: ssl.SSLContext) -> bool:
    """Whether a server goes on with a session instead of a full handshake."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname="localhost", session=session)
    served = server_side.wrap_bio(to_server, to_client, server_side=True)
    sides = [client, served]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                continue
    return bool(served.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_no_session_outlives_the_keys_of_its_listener(version: ssl.TLSVersion) -> None:
    """A listener that has other keys has another context. No tickets are given in any version."""
    context, client = server(), client_context(trusting(AUTHORITY))
    client.maximum_version = version
    _, first = shake_hands(context, client)
    session = first.session
    assert session is None or not session.has_ticket
    assert not is_resumed(session, client, server())
    if version is ssl.TLSVersion.TLSv1_3:
        assert not is_resumed(session, client, context)
