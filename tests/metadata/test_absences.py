"""Which brokers are away for less than a session, by what the metadata said one after the other."""

from typing import Any

from kpybroker.machines.metadata.absences import Absence, Absences
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord
from kpywire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

SESSION_MS = 9_000


class World:
    """A node that hears of broker 1, and a clock."""

    def __init__(self, *known: Any, snapshot: bool = False) -> None:
        """``known`` is what its disk holds when it starts."""
        self.now_ms = 50_000.0
        self.absences = Absences()
        self.loader = MetadataLoader(MetadataImage("cluster"))
        self.loader.subscribe(lambda image, delta: self.absences.note(image, delta, self.now_ms))
        self._next_offset = 100
        if snapshot:
            self.loader.load_snapshot(known, self._next_offset, 1)
            self.loader.publish(self._next_offset)
        else:
            self.hear(*known)

    def hear(self, *records: Any) -> None:
        """Records that are published together."""
        self.loader.load(records, self._next_offset, 1)
        self._next_offset += len(records)
        self.loader.publish(self._next_offset)

    @property
    def is_away(self) -> bool:
        return self.absences.is_away(1, self.now_ms, SESSION_MS)


def registered(*, epoch: int = 7, fenced: bool = True) -> Any:
    return RegisterBrokerRecord(
        broker_id=1, broker_epoch=epoch, incarnation_id=bytes(16), end_points=[], features=[], rack=None, fenced=fenced,
        log_dirs=[bytes(16)],
    )  # fmt: skip


def changed(fenced: int, epoch: int = 7) -> Any:
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=fenced)


UNFENCED, FENCED = changed(-1), changed(1)


def test_a_broker_that_is_fenced_is_away_for_a_session() -> None:
    world = World()
    world.hear(registered(), UNFENCED)
    assert not world.is_away
    world.hear(FENCED)
    assert world.is_away
    world.now_ms += SESSION_MS - 1
    assert world.is_away
    world.now_ms += 1
    assert not world.is_away


def test_a_broker_that_is_back_is_not_away() -> None:
    world = World(registered(fenced=False))
    world.hear(FENCED)
    world.hear(registered(epoch=8))
    assert world.is_away
    world.hear(changed(-1, epoch=8))
    assert not world.is_away


def test_a_broker_that_registers_for_the_first_time_is_not_away() -> None:
    world = World()
    world.hear(registered())
    assert not world.is_away


def test_a_broker_that_was_unregistered_is_not_away() -> None:
    world = World(registered(fenced=False))
    world.hear(FENCED)
    world.hear(UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert not world.is_away


def test_a_broker_that_left_again_before_its_return_was_known_is_away() -> None:
    world = World(registered(fenced=False))
    world.hear(FENCED)
    world.now_ms += 2 * SESSION_MS
    world.hear(UNFENCED, FENCED)
    assert world.is_away


def test_a_broker_fenced_at_the_start_of_a_node_is_away_since_then() -> None:
    for world in (World(registered(), UNFENCED, FENCED), World(registered(), snapshot=True)):
        world.now_ms += SESSION_MS - 1
        assert world.is_away
        world.now_ms += 1
        assert not world.is_away


def test_the_first_moment_of_an_absence_is_kept_and_whether_it_is_older_than_the_node() -> None:
    world = World(registered(fenced=False), snapshot=True)
    assert world.absences.of(1) is None
    world.hear(FENCED)
    assert world.absences.of(1) == Absence(50_000.0, is_older=False)
    world.now_ms += 5_000
    world.hear(registered(epoch=9))
    assert world.absences.of(1) == Absence(50_000.0, is_older=False), "it is registered again, and serves nobody yet"
    world.hear(changed(-1, epoch=9))
    assert world.absences.of(1) is None
    assert World(registered(), snapshot=True).absences.of(1) == Absence(50_000.0, is_older=True)
    late = World()
    late.hear(registered(epoch=9))
    assert late.absences.of(1) is None, "it has never served"
