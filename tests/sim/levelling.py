"""An operator who replaces the programs of nodes by newer ones, and raises `metadata.version` meanwhile.

Nodes of both programs run in one process of Python, so the table of features is that of the node that acts. An older
program knows the levels of the release that the cluster begins with; everything else of it is as in this version.

Rules: no node is given a level that its program does not know; within a life of a node the level is not lowered over a
change of records; nodes that know the same records know the same level; in the end all programs are new, and all nodes
are at the newest level.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kpybroker.machines.metadata import features, metadata_version
from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.metadata_version import FEATURE_NAME, LATEST, MINIMUM
from kpywire import error_codes
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from .client import Client, NoAnswer
from .settling import newest_image

if TYPE_CHECKING:
    from .machine import Machine
    from .network import Host
    from .simulation import Simulation

UPGRADE, SAFE_DOWNGRADE = 1, 2
HEAL_MS = 120_000.0
MOVE_BACK_SHARE = 0.3
PAUSE_MS = 100


class Levelling:
    """The programs of nodes, and the operator."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.machines = simulation.machines
        self.client: Client | None = None
        older = self.older = metadata_version.level_of(simulation.kind.release)
        """The newest level that an older program knows."""
        rng = self.rng = self.world.stream("levelling")
        is_alone = len(self.machines) == 1
        self.known = {each.host: LATEST if is_alone else rng.choice((older, older, LATEST)) for each in self.machines}
        """The newest level that the program of a host knows."""
        self._wanted = dict(self.known)
        """The same after its next death."""
        self._seen: dict[Host, tuple[int, int]] = {}
        """The life and the level of each node when it was checked last."""
        self._at: dict[int, int] = {}
        """The level behind a number of records of the metadata log."""
        self._by_host = {each.host: each for each in self.machines}
        self._may_move_back = True
        self._is_healing = self.is_done = False
        self.world.when_acting = self._acts

    @property
    def clients(self) -> list[Client]:
        """The client that goes on when others have ended."""
        return [] if self.client is None else [self.client]

    @contextmanager
    def watching(self) -> "Iterator[None]":
        """Leave the table of features as it was."""
        try:
            yield
        finally:
            _know(LATEST)

    def _acts(self, host: "Host") -> None:
        if host in self.known:
            _know(self.known[host])

    def died(self, machine: "Machine") -> None:
        """Its next life has the program that is wanted."""
        self.known[machine.host] = self._wanted[machine.host]

    def look(self) -> None:
        """Check the node that has acted."""
        host = self.world.acted
        machine = None if host is None else self._by_host.get(host)
        image = None if machine is None else machine.image
        if machine is None or host is None or image is None or image.metadata_version is None:
            return
        level, life = image.metadata_version, machine.lives
        if level > self.known[host]:
            self.world.violated(f"{machine} is at level {level}, and its program knows {self.known[host]}")
        last_life, last = self._seen.get(host, (life, level))
        if last_life == life and level < last and metadata_version.metadata_changes_between(level, last):
            self.world.violated(f"{machine} was at level {last} and is at level {level}, which has other records")
        self._seen[host] = life, level
        same = self._at.setdefault(image.next_offset, level)
        if level != same:
            self.world.violated(f"{machine} is at level {level} at offset {image.next_offset}, and another at {same}")

    # The operator

    def begin(self) -> None:
        """From now on programs change, and levels."""
        self.world.tell(f"programs know {list(self.known.values())}")
        self.client = self.simulation.client_with("leveller", 2_000.0)
        self.client.run(self._work(self.client))

    def heal(self) -> None:
        """All programs are to be new from now on, and the level is to be the newest."""
        self._is_healing = True

    def get_through(self) -> None:
        """Wait until that is so."""
        assert self.client is not None
        self.simulation.within(HEAL_MS, lambda: self.is_done, "all nodes are at the newest level")
        self.client.is_over = True

    def verdict(self) -> str:
        """The node that is not at the newest level once all is at rest; nothing if all are."""
        behind = [str(each) for each in self.machines if _level(each.image) != LATEST]
        return f"{', '.join(behind)} are not at level {LATEST}" if behind else ""

    async def _work(self, client: Client) -> None:
        rng = self.rng
        while not self.is_done:
            await client.pause(PAUSE_MS if self._is_healing else rng.choice((50, 400)))
            older = [each for each in self.machines if self.known[each.host] < LATEST]
            if self._is_healing:
                await self._change(client, UPGRADE, LATEST)
                if older:
                    await self._move(client, older[0], LATEST)
                else:
                    await self._change(client, SAFE_DOWNGRADE, LATEST - 1)
                    self.is_done = all(_level(each.image) == LATEST for each in self.machines)
            elif rng.random() < 0.5:
                await self._change(
                    client, rng.choice((UPGRADE, UPGRADE, SAFE_DOWNGRADE)), rng.randint(self.older, LATEST)
                )
            elif older and rng.random() > MOVE_BACK_SHARE:
                await self._move(client, rng.choice(older), LATEST)
            elif self._may_move_back and len(self.machines) > 1 and _level(newest_image(self.machines)) <= self.older:
                await self._move(client, rng.choice(self.machines), self.older)

    async def _move(self, client: Client, machine: "Machine", level: int) -> None:
        """Give a node another program, and wait until all can know."""
        host = machine.host
        self.world.tell(f"{machine} is to know level {level}")
        self._wanted[host] = level
        if machine.is_alive:
            machine.stop() if self.rng.random() < 0.5 else machine.kill()
        else:
            self.known[host] = level
        while not self._is_registered(machine, level):
            await client.pause(PAUSE_MS)

    def _is_registered(self, machine: "Machine", level: int) -> bool:
        """Whether the metadata have the program of a node as broker and as controller."""
        image = newest_image(self.machines)
        if image is None or self.known[machine.host] != level:
            return False
        nodes = [image.brokers.get(machine.node_id)]
        if machine.node_id in self.simulation.kind.voters:
            nodes.append(image.controllers.get(machine.node_id))
        return all(each is not None and each.features[FEATURE_NAME].highest == level for each in nodes)

    async def _change(self, client: Client, how: int, level: int) -> None:
        """Ask for a level. What is not answered may come to pass later, so that no program may become older then."""
        update = FeatureUpdateKey(feature=FEATURE_NAME, max_version_level=level, upgrade_type=how)
        request = UpdateFeaturesRequest(timeout_ms=2_000, feature_updates=[update])
        known = min(self.known.values())
        try:
            answer = await client.ask(client.any_node(), request)
        except NoAnswer:
            self._may_move_back = False
            return
        code = answer.error_code
        what = "raised" if how == UPGRADE else "lowered"
        self.world.tell(f"the level is to be {what} to {level}: {error_codes.name(code)} {answer.error_message or ''}")
        if code == error_codes.NONE and level > known:
            self.world.violated(f"the level is {level}, and a program knows {known}")
        if code not in (error_codes.NONE, error_codes.INVALID_UPDATE_VERSION):
            self._may_move_back = False


def _know(level: int) -> None:
    """Make the table of features that of a program with this newest level."""
    table: Any = features.SUPPORTED
    if table[FEATURE_NAME].highest != level:
        table[FEATURE_NAME] = FeatureRange(MINIMUM, level)
        features.SUPPORTED_LEVELS[FEATURE_NAME] = MINIMUM, level


def _level(image: Any) -> int:
    return 0 if image is None else image.metadata_version or 0
