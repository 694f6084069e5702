"""The disk dies at every call while a partition moves between directories: one whole log is left, which moves on."""

import errno
import logging
from functools import partial

import pytest
from crash_world import check_derived, check_kept
from crashing import crashes, failing
from moving_world import IDS, ONE, TOPIC, TWO, Life, MovingWorld, deleted

from kpybroker.hosts.replicas.move import BATCHES_AT_ONCE, SMALLEST_CHUNK_BYTES, Assignment, Move
from kpybroker.machines.errors import KafkaError
from kpystorage.errors import DiskFailure
from kpywire import error_codes

OPERATIONS = 60


def moves_enough(world: MovingWorld) -> bool:
    return world.moves > 2


@pytest.mark.parametrize("seed", [1, 2])
def test_a_power_failure_at_any_call_of_a_move_leaves_one_log_with_all_that_was_flushed(seed: int) -> None:
    for world in crashes(partial(MovingWorld, seed, OPERATIONS), moves_enough):
        world.check(world.disk.after_power_failure(), world.model.promised_end)


@pytest.mark.parametrize("seed", [3])
def test_the_death_of_the_process_at_any_call_of_a_move_leaves_one_log_with_all_that_was_acknowledged(
    seed: int,
) -> None:
    for world in crashes(partial(MovingWorld, seed, OPERATIONS), moves_enough):
        world.check(world.disk.after_process_death(), world.model.acknowledged_end)


def test_a_directory_that_fails_at_any_call_of_a_move_leaves_the_log_in_the_other_or_says_that_it_is_gone() -> None:
    for world in failing(partial(MovingWorld, 4, OPERATIONS), moves_enough):
        try:
            world.run()
        except (DiskFailure, KafkaError, OSError):
            if not hasattr(world, "life"):
                continue  # a directory could not even be opened
        life = world.life
        life.settle()
        (failed,) = life.directories.failed or [None]
        if failed is None:
            continue
        check_after_failure(world, life, failed.path)


def check_after_failure(world: MovingWorld, life: Life, failed: str) -> None:
    """Either the log works, in the other directory, or its partition is offline; no move is left half-way."""
    assert not list(life.moves)
    if life.directories.find(TOPIC, 0) is None:
        with pytest.raises(KafkaError) as gone:
            _ = life.log
        assert gone.value.code == error_codes.KAFKA_STORAGE_ERROR
        return
    log = life.log
    assert log.directory.path != failed
    assert world.controller.assigned == IDS[log.directory.path]
    check_kept(world.model, log, world.model.acknowledged_end)
    check_derived(log)
    with pytest.raises(KafkaError) as refusal:
        life.moves.move(life.replicas, TOPIC, 0, failed)
    assert refusal.value.code == error_codes.KAFKA_STORAGE_ERROR


def test_a_topic_that_is_deleted_while_it_moves_leaves_nothing() -> None:
    world = MovingWorld(5, 40)
    world.run()
    life = world.life
    for milliseconds in range(0, 60, 5):
        there = {ONE: TWO, TWO: ONE}[life.log.directory.path]
        life.moves.move(life.replicas, TOPIC, 0, there)
        life.scheduler.advance(milliseconds)
        if milliseconds < 55:
            life.settle()
    deleted(world.controller, life.replicas)
    life.settle()
    for path in (ONE, TWO):
        assert not [name for name in world.disk.list_directory(path) if name.startswith("t-0")]
    assert not list(life.moves)


def test_a_copy_whose_log_is_gone_counts_if_it_had_caught_up(caplog: pytest.LogCaptureFixture) -> None:
    world = MovingWorld(6, 0)
    world.run()
    world.append(world.life)
    life = world.life
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    while world.controller.assigned == IDS[ONE]:
        life.scheduler.advance(1)
    with caplog.at_level(logging.WARNING):
        alone = Life(world.disk.after_process_death(), world.controller, paths=(TWO,))
        alone.begin()
    assert "the last records may be missing" in caplog.text
    check_kept(world.model, alone.log, world.model.acknowledged_end)


def test_a_copy_whose_log_is_gone_waits_for_it_if_it_had_not_caught_up(caplog: pytest.LogCaptureFixture) -> None:
    world = MovingWorld(6, 0)
    world.run()
    world.append(world.life)
    world.life.moves.move(world.life.replicas, TOPIC, 0, TWO)
    with caplog.at_level(logging.ERROR):
        alone = Life(world.disk.after_process_death(), world.controller, paths=(TWO,))
        alone.begin()
    assert "the log that it was copied from is missing" in caplog.text
    with pytest.raises(KafkaError) as refusal:
        _ = alone.log
    assert refusal.value.code == error_codes.KAFKA_STORAGE_ERROR
    both = Life(world.disk.after_process_death(), world.controller)
    both.begin()
    both.settle()
    assert both.log.directory.path == TWO
    check_kept(world.model, both.log, world.model.acknowledged_end)


def test_damage_in_a_log_ends_its_move_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = MovingWorld(6, 0)
    world.run()
    world.append(world.life)
    life = world.life
    file = life.log.active.log
    file.pwrite(bytes([file.pread(1, 70)[0] ^ 1]), 70)
    with caplog.at_level(logging.ERROR):
        life.moves.move(life.replicas, TOPIC, 0, TWO)
        life.settle()
    assert "has another CRC than it declares" in caplog.text
    assert life.log.directory.path == ONE
    assert not [name for name in world.disk.list_directory(TWO) if name.startswith("t-0")]
    assert life.directories.failed == []


def test_a_disk_that_is_full_ends_the_move_and_leaves_the_log_where_it_was() -> None:
    world = MovingWorld(6, 0)
    world.run()
    world.append(world.life)
    life = world.life
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    world.disk.failure = lambda: OSError(errno.ENOSPC, "No space left on device")
    world.disk.fail_at = world.disk.calls + 1
    life.settle()
    assert [each.path for each in life.directories.failed] == [TWO]
    assert life.log.directory.path == ONE
    assert life.halted == []
    world.append(life)
    check_kept(world.model, life.log, world.model.acknowledged_end)


def test_no_step_of_a_move_copies_many_batches_also_where_the_log_grew_while_the_controller_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = MovingWorld(8, 0)
    world.run()
    life = world.life
    for _ in range(50):
        world.append(life)
    copied = [0]

    def counted(move: Move, data: bytes) -> None:
        copied[-1] += len(data)
        append(move, data)

    def one_step(move: Move) -> None:
        copied.append(0)
        if move.assignment is Assignment.ASKED and len(grown) < 2:
            grown.append(move)
            for _ in range(4_000):
                world.append(life)
        step(move)

    grown: list[Move] = []
    append, step = Move._append, Move.step
    monkeypatch.setattr(Move, "_append", counted)
    monkeypatch.setattr(Move, "step", one_step)
    life.moves.move(life.replicas, TOPIC, 0, TWO)
    life.settle()
    assert grown
    assert life.log.directory.path == TWO
    check_kept(world.model, life.log, world.model.acknowledged_end)
    assert sum(copied) > 20 * SMALLEST_CHUNK_BYTES
    assert max(copied) <= 200 * BATCHES_AT_ONCE
