"""A backup in a bucket, by the command, against a server on this machine."""

from pathlib import Path

import boto3
from backed_up import check_directory, create_topic, produce
from click.testing import CliRunner
from moto.server import ThreadedMotoServer

from kpybroker.cli.backup import command
from tests.broker.running_node import start
from tests.mirror.two_clusters import batches

LOGIN = {"aws_access_key_id": "an-id", "aws_secret_access_key": "a-secret-of-forty-characters-0123456789A"}


def test_a_bucket_holds_a_backup(tmp_path: Path) -> None:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **LOGIN)
    client.create_bucket(Bucket="backups")
    configs = {
        "endpoint.url": endpoint,
        "region": "us-east-1",
        "path.style.access.enabled": "true",
    }
    lines = [f"rsm.config.storage.s3.{name}={value}\n" for name, value in configs.items()]
    lines += [f"rsm.config.storage.{name.replace('_', '.')}={each}\n" for name, each in LOGIN.items()]
    file = tmp_path / "store.properties"
    file.write_text("".join(lines))
    node = start(tmp_path / "source")
    place = ("s3://backups/prod", "--store-config", str(file))
    try:
        create_topic(node, "orders")
        for _ in range(2):
            produce(node, "orders", 100)
            run("create", "--to", *place, "-b", f"127.0.0.1:{node.port}")
        expected = batches(node, "orders", 0)
        assert run("check", "--from", *place).startswith("2 runs, 2 objects, ")
        assert run("list", "--from", *place).count("\n") == 3
        run("restore", "--from", *place, "--to", str(tmp_path / "again"))
        keys = [each["Key"] for each in client.list_objects_v2(Bucket="backups")["Contents"]]
        assert {key.split("/")[1] for key in keys if key.startswith("prod/")} == {"runs", "topics"}
        assert all(key.startswith("prod/") for key in keys)
    finally:
        node.stop()
        server.stop()
    check_directory(str(tmp_path / "again"))
    again = start(tmp_path / "again")
    try:
        assert batches(again, "orders", 0) == expected
    finally:
        again.stop()


def run(*arguments: str) -> str:
    """The output of ``kpybroker backup``."""
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output
