"""Directories of the last versions are opened whole: records, transactions, groups, configs, ACLs, users, tokens."""

from pathlib import Path

import pytest
from contents import differences, look
from earlier import TURNS, opened, unpack
from filling import PLAIN, fill, numbered, write
from newer_groups import ACCEPTED, SHARED, acquired
from tenant import check

from kpystorage import names
from support.raw_client import RawClient
from support.raw_requests import metadata_of
from support.upgrading import VERSIONS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_an_earlier_version_wrote_is_there_and_is_written_on(version: str, tmp_path: Path) -> None:
    left = unpack(version, tmp_path)
    with opened(left, tmp_path) as broker:
        left.check(broker)
        with RawClient(broker.port) as raw:
            again = write(raw, PLAIN, numbered(TURNS - 1), 2)
            if "share" in left.groups:
                got = acquired(raw, metadata_of(raw, SHARED).topic_id)
                assert got
                assert not set(got) & set(ACCEPTED)
        assert again == 3 * (TURNS - 1), "the producer of then is not known any more"
        fill(broker.port, TURNS)
        seen = look(broker.port)
        broker.restart()
        assert not differences(seen, look(broker.port))
    check(tmp_path / "data")


@pytest.mark.parametrize("version", VERSIONS)
def test_all_is_there_if_the_earlier_version_died(version: str, tmp_path: Path) -> None:
    left = unpack(version, tmp_path)
    (tmp_path / "data" / names.CLEAN_SHUTDOWN).unlink()
    with opened(left, tmp_path) as broker:
        left.check(broker)
