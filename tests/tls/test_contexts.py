"""Contexts made of Kafka's settings: real handshakes in memory, between contexts of both sides."""

import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kpybroker.security.tls.contexts import client_context, openssl_name, server_context
from kpybroker.security.tls.settings import TlsError, TlsSettings, read_settings
from support.certificates import Authority, Certificate


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Certificate:
    return authority.issue("broker")


def inline(certificate: Certificate, trusted: Authority | None = None, **more: object) -> TlsSettings:
    settings = TlsSettings(
        keystore_type="PEM",
        keystore_key=certificate.key_pem(),
        keystore_certificate_chain=certificate.chain_pem,
    )
    if trusted is not None:
        settings = settings._replace(truststore_type="PEM", truststore_certificates=trusted.pem)
    return settings._replace(**more)  # type: ignore[arg-type]


def trusting(authority: Authority, **more: object) -> TlsSettings:
    settings = TlsSettings(truststore_type="PEM", truststore_certificates=authority.pem)
    return settings._replace(**more)  # type: ignore[arg-type]


def test_a_listener_that_asks_for_no_certificates_trusts_none(
    broker: Certificate, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.save(tmp_path / "of-the-system.pem")))
    for auth, trusted in (("none", 0), ("requested", 1), ("required", 1)):
        for store in (None, authority):
            context = server_context(inline(broker, store, client_auth=auth))
            assert context.cert_store_stats()["x509"] == trusted
    with pytest.raises(TlsError):
        server_context(inline(broker, client_auth="none", truststore_type="PEM", truststore_certificates="none at all"))


def shake_hands(
    server_side: ssl.SSLContext, client_side: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """The server and the client after their handshake, and one byte in both directions."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    client.write(b"x")
    assert server.read(1) == b"x"
    server.write(b"y")
    assert client.read(1) == b"y"
    return server, client


def test_a_client_and_a_listener_speak_tls_1_3_with_inline_pem(authority: Authority, broker: Certificate) -> None:
    server, client = shake_hands(server_context(inline(broker)), client_context(trusting(authority)))
    assert client.version() == "TLSv1.3"
    assert client.compression() is None
    assert client.getpeercert(binary_form=True) == broker.der
    assert server.getpeercert(binary_form=True) is None


def test_pem_files_hold_key_chain_and_trusted_certificates(authority: Authority, tmp_path: Path) -> None:
    intermediate = Authority("Issuing authority", authority)
    broker = intermediate.issue("broker")
    settings = TlsSettings(
        keystore_type="PEM",
        keystore_location=str(broker.save_pem(tmp_path / "broker.pem", "secret")),
        key_password="secret",
    )
    client = TlsSettings(truststore_type="PEM", truststore_location=str(authority.save(tmp_path / "ca.pem")))
    shake_hands(server_context(settings), client_context(client))


def test_pem_in_one_line_is_read_like_pem_in_many(authority: Authority, broker: Certificate) -> None:
    settings = inline(broker)
    settings = settings._replace(
        keystore_key=" ".join(broker.key_pem().split("\n")),
        keystore_certificate_chain=" ".join(broker.chain_pem.split("\n")),
    )
    shake_hands(server_context(settings), client_context(trusting(authority)))


def test_an_encrypted_key_of_the_traditional_kind_is_read(authority: Authority) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    broker = authority.issue("broker", key=key)
    command = ["openssl", "rsa", "-aes256", "-traditional", "-passout", "pass:secret"]
    made = subprocess.run(command, input=broker.key_pem(), text=True, capture_output=True, check=True)
    settings = inline(broker, keystore_key=made.stdout, key_password="secret")
    assert "ENCRYPTED" in made.stdout
    shake_hands(server_context(settings), client_context(trusting(authority)))


def test_a_certificate_that_is_no_root_can_be_trusted_as_in_a_jvm(authority: Authority) -> None:
    intermediate = Authority("Issuing authority", authority)
    broker = intermediate.issue("broker")
    shake_hands(server_context(inline(broker)), client_context(trusting(intermediate)))


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_shows_its_certificate(authority: Authority, broker: Certificate, client_auth: str) -> None:
    user = authority.issue("alice", ())
    server_side = server_context(inline(broker, authority, client_auth=client_auth))
    server, _ = shake_hands(server_side, client_context(inline(user, authority)))
    assert server.getpeercert(binary_form=True) == user.der


def test_a_client_without_certificate_is_let_in_only_where_none_is_required(
    authority: Authority, broker: Certificate
) -> None:
    without = client_context(trusting(authority))
    server, _ = shake_hands(server_context(inline(broker, authority, client_auth="requested")), without)
    assert server.getpeercert(binary_form=True) is None
    with pytest.raises(ssl.SSLError) as caught:
        shake_hands(server_context(inline(broker, authority, client_auth="required")), without)
    assert caught.value.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"


def test_the_name_of_the_server_is_checked_unless_that_is_switched_off(
    authority: Authority, broker: Certificate
) -> None:
    server = server_context(inline(broker))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(?i)hostname mismatch"):
        shake_hands(server, client_context(trusting(authority)), "elsewhere.example")
    unchecked = client_context(trusting(authority, endpoint_identification_algorithm=""))
    shake_hands(server, unchecked, "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(trusting(Authority(), endpoint_identification_algorithm="")))


def test_protocols_and_suites_are_those_of_the_settings(authority: Authority, broker: Certificate) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    server, client = shake_hands(
        server_context(inline(broker, cipher_suites=(suite,))), client_context(trusting(authority))
    )
    chosen = server.cipher()
    assert chosen is not None
    assert (chosen[0], client.version()) == (openssl_name(suite), "TLSv1.2")
    newest = server_context(inline(broker, enabled_protocols=("TLSv1.3",)))
    with pytest.raises(ssl.SSLError, match=r"(?i)unsupported.protocol"):
        shake_hands(newest, client_context(trusting(authority, enabled_protocols=("TLSv1.2",))))


def test_every_suite_of_openssl_has_its_iana_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:COMPLEMENTOFALL")
    known = {cipher["name"] for cipher in context.get_ciphers()}
    for suite in (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_128_CCM_8",
    ):  # fmt: skip
        assert openssl_name(suite) in known, suite


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keystore_key": None, "keystore_certificate_chain": None}, "no key store is set"),
        ({"client_auth": "Required "}, "ssl.client.auth=Required "),
        ({"enabled_protocols": ("TLSv1.1",)}, "not safe"),
        ({"enabled_protocols": ("TLSv9",)}, "TLSv9 is not known"),
        ({"cipher_suites": ("TLS_AES_256_GCM_SHA384",)}, "cannot choose among the suites of TLS 1.3"),
        ({"cipher_suites": ("ECDHE-RSA-AES256-GCM-SHA384",)}, "is no name of a suite"),
        ({"cipher_suites": ("TLS_RSA_WITH_NOTHING",)}, "none of TLS_RSA_WITH_NOTHING"),
        ({"keystore_key": "-----BEGIN PRIVATE KEY-----\nMAo=\n-----END PRIVATE KEY-----\n"}, "cannot be used"),
        ({"keystore_certificate_chain": None}, "certificate chain is not specified"),
        ({"keystore_key": None}, "private key is not specified"),
        ({"keystore_location": "/nowhere"}, "Both SSL key store location and separate private key"),
        ({"keystore_password": "x"}, "only key password may be specified"),
        ({"keystore_type": "JKS"}, "can be specified only for PEM, but key store type is JKS"),
        ({"keystore_type": "BKS"}, "ssl.keystore.type=BKS cannot be read"),
        ({"truststore_password": "x"}, "trust store is not specified, but trust store password is"),
        ({"truststore_type": "PEM", "truststore_certificates": "none"}, "At least one certificate expected"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_one_line(
    broker: Certificate, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(TlsError) as caught:
        server_context(inline(broker, **changes))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_of_another_certificate_and_a_wrong_password_are_named(authority: Authority, broker: Certificate) -> None:
    with pytest.raises(TlsError, match="do not belong together"):
        server_context(inline(broker, keystore_key=authority.issue("other").key_pem()))
    encrypted = inline(broker, keystore_key=broker.key_pem("right"))
    with pytest.raises(TlsError, match=r"set ssl\.key\.password"):
        server_context(encrypted)
    with pytest.raises(TlsError, match=r"ssl\.key\.password is wrong"):
        server_context(encrypted._replace(key_password="wrong"))


def test_settings_are_read_by_kafkas_names_and_show_no_secret() -> None:
    class Secret:
        value = "hunter2"

    values: dict[str, object] = {
        "ssl.keystore.location": "/a.p12",
        "ssl.keystore.password": Secret(),
        "ssl.key.password": "hunter2",
        "ssl.cipher.suites": "A, B",
        "ssl.enabled.protocols": ("TLSv1.3",),
        "ssl.endpoint.identification.algorithm": "",
    }
    settings = read_settings(values.get)
    assert settings.keystore_password == settings.key_password == "hunter2"
    assert settings.cipher_suites == ("A", "B")
    assert settings.endpoint_identification_algorithm == ""
    assert "hunter2" not in repr(settings)
    assert "/a.p12" in repr(settings)
