"""Apache Kafka is backed up, and the directory that is restored is served by Apache Kafka and by kpybroker."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from contents import COMPACTED, Contents, look, wait_for_leaders
from filling import CODECS, DELETED, PLAIN, TRANSACTIONS, create_topics, fill, numbered, write
from tenant import Tenant

from kpybroker.cli.backup import command
from kpybroker.cli.checking import check_directories
from kpystorage.checking.findings import DAMAGE
from kpystorage.control_batches import transaction_marker
from kpywire.batch import batch_headers
from oracle import ApacheKafka
from support.raw_client import RawClient

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]

POSITIONS, MEMBERS = "positions", "members"


def kpybroker(*arguments: str) -> str:
    """The output of ``kpybroker backup``."""
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def check(data: Path) -> None:
    """Nothing is wrong with the directory but for gaps in the compacted log, where no cleaner has run yet."""
    found = check_directories([str(data)], lambda _: None, lambda _: None)
    damage = [each for each in found.findings if each.level == DAMAGE and f"/{COMPACTED}-0/" not in each.path]
    assert not damage, damage


def compare(before: Contents, after: Contents) -> None:
    """Everything is there; an open transaction has one more batch, which ends it."""
    assert after.topic_ids == before.topic_ids
    assert after.latest == before.latest
    for place, seen in before.batches.items():
        found = after.batches[place]
        start, stable, end = before.bounds[place]
        if place[0] == TRANSACTIONS:
            assert found[: len(seen)] == seen
            ((_, header),) = batch_headers(found[len(seen) :])
            assert transaction_marker(header, found, len(seen)) == (False, 0)
            assert stable < end
            assert after.bounds[place] == (start, end + 1, end + 1)
        else:
            assert found == seen, place
            assert after.bounds[place] == before.bounds[place]
            assert after.producers[place] == before.producers[place]
    for (kind, name), configs in before.configs.items():
        if name in (CODECS, DELETED, PLAIN):
            assert after.configs[kind, name] == configs
    assert after.groups[POSITIONS] == before.groups[POSITIONS]
    assert after.groups[MEMBERS][-1] == before.groups[MEMBERS][-1]


def test_apache_kafka_opens_what_is_restored_from_a_backup_of_apache_kafka(tmp_path: Path) -> None:
    store = str(tmp_path / "backup")
    seen = []
    (tmp_path / "source").mkdir()
    with ApacheKafka(directory=tmp_path / "source") as source:
        create_topics(source.port)
        for turn in range(2):
            fill(source.port, turn)
            seen.append(look(source.port))
            kpybroker("create", "--to", store, "-b", source.bootstrap_servers)
    kpybroker("check", "--from", store)
    (tmp_path / "target").mkdir()
    target = ApacheKafka(directory=tmp_path / "target")
    target.write_properties()
    kpybroker("restore", "--from", store, "--to", str(target.data), "-c", str(target.properties_file))
    check(target.data)
    ours = Tenant(target)
    for turn, node in enumerate((target, ours, target)):
        with node:
            if turn == 0:
                compare(seen[1], look(node.port))
            with RawClient(node.port) as raw:
                wait_for_leaders(raw, (PLAIN, 2))
                assert write(raw, PLAIN, numbered(2 + turn), 2) == 6 + 3 * turn
        check(target.data)
