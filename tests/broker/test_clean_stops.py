"""The epoch under which a broker stopped cleanly: only all of its directories together can say so (KIP-966)."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.assembly.storage import StoredNode, open_storage
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpystorage.real_disk import RealDisk
from kpystorage.session import NO_BROKER_EPOCH

EPOCH = 41


def opened(tmp_path: Path) -> StoredNode:
    directories = ",".join(str(tmp_path / name) for name in ("one", "two"))

    async def open_them() -> StoredNode:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        try:
            return await open_storage(BrokerConfig({"log.dirs": directories}), RealDisk(), Random(1), scheduler)
        finally:
            await scheduler.close()

    return asyncio.run(open_them())


@pytest.mark.parametrize(
    ("after", "epoch"),
    [
        ("nothing", EPOCH),
        ("a directory that was closed under another epoch", NO_BROKER_EPOCH),
        ("a directory without its mark", NO_BROKER_EPOCH),
        ("a directory that cannot be used", NO_BROKER_EPOCH),
        ("the death of the process", NO_BROKER_EPOCH),
    ],
)
def test_a_stop_was_clean_only_if_every_directory_says_so(tmp_path: Path, after: str, epoch: int) -> None:
    first = opened(tmp_path)
    assert first.previous_broker_epoch == NO_BROKER_EPOCH
    if after == "the death of the process":
        first.abandon()
    else:
        first.close(EPOCH)
    second = tmp_path / "two"
    if after == "a directory that was closed under another epoch":
        (second / ".kafka_cleanshutdown").write_text(f'{{"version":0,"brokerEpoch":{EPOCH - 1}}}')
    elif after == "a directory without its mark":
        (second / ".kafka_cleanshutdown").unlink()
    elif after == "a directory that cannot be used":
        shutil.rmtree(second)
        second.write_text("a file where a directory was")
    again = opened(tmp_path)
    assert again.previous_broker_epoch == epoch
    again.close(EPOCH)
