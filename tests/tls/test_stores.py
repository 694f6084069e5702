"""Key stores and trust stores as keytool, openssl and the library cryptography write them."""

import builtins
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import example, given
from hypothesis import strategies as some

from kpybroker.security.tls.contexts import client_context, server_context
from kpybroker.security.tls.jks import read_jks
from kpybroker.security.tls.settings import TlsError, TlsSettings
from kpybroker.security.tls.stores import read_key_store, read_trust_store
from support.certificates import Authority

PASSWORD = "changeit-ä"
AUTHORITY = Authority("Root, of tests")
BROKER = Authority("Issuing authority", AUTHORITY).issue("broker")
KEYTOOL = pytest.mark.skipif(which("keytool") is None, reason="needs a JDK")


def keytool(*arguments: object) -> None:
    command = ["keytool", "-J-XX:TieredStopAtLevel=1", "-J-Dfile.encoding=UTF-8", *map(str, arguments)]
    subprocess.run(
        [*command, "-noprompt"], check=True, capture_output=True, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores by their names: what keytool made of a PKCS12 store, and of a certificate."""
    directory = tmp_path_factory.mktemp("stores")
    BROKER.save_pkcs12(directory / "key.p12", "changeit")
    AUTHORITY.save(directory / "ca.pem")
    if which("keytool") is not None:
        for kind, name in (("JKS", "key.jks"), ("JCEKS", "key.jceks"), ("PKCS12", "keytool.p12")):
            keytool(
                "-importkeystore", "-srckeystore", directory / "key.p12", "-srcstorepass", "changeit",
                "-destkeystore", directory / name, "-deststoretype", kind, "-deststorepass", "changeit",
            )  # fmt: skip
        for kind, name in (("JKS", "trust.jks"), ("PKCS12", "trust.p12")):
            keytool(
                "-importcert", "-alias", "root", "-file", directory / "ca.pem", "-keystore", directory / name,
                "-storetype", kind, "-storepass", "changeit",
            )  # fmt: skip
    return directory


def key(path: Path, password: str | None = "changeit", **more: Any) -> TlsSettings:
    return TlsSettings(keystore_location=str(path), keystore_password=password, **more)


def trust(path: Path, password: str | None = "changeit", **more: Any) -> TlsSettings:
    return TlsSettings(truststore_location=str(path), truststore_password=password, **more)


@pytest.mark.parametrize(
    "name", ["key.p12", *(pytest.param(each, marks=KEYTOOL) for each in ("key.jks", "keytool.p12"))]
)
def test_a_key_store_has_the_key_and_its_chain_whatever_its_type_is_called(files: Path, name: str) -> None:
    for store_type in ("JKS", "pkcs12"):
        (entry,) = read_key_store(key(files / name, keystore_type=store_type))
        assert entry.chain[:2] == (BROKER.der, BROKER.issuers[0].public_bytes(Encoding.DER))
        assert "PRIVATE KEY" not in repr(entry)
        server_context(key(files / name, keystore_type=store_type))


@KEYTOOL
@pytest.mark.parametrize("name", ["trust.jks", "trust.p12"])
def test_a_trust_store_of_keytool_has_its_certificates(files: Path, name: str) -> None:
    assert read_trust_store(trust(files / name)) == (AUTHORITY.der,)
    client_context(trust(files / name))
    if name == "trust.jks":
        assert read_trust_store(trust(files / name, None)) == (AUTHORITY.der,), "Kafka needs no password for it"


@KEYTOOL
def test_a_key_with_a_password_of_its_own_is_read_from_jks(tmp_path: Path) -> None:
    path = tmp_path / "own.jks"
    keytool(
        "-genkeypair", "-alias", "a", "-keyalg", "EC", "-dname", "CN=own", "-keystore", path, "-storetype", "JKS",
        "-storepass", PASSWORD, "-keypass", "another",
    )  # fmt: skip
    server_context(key(path, PASSWORD, key_password="another"))
    with pytest.raises(TlsError, match=r"another password than the store; set ssl\.key\.password"):
        read_key_store(key(path, PASSWORD))
    keytool("-importkeystore", "-srckeystore", path, "-srcstorepass", PASSWORD, "-srcalias", "a", "-srckeypass",
            "another", "-destkeystore", tmp_path / "two.jks", "-deststoretype", "JKS", "-deststorepass", PASSWORD,
            "-destkeypass", PASSWORD, "-destalias", "b")  # fmt: skip
    server_context(key(tmp_path / "two.jks", PASSWORD))


@KEYTOOL
@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("key.jks", {"password": "wrong"}, "cannot be read as JKS: its password is wrong"),
        ("key.p12", {"password": "wrong"}, "cannot be read as PKCS12: its password is wrong"),
        ("key.p12", {"password": None}, "SSL key store is specified, but key store password is not specified"),
        ("key.jceks", {}, "is a JCEKS store; convert it"),
        ("ca.pem", {}, "is a PEM file; set ssl.keystore.type=PEM"),
        ("key.p12", {"password": None, "keystore_type": "PEM"}, "is not a PEM file; remove ssl.keystore.type=PEM"),
        ("trust.jks", {}, "has no private key"),
        ("empty", {}, "is empty"),
        ("bks", {}, "no key store of a kind that is known"),
        ("none", {}, "cannot be read: No such file or directory"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_in_one_line(
    files: Path, name: str, settings: dict[str, Any], words: str
) -> None:
    (files / "empty").write_bytes(b"")
    (files / "bks").write_bytes(b"\0\0\0\2\0\0\0\x14")
    with pytest.raises(TlsError) as caught:
        read_key_store(key(files / name, **settings))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "changeit" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_store_that_could_be_read_for_ever_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe into which nobody writes, and a device without an end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(TlsError, match=r"ssl\.keystore\.location=.* is no regular file"):
            read_key_store(key(path, keystore_type="PEM", password=None))
        with pytest.raises(TlsError, match=r"ssl\.truststore\.location=.* is no regular file"):
            read_trust_store(trust(path))


@KEYTOOL
def test_a_key_store_in_the_place_of_a_trust_store_is_named(files: Path) -> None:
    with pytest.raises(TlsError, match=r"has no trusted certificate; it has a private key, is it a key store\?"):
        read_trust_store(trust(files / "key.jks"))


def test_a_missing_library_is_named_with_its_extra(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(TlsError, match=r'pip install "kpybroker\[security\]"'):
        read_key_store(key(files / "key.p12"))


HEADER = bytes.fromhex("feedfeed00000002")


@given(some.binary(max_size=200), some.sampled_from([None, "password"]))
@example(HEADER + b"\xff\xff\xff\xff" + bytes(40), None)
@example(HEADER + b"\0\0\0\1\0\0\0\1" + b"\0\1a" + bytes(8) + b"\x7f\xff\xff\xff" + bytes(30), None)
def test_any_bytes_are_read_as_jks_or_refused(data: bytes, password: str | None) -> None:
    for whole in (data, HEADER + b"\0\0\0\1" + data):
        with suppress(TlsError):
            read_jks("x", whole, password, None)


@KEYTOOL
def test_a_damaged_store_is_read_or_refused_wherever_it_is_damaged(files: Path) -> None:
    whole = (files / "key.jks").read_bytes()
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        with pytest.raises(TlsError):
            read_jks("x", bytes(damaged), "changeit", None)
        for password in ("changeit", "other"):
            try:
                read_jks("x", bytes(damaged)[:-position] if position else bytes(damaged), None, password)
            except TlsError:
                continue
