"""``format("kpybroker")`` in a Spark session: a batch and a stream whose old records come from the store of a node."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiers import RECORDS, Store, Tier, encrypted, filled, plain, tier_in

from support.spark_home import home_with_bytecode
from tiered.filling import fill

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session without any package, whose processes of Python start fast."""
    from pyspark.sql import SparkSession

    from support.spark_session import end_jvm

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home_with_bytecode()))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        session = builder.getOrCreate()
        yield session
        session.stop()
        end_jvm()


def options(tier: Tier, **given: str) -> Store:
    servers = {"kafka.bootstrap.servers": f"127.0.0.1:{tier.node.port}", "subscribe": "t"}
    return {**servers, "startingOffsets": "earliest", "transport": "objects", **tier.store, **given}


@pytest.mark.parametrize("form", [plain, encrypted], ids=lambda form: form.__name__)
def test_a_batch_and_a_stream_have_the_records_of_store_and_disk(spark: Any, tmp_path: Path, form: Any) -> None:
    """The keys of the encrypted store have capital letters in their ids, which options have not."""
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, form(tmp_path / "store")) as tier:
        filled(tier)
        batch = spark.read.format("kpybroker").options(**options(tier, minPartitions="4")).load()
        assert sorted(row.offset for row in batch.select("offset").collect()) == list(range(RECORDS))
        only_stored = {"endingOffsets": f'{{"t":{{"0":{RECORDS - 2}}}}}', "kafka.isolation.level": "read_committed"}
        before = tier.fetches_of("t")
        assert spark.read.format("kpybroker").options(**options(tier, **only_stored)).load().count() == RECORDS - 2
        assert tier.fetches_of("t") == before
        seen: list[int] = []

        def take(rows: Any, _number: int) -> None:
            seen.extend(row.offset for row in rows.select("offset").collect())

        def run() -> None:
            source = spark.readStream.format("kpybroker").options(**options(tier, columns="offset"))
            writer = source.load().writeStream.foreachBatch(take).trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

        run()
        assert sorted(seen) == list(range(RECORDS))
        with tier.raw() as raw:
            fill(raw, "t", range(6, 9))
        tier.until_tiered("t", RECORDS + 4)
        run()
        assert sorted(seen) == list(range(RECORDS + 6))


def test_damage_to_an_object_ends_the_query_with_one_line(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as tier:
        filled(tier)
        log = sorted((tmp_path / "store").rglob("*.log"))[1]
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
        with pytest.raises(Exception, match=r"t-0 \[0, \d+\): .*does not have the checksum with which it was written"):
            spark.read.format("kpybroker").options(**options(tier)).load().collect()


def test_a_lake_table_is_written_from_store_and_disk(spark: Any, tmp_path: Path) -> None:
    from kpybroker.spark.lake import Lake

    (tmp_path / "store").mkdir()
    with tier_in(tmp_path, plain(tmp_path / "store")) as tier:
        filled(tier)
        given = {key: value for key, value in options(tier).items() if key != "subscribe" and key != "startingOffsets"}
        lake = Lake(spark, given, "t", f"delta:{tmp_path}/table")
        before = tier.fetches_of("t")
        assert sum(each.rows for each in lake.once()) == RECORDS
        assert 0 < tier.fetches_of("t") - before <= 3  # of the last segment, which is on the disk alone
        holds, lines = lake.check()
        assert holds, lines
