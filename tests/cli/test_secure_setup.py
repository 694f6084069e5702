"""``kpybroker start --secure``: what is laid out, who may read it, and what later starts keep."""

import json
import os
import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner

from kpybroker.cli import main, secure_files, secure_setup
from kpybroker.cli.secure_setup import SetupRefused, lay_out
from kpybroker.client.certificate import Certificate, of_der
from kpybroker.client.client_configs import ADMIN, of_file
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import security_of
from kpybroker.config.properties import read_properties
from kpybroker.machines.sasl import jaas


def certificate(directory: Path) -> Certificate:
    text = (directory / secure_files.SERVER).read_text()
    found = of_der(ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :].strip()))
    assert found is not None
    return found


def test_everything_is_for_this_user_alone_and_a_second_start_keeps_it(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    first = lay_out(directory, "127.0.0.1", 9093, {"num.partitions": "3"})
    ours = {path.name: path.read_bytes() for path in directory.iterdir() if path.name.endswith((".pem", ".json"))}
    assert len(ours) == 4
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir() if path.is_file() and path.name in ours} == {
        0o600
    }
    assert (directory / secure_files.JAVA).stat().st_mode & 0o777 == 0o600
    assert (directory / "meta.properties").exists()
    (checkpoint,) = (directory / "__cluster_metadata-0").glob("*.checkpoint")
    assert checkpoint.stat().st_mode & 0o077 == 0  # it holds the administrator's stored key
    formatted = checkpoint.read_bytes()
    second = lay_out(directory, "127.0.0.1", 9093, {})
    assert second.password == first.password
    assert first.password not in repr(first)
    assert {name: (directory / name).read_bytes() for name in ours} == ours
    assert checkpoint.read_bytes() == formatted
    assert first.settings["num.partitions"] == "3"
    entry = jaas.parse(first.settings["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"])
    assert entry.options == {"username": "admin", "password": first.password}


def test_a_directory_that_was_there_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    lay_out(tmp_path, "127.0.0.1", 9093, {})
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")} == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_keys_that_another_user_has_laid_there_are_not_used(tmp_path: Path) -> None:
    lay_out(tmp_path, "127.0.0.1", 9093, {})
    tmp_path.chmod(0o777)
    os.chown(tmp_path / secure_files.CA_KEY, 12345, 12345)
    with pytest.raises(SetupRefused, match="another user has made"):
        lay_out(tmp_path, "127.0.0.1", 9093, {})


def test_each_client_can_read_its_file(tmp_path: Path) -> None:
    laid = lay_out(tmp_path / "data", "127.0.0.1", 9093, {})
    server = laid.write_client_files("127.0.0.1", 19093)
    for name in (secure_files.JAVA, secure_files.LIBRDKAFKA):
        pairs = {key: each.value for key, each in read_properties(laid.directory / name).items()}
        assert pairs["bootstrap.servers"] == server == "127.0.0.1:19093"
        protection = ConnectionProtection(security_of(of_file(ADMIN, pairs)))
        assert protection.protocol == "SASL_SSL"
        assert protection.login is not None
        assert (protection.login.user, protection.login.password) == ("admin", laid.password)
        assert protection.context.verify_mode == ssl.CERT_REQUIRED
    python = json.loads((laid.directory / secure_files.PYTHON).read_text())
    assert python["sasl_plain_password"] == laid.password
    assert Path(python["ssl_cafile"]).read_text().startswith("-----BEGIN CERTIFICATE")


def test_the_certificate_is_issued_again_for_a_new_name_and_near_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "data"
    lay_out(directory, "127.0.0.1", 9093, {})
    first = certificate(directory)
    assert set(first.names) == {"localhost", "127.0.0.1", "::1"}
    lay_out(directory, "127.0.0.1", 9093, {"advertised.listeners": "SASL_SSL://kafka.example:9093"})
    second = certificate(directory)
    assert set(second.names) == {"localhost", "127.0.0.1", "::1", "kafka.example"}
    lay_out(directory, "127.0.0.1", 9093, {})
    assert certificate(directory) == second
    monkeypatch.setattr(secure_setup, "RENEWED_BEFORE", second.ends - second.begins)
    lay_out(directory, "127.0.0.1", 9093, {})
    assert certificate(directory) != second
    assert certificate(directory).issuer == first.issuer


def test_data_without_protection_are_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(SetupRefused, match="holds the data of a node without --secure"):
        lay_out(tmp_path, "127.0.0.1", 9093, {})
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("words", [["--brokers", "2"], [__file__]])
def test_secure_is_for_one_node_without_a_file_of_its_own(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["start", "--secure", *words])
    assert result.exit_code == 2
    assert "--secure lays out one node by itself" in result.output
