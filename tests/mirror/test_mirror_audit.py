"""``kpybroker audit --mirror-of`` between two nodes: a mirror equals its source, and after a failover it does not."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from two_clusters import TwoClusters, client_of, two_clusters

from kpybroker.cli import main
from kpybroker.client import offset_requests, topic_requests
from kpybroker.client.client import Spot
from tests.mirror.test_mirror_node import CODECS, create, kpybroker, produce, producer


def audit(*words: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["audit", "--json", *words])
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_mirror(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each["topic"], each["partition"], each["offset"], each["text"])
        for each in found["findings"]
        if each["claim"] == "mirror"
    ]


def fill(clusters: TwoClusters) -> None:
    create(clusters.source, "orders", 2)
    for codec in CODECS:
        produce(clusters.source, "orders", 40, compression_type=codec, enable_idempotence=True)
    writer = producer(clusters.source, transactional_id="t")
    writer.init_transactions(30)
    for number in range(4):
        writer.begin_transaction()
        writer.produce("orders", b"of transaction %d" % number, partition=number % 2)
        writer.flush(30)
        writer.commit_transaction(30) if number % 2 else writer.abort_transaction(30)
    with client_of(clusters.source) as client:
        offset_requests.delete_records(client, {Spot("orders", 0): 17})
    produce(clusters.source, "orders", 1)


def test_a_mirror_is_proved_equal_until_it_is_written_to(tmp_path: Path) -> None:
    with two_clusters(tmp_path) as clusters:
        fill(clusters)
        clusters.create_mirror("dr:orders")
        for partition in range(2):
            clusters.wait_for("orders", partition)
        create(clusters.mirror, "own")
        create(clusters.source, "own")
        here, there = f"127.0.0.1:{clusters.mirror.port}", f"127.0.0.1:{clusters.source.port}"
        for source in (clusters.source_file, there):
            found = audit("-b", here, "--mirror-of", source)
            proof = found["equal_to_source"]
            assert (proof["partitions"], proof["equal"]) == (2, 2)
            assert proof["batches"] > 10
            (note,) = of_mirror(found)
            assert note[0] == "own", "a topic of the same name that is no mirror"
        by_files = audit(str(tmp_path / "mirror"), "--topic", "orders", "--mirror-of", str(tmp_path / "source"))
        assert by_files["equal_to_source"]["equal"] == 2, by_files["findings"]

        with client_of(clusters.source) as client:
            topic_requests.add_partitions(client, "orders", 3)
        kpybroker(clusters, "failover", "dr", "--now")
        end = clusters.mirror.node.broker.replicas.find("orders", 0).held().log.end.offset
        produce(clusters.mirror, "orders", 5)
        produce(clusters.source, "orders", 9)
        found = audit("-b", here, "--topic", "orders", "--mirror-of", clusters.source_file, code=1)
        (differs,) = [each for each in of_mirror(found) if each[3].startswith("differs")]
        assert differs[:3] == ("orders", 0, end)
        assert "from its source from offset" in differs[3]
        assert found["equal_to_source"]["equal"] < found["equal_to_source"]["partitions"]
        words = CliRunner().invoke(main, ["audit", "-b", here, "--topic", "orders", "--mirror-of", there])
        assert words.exit_code == 1
        assert "equal to the source: 1 of " in words.stdout.splitlines()[-1]


def test_a_source_without_an_answer_or_a_file_that_is_wrong_is_one_line(tmp_path: Path) -> None:
    with two_clusters(tmp_path) as clusters:
        here = f"127.0.0.1:{clusters.mirror.port}"
        file = tmp_path / "wrong.properties"
        file.write_text("security.protocol=SSL\n")
        wrong = CliRunner().invoke(main, ["audit", "-b", here, "--mirror-of", str(file)])
        assert (wrong.exit_code, wrong.output.count("\n")) == (2, 4), wrong.output
        assert "there is no bootstrap.servers" in wrong.output
        silent = CliRunner().invoke(main, ["audit", "-b", here, "--mirror-of", "127.0.0.1:1"])
        assert silent.exit_code == 3
        unknown = CliRunner().invoke(main, ["audit", "-b", here, "--topic", "t", "--mirror-of", here])
        assert unknown.exit_code == 2
        assert "there is no topic t" in unknown.output
