"""The audit as a PySpark job finds what the command finds."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import BROKERS, DATA, Fleet, History
from test_audit_command import written

from kpybroker.machines.audit.running import AuditScope
from kpybroker.machines.audit.running import audit as run_audit
from kpybroker.pipeline.audit.directories import AuditedDirectories
from kpybroker.pipeline.audit.mapping import in_processes
from kpystorage import names

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from support.spark_session import end_jvm

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.pyspark.python", sys.executable)
    session = builder.config("spark.executorEnv.PYTHONPATH", os.pathsep.join(filter(None, sys.path))).getOrCreate()
    yield session
    session.stop()
    end_jvm()


def test_a_job_finds_the_same_as_the_command(spark: Any, tmp_path: Path) -> None:
    from kpybroker.spark.audit import audit, findings

    history = History(11, torn=1)
    fleet = Fleet(history)
    path = fleet.files(2, DATA[0], names.LOG)[0]
    data = bytearray(fleet.disk.read(path))
    data[70] ^= 1
    fleet.change(path, bytes(data))
    for broker in BROKERS:
        written(fleet.disk, Fleet.path(broker), tmp_path / f"broker-{broker}")
    source = AuditedDirectories([str(tmp_path / f"broker-{broker}") for broker in BROKERS])
    alone = run_audit(source, AuditScope(), in_processes(1), lambda _size: None, lambda _size: None)
    in_spark = audit(spark, source)
    assert in_spark.findings == alone.findings
    assert in_spark.summary.roots() == alone.summary.roots()
    rows = findings(spark, in_spark).where("level = 'damage'").orderBy("claim").collect()
    assert [row.claim for row in rows] == ["bytes", "transactions"]
    assert rows[0].byte == 0


def test_a_job_proves_that_a_mirror_is_equal(spark: Any, tmp_path: Path) -> None:
    from kpybroker.spark.audit import findings, prove_mirror

    history = History(11)
    batches = history.batches[DATA[0]]
    fleet = Fleet(history, {(2, DATA[0]): batches[:2] + batches[3:]})
    for broker in BROKERS:
        written(fleet.disk, Fleet.path(broker), tmp_path / f"broker-{broker}")
    source, equal, other = (AuditedDirectories([str(tmp_path / f"broker-{broker}")]) for broker in (1, 3, 2))
    assert prove_mirror(spark, equal, source).equal == len(DATA)
    proof = prove_mirror(spark, other, source)
    assert (proof.partitions, proof.equal) == (len(DATA), len(DATA) - 1)
    (row,) = findings(spark, proof).where("level = 'damage'").collect()
    assert (row.topic, row.partition) == DATA[0]
    assert row.text.endswith(f"it lacks the batch of offset {row.offset}")
