"""``format --add-scram``: users of a cluster before its first request, read as by Kafka, stored as keys."""

import base64
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from running_node import RunningNode

from kpybroker.cli.format import command
from kpybroker.client.client import Client
from kpybroker.hosts.quorum.formatter import read_bootstrap_records
from kpybroker.hosts.quorum.scram_arguments import parse_scram
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import FormatRefused
from kpybroker.machines.sasl.scram import SCRAM_SHA_256
from kpystorage.real_disk import RealDisk
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from oracle import ApacheKafka
from oracle.asked import AskedOracle

LATEST = metadata_version.LATEST
SALT = base64.b64encode(b"salt of some bytes").decode()
BOB = f'SCRAM-SHA-256=[name=bob,password=pass=word,salt="{SALT}"]'
ANN = f"SCRAM-SHA-512=[name=ann,saltedpassword={base64.b64encode(bytes(64)).decode()},salt={SALT},iterations=8192]"
ARGUMENTS = [
    BOB,
    ANN,
    f" SCRAM-SHA-512=[password=pässword,salt={SALT.rstrip('=')},iterations=16384,name=ünal,,]\t",
    f'SCRAM-SHA-256=[name="quoted",name="again",password="x",salt={SALT},saltedpassword=not base64]',
    f"SCRAM-SHA-256=[name=,password=\",salt={SALT},iterations=+4096]",
    "SCRAM-SHA-256", "=", "SCRAM-SHA-1=[name=a,password=b]", "scram-sha-256=[name=a,password=b]",
    "SCRAM-SHA-256=name=a,password=b]", "SCRAM-SHA-256=[name=a,password=b", "SCRAM-SHA-256=", "SCRAM-SHA-256=[]",
    "SCRAM-SHA-256=[name=a,,password=b]", "SCRAM-SHA-256=[name=a,password]", "SCRAM-SHA-256=[password=b]",
    "SCRAM-SHA-256=[name=a]", "SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "SCRAM-SHA-256=[name=a,salt=!,password=b]",
    f"SCRAM-SHA-256=[name=a,salt={SALT},iterations=4095,password=b]", "SCRAM-SHA-256=[name=a,password=b,iterations=]",
    "SCRAM-SHA-512=[name=a,password=b,iterations=16385]", "SCRAM-SHA-256=[name=a,password=b,iterations=99999999999]",
    "SCRAM-SHA-256=[name=a,password=b,iterations=4096.0]", "SCRAM-SHA-256=[name=a,password=b,z=1,other=2]",
    "SCRAM-SHA-256=[name=a, password=b]", "SCRAM-SHA-256=[Name=a,password=b]",
]  # fmt: skip


def outcome(text: str) -> str:
    try:
        (record,) = parse_scram([text], LATEST, Random(1))
    except FormatRefused as error:
        return f"error {error}"
    return f"record {base64.b64encode(encode_record(record, 0)).decode()}"


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = AskedOracle("ScramOracle.java", "org.apache.kafka.metadata.storage.ScramOracle")
    yield oracle
    oracle.close()


@pytest.mark.java
def test_every_argument_means_the_same_as_to_kafka(kafka: AskedOracle) -> None:
    theirs = {text: kafka.ask_for_line(base64.b64encode(text.encode()).decode()) for text in ARGUMENTS}
    assert {text: outcome(text) for text in ARGUMENTS} == theirs


def test_a_password_without_salt_gets_a_random_one() -> None:
    text = "SCRAM-SHA-256=[name=bob,password=x]"
    first, second = parse_scram([text, text], LATEST, Random(1))
    assert first.salt != second.salt
    salted = SCRAM_SHA_256.salted_password("x", first.salt, 4096)
    assert first.stored_key == SCRAM_SHA_256.credential(salted, first.salt, 4096).stored_key


def test_an_undecodable_secret_is_not_printed() -> None:
    with pytest.raises(FormatRefused) as refused:
        parse_scram([f"SCRAM-SHA-256=[name=a,salt={SALT},saltedpassword=hush!]"], LATEST, Random(1))
    assert str(refused.value) == "Failed to decode given saltedPassword"


def test_an_empty_password_is_refused() -> None:
    with pytest.raises(FormatRefused, match="The password of add-scram must not be empty"):
        parse_scram(["SCRAM-SHA-256=[name=a,password=]"], LATEST, Random(1))


def test_metadata_older_than_scram_begin_with_no_user() -> None:
    assert parse_scram([], 10, Random(1)) == []
    with pytest.raises(FormatRefused, match=r"SCRAM is only supported in metadata\.version 3"):
        parse_scram([BOB], 10, Random(1))


def format_(file: Path, *options: str) -> None:
    result = CliRunner().invoke(command, ["-c", str(file), "--standalone", *options])
    assert result.exit_code == 0, result.output


def users_of(server: str) -> dict[str, list[tuple[int, int]]]:
    with Client(server) as client:
        results = client.call(DescribeUserScramCredentialsRequest(users=None)).results
    return {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in results}


USERS = {"ann": [(2, 8192)], "bob": [(1, 4096)]}


def users_of_node(directory: Path) -> dict[str, list[tuple[int, int]]]:
    node = RunningNode({"log.dirs": str(directory), "node.id": "1"})
    try:
        return users_of(f"127.0.0.1:{node.port}")
    finally:
        node.stop()


def test_the_command_writes_them_behind_the_features_and_the_node_has_them(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={data}\n")
    format_(file, "--add-scram", BOB, "-S", ANN)
    records = read_bootstrap_records(RealDisk(), str(data))
    assert [each.name for each in records[-2:] if isinstance(each, UserScramCredentialRecord)] == ["bob", "ann"]
    assert users_of_node(data) == USERS


@pytest.mark.java
def test_clusters_that_either_formats_begin_with_the_same_users_on_the_other(tmp_path: Path) -> None:
    theirs = ApacheKafka(directory=tmp_path / "theirs", formatting=("--standalone", "-S", BOB, "-S", ANN))
    theirs.directory.mkdir()
    theirs.prepare()
    ours = ApacheKafka(directory=tmp_path / "ours")
    ours.directory.mkdir()
    ours.write_properties()
    format_(ours.properties_file, "-S", BOB, "-S", ANN)
    one, other = (read_bootstrap_records(RealDisk(), each.properties["log.dirs"]) for each in (theirs, ours))
    assert one == other
    assert users_of_node(Path(theirs.properties["log.dirs"])) == USERS
    with ours as kafka:
        assert users_of(kafka.bootstrap_servers) == USERS


def test_a_wrong_argument_formats_nothing(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'data'}\n")
    result = CliRunner().invoke(command, ["-c", str(file), "--add-scram", "SCRAM-SHA-256=[name=a]"])
    assert result.exit_code == 1
    assert "kpybroker format: You must supply one of 'password' or 'saltedpassword' to add-scram" in result.output
    assert not (tmp_path / "data").exists()
