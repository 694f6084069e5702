"""A world with an authorizer and client quotas: who is in it, and how it has to end."""

from typing import TYPE_CHECKING

from exactly_once.history import Seen

from .client import Client, NoAnswer, Refused
from .consuming import read_to_the_end
from .guarding import Guarding
from .guests import TOPICS, Guest, Written
from .identities import GUESTS
from .layout import QUOTA_WINDOWS
from .warden import Warden

if TYPE_CHECKING:
    from .simulation import Simulation

TIMEOUT_MS = 2_000.0
PATIENCE_MS = 90_000.0
"""Guests wait for long, so that one whose connection is never served again does not help itself by another."""
IMPATIENCE_MS = 3_000.0
HEAL_MS = 60_000.0
LOOK_MS = 60_000.0
MORE_ANSWERS = 2


class Protection:
    """All of it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.world = simulation.world
        self.guarding = Guarding(self.world, simulation.machines, QUOTA_WINDOWS)
        self.written = Written()
        self._warden: Warden | None = None
        self._guests: list[Guest] = []

    @property
    def clients(self) -> list[Client]:
        """The warden's and the guests'."""
        return [*([] if self._warden is None else [self._warden.client]), *(guest.client for guest in self._guests)]

    def begin(self) -> None:
        """Let ACLs and quotas change, and guests try everything."""
        warden = self._warden = Warden(self._client("warden", TIMEOUT_MS))
        warden.client.run(warden.work())
        for number, address in enumerate(GUESTS):
            client = self._client(address, IMPATIENCE_MS if number == 0 else PATIENCE_MS)
            guest = Guest(client, self.guarding, self.simulation.machines, self.written)
            self._guests.append(guest)
            client.run(guest.try_everything())

    def _client(self, name: str, timeout_ms: float) -> Client:
        client = Client(self.world, self.simulation.network, name, self.simulation.node_ids, timeout_ms)
        self.simulation.clients.append(client)
        return client

    def get_through(self) -> None:
        """Once all is well, and nobody has a quota any more, each guest is answered again."""
        assert self._warden is not None
        self._warden.client.is_over = True
        done: list[bool] = []

        async def rest(warden: Warden) -> None:
            await warden.rest()
            done.append(True)

        self._warden.client.run(rest(self._warden))
        self.simulation.within(HEAL_MS, lambda: bool(done), "quotas can be taken back")
        before = [guest.answers for guest in self._guests]

        def all_are_answered() -> bool:
            return all(guest.answers >= was + MORE_ANSWERS for guest, was in zip(self._guests, before, strict=True))

        self.simulation.within(HEAL_MS, all_are_answered, "guests are served again")
        for guest in self._guests:
            guest.client.is_over = True

    def verdict(self) -> str:
        """The fault that is found once everything is at rest; nothing if all is well."""
        client, answers, log = self._client("inspector", TIMEOUT_MS), list[str](), list[Seen]()

        async def look(warden: Warden) -> None:
            for _ in range(20):
                try:
                    wrong = await warden.look(client)
                    if not wrong:
                        log.extend(await read_to_the_end(client, [(name, 0) for name in TOPICS]))
                    answers.append(wrong)
                    return
                except (NoAnswer, Refused):
                    client.forget()
                    await client.pause(500)
            answers.append("nobody answers a client that looks how ACLs and quotas have ended")

        assert self._warden is not None
        client.run(look(self._warden))
        self.simulation.within(LOOK_MS, lambda: bool(answers), "a client can look how ACLs and quotas have ended")
        counts = f"{self.guarding.allowed} allowed, {self.guarding.denied} denied, {len(log)} written"
        self.world.tell(f"guests: {counts} of {len(self.written.attempts)} records")
        return answers[0] or self.written.verdict(log)
