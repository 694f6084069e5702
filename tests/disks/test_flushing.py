"""``flush.messages`` and ``flush.ms``: how much of a log the loss of power may cost."""

from random import Random

import pytest
from log_making import NOW_MS, PATH, TOPIC_ID, append_records, open_directory
from moving_world import TOPIC, MovingWorld

from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.metadata_records.config_record import ConfigRecord

RECORDS = 11


@pytest.mark.parametrize("flush_messages", [1, 2, 4, 100])
def test_a_power_failure_costs_less_than_flush_messages(flush_messages: int) -> None:
    for seed in range(20):
        disk = SimDisk(Random(seed))
        disk.make_directory(PATH)
        disk.synchronize_directory("/")
        directory = open_directory(disk)
        config = LogConfig(flush_messages=flush_messages)
        log = directory.create_log("t", 0, TOPIC_ID, config, NOW_MS)
        for _ in range(RECORDS):
            append_records(log, 1)
        left = open_directory(disk.after_power_failure()).logs.get(("t", 0))
        end = 0 if left is None else left.open().end.offset
        assert end > RECORDS - flush_messages


def test_records_older_than_flush_ms_survive_a_power_failure() -> None:
    from kpybroker.config.broker import BrokerConfig
    from kpybroker.hosts.replicas.upkeep import Upkeep

    for seed in range(5):
        world = MovingWorld(seed, 0)
        world.run()
        life = world.life
        upkeep = Upkeep(life.scheduler, life.replicas, lambda: BrokerConfig.load(None, {}))
        upkeep.start()
        setting = ConfigRecord(resource_type=2, resource_name=TOPIC, name="flush.ms", value="500")
        world.controller.tell(life.replicas, setting)  # while it runs
        world.append(life)
        life.scheduler.advance(1_000)
        promised = life.log.end.offset
        assert life.log.recovery_point == promised
        world.append(life)
        life.scheduler.advance(100)
        assert life.log.recovery_point == promised
        upkeep.stop()
        world.check(world.disk.after_power_failure(), promised)
