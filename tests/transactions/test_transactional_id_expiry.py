"""Transactional ids that nobody used for long are forgotten; who comes back later is a new producer."""

from transaction_world import TransactionWorld

from kpywire import error_codes

EXPIRATION_MS = 100_000


def old_world(**settings: int) -> TransactionWorld:
    return TransactionWorld(transactional_id_expiration_ms=EXPIRATION_MS, **settings)


def test_an_idle_id_is_forgotten_when_its_time_is_over() -> None:
    world = old_world()
    producer = world.started()
    world.advance(EXPIRATION_MS - 1)
    world.expire()
    assert "x" in world.transactions
    world.advance(1)
    world.expire()
    assert not world.transactions
    assert world.log[-1][1] is None
    assert world.end(producer)[0] == error_codes.INVALID_PRODUCER_ID_MAPPING
    world.restart()
    assert world.init(producer_id=producer[0], producer_epoch=producer[1])[1] > producer[0]


def test_ids_with_something_open_are_kept_and_complete_ones_go() -> None:
    world = old_world()
    for each in ("ongoing", "prepared", "committed", "aborted"):
        producer = world.started(each, timeout_ms=900_000)
        world.add(producer, transactional_id=each)
        if each != "ongoing":
            world.end(producer, commit=each != "aborted", transactional_id=each)
    for markers in world.wanted:
        if markers.transactional_id != "prepared":
            world.mark(markers)
    world.advance(EXPIRATION_MS)
    world.expire()
    assert set(world.transactions) == {"ongoing", "prepared"}


def test_an_id_that_is_used_again_while_others_expire_is_kept() -> None:
    world = old_world(max_batch_bytes=2_000)
    for each in range(100):
        world.started(f"id-{each}")
    world.advance(EXPIRATION_MS)
    world.expire()
    assert not world.transactions
    world.started("again")
    world.advance(EXPIRATION_MS)
    world.init("again")
    world.expire()
    assert set(world.transactions) == {"again"}


def test_a_dynamic_change_of_the_retention_counts_at_once() -> None:
    world = TransactionWorld()
    world.started()
    world.advance(1_000)
    world.expire()
    assert world.transactions
    world.settings = world.settings._replace(transactional_id_expiration_ms=1_000)
    world.expire()
    assert not world.transactions
